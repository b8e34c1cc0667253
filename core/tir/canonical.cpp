#include <unordered_map>

#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/tir/text.h"

namespace lathe::tir {
namespace {
/// New names for what a function defines, in the order of definition.
/// Programs that differ by names alone get equal text, of which the digest of a workload is taken.
class Renaming {
 public:
  explicit Renaming(const FuncNode& f) {
    for (const Buffer& param : f.params) {
      post_order(param, [&](const NodeRef& node) {
        if (node.as<VarNode>()) rename_var(node.cast<VarNode>(), "n");
      });
      buffers_.emplace(param.get(), name("p"));
    }
    visit(f.body);
  }

  /// The node under its new name: a new variable for each old one, the same everywhere.
  NodeRef renamed(const NodeRef& node) const {
    if (const VarNode* v = node.as<VarNode>()) {
      auto found = vars_.find(v);
      return found == vars_.end() ? node : NodeRef(found->second);
    }
    if (const Block* b = node.as<Block>()) {
      auto copy = mutate(*b);
      copy->name = blocks_.at(b->name);
      return seal(std::move(copy));
    }
    return node;
  }
  /// The new name of a buffer, by the original node.
  const std::unordered_map<const Node*, std::string>& buffers() const { return buffers_; }

 private:
  // p: parameters, n: their dimensions, i: loops, v: iterators, b: blocks, t: intermediates. These texts key
  // the database: another letter would orphan every record.
  std::string name(const char* prefix) { return fmt::format("{}{}", prefix, counts_[prefix]++); }

  void rename_var(const Var& v, const char* prefix) {
    if (!vars_.count(v.get())) vars_[v.get()] = var(name(prefix), v->dtype);
  }

  void visit(const Stmt& stmt) {
    if (!stmt) return;
    // Expressions define nothing.
    switch (stmt->kind()) {
      case StmtKind::kFor:
        rename_var(stmt.as<For>()->var, "i");
        return visit(stmt.as<For>()->body);
      case StmtKind::kBlock: {
        const Block& block = *stmt.as<Block>();
        // The root is known by its name.
        if (!blocks_.count(block.name)) blocks_[block.name] = block.name == "root" ? "root" : name("b");
        for (const BlockIter& iter : block.iters) rename_var(iter.var, "v");
        for (const Buffer& b : block.allocs) buffers_.emplace(b.get(), name("t"));
        visit(block.init);
        return visit(block.body);
      }
      case StmtKind::kSeq:
        for (const Stmt& s : stmt.as<Seq>()->stmts) visit(s);
        return;
      case StmtKind::kIf:
        visit(stmt.as<If>()->then_case);
        return visit(stmt.as<If>()->else_case);
      case StmtKind::kAlloc:
        buffers_.emplace(stmt.as<Alloc>()->buffer.get(), name("t"));
        return visit(stmt.as<Alloc>()->body);
      case StmtKind::kStore:
        return;
    }
  }

  std::map<std::string, int> counts_;
  std::map<std::string, std::string> blocks_;
  std::unordered_map<const Node*, Var> vars_;
  std::unordered_map<const Node*, std::string> buffers_;
};
}  // namespace

Func canonical(const Func& func) {
  Renaming renaming(*func);
  // Buffers first, while they are the nodes that were named; then variables, which may occur in their shapes.
  NodeRef named = rewrite(func, [&](const NodeRef& node) -> NodeRef {
    auto found = renaming.buffers().find(node.get());
    if (found == renaming.buffers().end()) return node;
    auto copy = mutate(*node.as<BufferNode>());
    copy->name = found->second;
    return seal(std::move(copy));
  });
  NodeRef result = rewrite(named, [&](const NodeRef& node) { return renaming.renamed(node); });
  auto copy = mutate(*result.as<FuncNode>());
  copy->name = "main";
  return seal(std::move(copy));
}

std::string workload_digest(const Func& func) { return sha256(print(canonical(func))); }

}  // namespace lathe::tir
