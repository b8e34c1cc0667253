#include "core/relay/infer/dim_owners.h"

#include <algorithm>

#include "core/relay/functor.h"

namespace lathe::relay {
namespace {

using Path = std::vector<const Node*>;  // of functions, the outermost first

class Owners : public ExprVisitor {
 public:
  /// By variable: the functions around all of its mentions.
  std::unordered_map<const Node*, Path> found;

 private:
  void mention(const Type& type) {
    if (!type) return;
    post_order(type, [&](const NodeRef& node) {
      if (!node.as<lathe::VarNode>()) return;
      auto [owner, is_new] = found.try_emplace(node.get(), path_);
      if (is_new) return;
      Path& known = owner->second;
      size_t common = 0;
      while (common < std::min(known.size(), path_.size()) && known[common] == path_[common]) ++common;
      known.resize(common);
    });
  }

  void visit_var(const Var& e) override { mention(e->annotation); }

  void visit_function(const Ref<Function>& e) override {
    path_.push_back(e.get());
    for (const Var& param : e->params) mention(param->annotation);
    mention(e->result_type);
    visit(e->body);
    path_.pop_back();
  }

  void visit_call(const Ref<Call>& e) override {
    visit_default(e);
    for (const Type& each : e->type_args) mention(each);
    mention(e->out_type);
  }

  void visit_match_cast(const Ref<MatchCast>& e) override {
    visit_default(e);
    mention(e->type);
  }

  /// The annotation of a variable that names a function is the function's own.
  void enter_let(const Ref<Let>& let) override {
    bool is_function = let->value.as<Function>() != nullptr;
    if (is_function) path_.push_back(let->value.get());
    mention(let->var->annotation);
    if (is_function) path_.pop_back();
  }

  Path path_;
};

}  // namespace

std::unordered_map<const Node*, std::unordered_set<const Node*>> dim_owners(const Ref<Function>& root) {
  Owners owners;
  owners.visit(root);
  std::unordered_map<const Node*, std::unordered_set<const Node*>> result;
  for (const auto& [variable, path] : owners.found)
    if (path.size() > 1) result[path.back()].insert(variable);
  return result;
}

}  // namespace lathe::relay
