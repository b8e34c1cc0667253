#include "schedules/program.h"

#include <algorithm>
#include <map>

#include "core/support/error.h"
#include "core/tir/regions.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// Whether `wanted` says so of one of the statements right below `stmt`, the first that it does; a block's
/// init is not among them (it holds no loops to schedule).
bool any_below(const Stmt& stmt, FunctionRef<bool(const Stmt&)> wanted) {
  if (const For* loop = stmt.as<For>()) return wanted(loop->body);
  if (const Block* block = stmt.as<Block>()) return wanted(block->body);
  if (const Seq* seq = stmt.as<Seq>()) return std::any_of(seq->stmts.begin(), seq->stmts.end(), wanted);
  if (const If* branch = stmt.as<If>())
    return wanted(branch->then_case) || (branch->else_case && wanted(branch->else_case));
  return false;
}

/// Depth first, in program order, to the first statement that is wanted: puts it on `path`, and on the way up
/// what stands around it. O(statements).
bool find(const Stmt& stmt, FunctionRef<bool(const Stmt&)> wanted, Path& path) {
  const bool found =
      wanted(stmt) || any_below(stmt, [&](const Stmt& child) { return find(child, wanted, path); });
  if (found) path.push_back(stmt);
  return found;
}

std::optional<Path> find_path(const Func& func, FunctionRef<bool(const Stmt&)> wanted) {
  Path path;
  if (!find(func->body, wanted, path)) return std::nullopt;
  std::reverse(path.begin(), path.end());
  return path;
}

/// Appends the blocks in `stmt` in program order; those inside other blocks too when `nested`.
void collect_blocks(const Stmt& stmt, bool nested, std::vector<Ref<Block>>& blocks) {
  if (stmt.as<Block>()) {
    blocks.push_back(stmt.cast<Block>());
    if (!nested) return;
  }
  any_below(stmt, [&](const Stmt& child) {
    collect_blocks(child, nested, blocks);
    return false;
  });
}

/// `wish`, or it with the least number that makes it new: names, and with them traces, are the same in each
/// run.
std::string fresh(const std::set<std::string>& taken, const std::string& wish) {
  std::string name = wish;
  for (int i = 1; taken.count(name); ++i) name = fmt::format("{}_{}", wish, i);
  return name;
}
}  // namespace

std::optional<Path> path_to_block(const Func& func, const std::string& name) {
  return find_path(func, [&](const Stmt& stmt) {
    const Block* block = stmt.as<Block>();
    return block && block->name == name;
  });
}

std::optional<Path> path_to_loop(const Func& func, const Var& loop_var) {
  return find_path(func, [&](const Stmt& stmt) {
    const For* loop = stmt.as<For>();
    return loop && loop->var == loop_var;
  });
}

Path path_to(const Func& func, const Stmt& stmt) {
  auto path = find_path(func, [&](const Stmt& other) { return other == stmt; });
  CHECK(path, "a statement is not in the program");
  return *path;
}

std::vector<Ref<For>> loops_around(const Path& path) {
  std::vector<Ref<For>> loops;
  for (size_t i = path.size() - 1; i-- > 0;) {
    if (path[i].as<Block>()) break;
    if (path[i].as<For>()) loops.insert(loops.begin(), path[i].cast<For>());
  }
  return loops;
}

Ref<Block> scope_of(const Path& path) {
  for (size_t i = path.size() - 1; i-- > 0;)
    if (path[i].as<Block>()) return path[i].cast<Block>();
  CHECK(false, "the root block has no scope");
  return nullptr;
}

std::vector<Ref<Block>> blocks_in(const Stmt& stmt) {
  std::vector<Ref<Block>> blocks;
  collect_blocks(stmt, false, blocks);
  return blocks;
}

std::vector<Ref<Block>> all_blocks(const Func& func) {
  std::vector<Ref<Block>> blocks;
  collect_blocks(func->body, true, blocks);
  // The root.
  blocks.erase(blocks.begin());
  return blocks;
}

/// Null stands for "nothing left" on the way up: a loop around nothing vanishes with it, a block stays as an
/// empty one. Only what stands above `old` is copied; all else is shared with the program before.
Stmt replace(const Stmt& root, const Stmt& old, const Stmt& replacement) {
  if (root == old) return replacement;
  if (const For* loop = root.as<For>()) {
    Stmt body = replace(loop->body, old, replacement);
    if (body == loop->body) return root;
    return body ? changed(root.cast<For>(), [&](For& copy) { copy.body = body; }) : nullptr;
  }
  if (const Block* block = root.as<Block>()) {
    Stmt body = replace(block->body, old, replacement);
    if (body == block->body) return root;
    if (!body) body = make<Seq>(std::vector<Stmt>{});
    return changed(root.cast<Block>(), [&](Block& copy) { copy.body = body; });
  }
  if (const Seq* sequence = root.as<Seq>()) {
    std::vector<Stmt> stmts;
    bool same = true;
    for (const Stmt& stmt : sequence->stmts) {
      // Once found it is not searched for again: a statement stands in the tree once.
      Stmt next = same ? replace(stmt, old, replacement) : stmt;
      same &= next == stmt;
      if (next) stmts.push_back(next);
    }
    if (same) return root;
    return stmts.empty() ? nullptr : seq(std::move(stmts));
  }
  if (const If* branch = root.as<If>()) {
    Stmt then_case = replace(branch->then_case, old, replacement);
    Stmt else_case = branch->else_case ? replace(branch->else_case, old, replacement) : nullptr;
    if (then_case == branch->then_case && else_case == branch->else_case) return root;
    if (!then_case && !else_case) return nullptr;
    if (!then_case) return make<If>(logical_not(branch->condition), else_case);
    return make<If>(branch->condition, then_case, else_case);
  }
  return root;
}

Func with_body(const Func& func, Stmt body) {
  auto copy = mutate(*func);
  copy->body = std::move(body);
  return seal(std::move(copy));
}

Func replace(const Func& func, const Stmt& old, const Stmt& replacement) {
  Stmt body = replace(func->body, old, replacement);
  // Nodes are shared when nothing changed, so an equal body means that `old` was not found.
  CHECK(body != func->body || old == replacement, "a statement to replace is not in the program");
  return with_body(func, body);
}

Stmt changed(const Ref<Block>& block, FunctionRef<void(Block&)> change) {
  auto copy = mutate(*block);
  change(*copy);
  return seal(std::move(copy));
}

Stmt changed(const Ref<For>& loop, FunctionRef<void(For&)> change) {
  auto copy = mutate(*loop);
  change(*copy);
  return seal(std::move(copy));
}

Func change_block(const Func& func, const std::string& name, FunctionRef<void(Block&)> change) {
  auto path = path_to_block(func, name);
  CHECK(path, "no block {}", name);
  return replace(func, path->back(), changed(path->back().cast<Block>(), change));
}

namespace {
/// The range of what `stmt` itself binds: a loop's variable, or a block's.
void bind_vars(const Stmt& stmt, Analyzer& context) {
  if (const For* loop = stmt.as<For>()) context.bind_range(loop->var, loop->extent);
  if (const Block* block = stmt.as<Block>())
    for (const BlockIter& iter : block->iters) context.bind_range(iter.var, iter.extent);
}
}  // namespace

Analyzer analyzer_at(const Path& path) {
  Analyzer context;
  for (const Stmt& stmt : path) bind_vars(stmt, context);
  return context;
}

/// `context` is taken by value: what a loop binds is known inside it alone. Bodies of blocks need nothing,
/// since they speak of the blocks' own variables.
Stmt simplify_bindings(const Stmt& stmt, Analyzer context) {
  if (const For* loop = stmt.as<For>()) {
    bind_vars(stmt, context);
    Stmt body = simplify_bindings(loop->body, std::move(context));
    return body == loop->body ? stmt : changed(stmt.cast<For>(), [&](For& copy) { copy.body = body; });
  }
  if (stmt.as<Block>()) {
    return changed(stmt.cast<Block>(), [&](Block& copy) {
      for (BlockIter& iter : copy.iters) iter.value = context.simplify(iter.value);
      copy.predicate = context.simplify(copy.predicate);
    });
  }
  if (const Seq* sequence = stmt.as<Seq>()) {
    std::vector<Stmt> stmts;
    for (const Stmt& child : sequence->stmts) stmts.push_back(simplify_bindings(child, context));
    return seq(std::move(stmts));
  }
  return stmt;
}

/// Primitives that rewrite a body call this last: verify() compares what is declared with what is there.
void declare_accesses(Block& block) {
  Accesses accesses = block_accesses(block.iters, block.init, block.body);
  block.reads = std::move(accesses.reads);
  block.writes = std::move(accesses.writes);
}

std::string fresh_block_name(const Func& func, const std::string& wish) {
  // The root block is not among all_blocks().
  std::set<std::string> taken{"root"};
  for (const Ref<Block>& block : all_blocks(func)) taken.insert(block->name);
  return fresh(taken, wish);
}

std::string fresh_buffer_name(const Func& func, const std::string& wish) {
  std::set<std::string> taken;
  for (const Buffer& param : func->params) taken.insert(param->name);
  for (const Buffer& buffer : func->body.cast<Block>()->allocs) taken.insert(buffer->name);
  for (const Ref<Block>& block : all_blocks(func))
    for (const Buffer& buffer : block->allocs) taken.insert(buffer->name);
  return fresh(taken, wish);
}

bool reads_buffer(const Block& block, const BufferNode* buffer) {
  for (const Region& region : block.reads)
    if (region.buffer.same_as(buffer)) return true;
  return false;
}

bool writes_buffer(const Block& block, const BufferNode* buffer) {
  for (const Region& region : block.writes)
    if (region.buffer.same_as(buffer)) return true;
  return false;
}

Expr extent_of(const Block& block, const VarNode* v) {
  const auto iter = std::find_if(block.iters.begin(), block.iters.end(),
                                 [&](const BlockIter& each) { return each.var.get() == v; });
  return iter == block.iters.end() ? Expr() : iter->extent;
}

bool is_param(const Func& func, const Buffer& buffer) {
  for (const Buffer& param : func->params)
    if (param == buffer) return true;
  return false;
}

namespace {
/// The other blocks right in the scope of `block` that touch one of the buffers of `regions`. The whole scope
/// is looked at, before and after the block: who comes first is the caller's question.
std::vector<Ref<Block>> related(const Func& func, const Ref<Block>& block, const std::vector<Region>& regions,
                                bool (*touches)(const Block&, const BufferNode*)) {
  std::vector<Ref<Block>> result;
  for (const Ref<Block>& other : blocks_in(scope_of(path_to(func, block))->body)) {
    bool related = false;
    for (const Region& region : regions) related |= touches(*other, region.buffer.get());
    if (related && other != block) result.push_back(other);
  }
  return result;
}
}  // namespace

std::vector<Ref<Block>> producers_of(const Func& func, const Ref<Block>& block) {
  return related(func, block, block->reads, writes_buffer);
}

std::vector<Ref<Block>> consumers_of(const Func& func, const Ref<Block>& block) {
  return related(func, block, block->writes, reads_buffer);
}

Readers::Readers(const Func& func) { add(func->body, nullptr); }

void Readers::add(const Stmt& stmt, const Block* scope) {
  const Block* block = stmt.as<Block>();
  if (block) {
    const Reader reader{scopes_.size(), stmt.cast<Block>()};
    scopes_.emplace(block, scope);
    for (const Region& region : block->reads) {
      std::vector<Reader>& of_buffer = readers_[region.buffer.get()];
      if (of_buffer.empty() || of_buffer.back().place != reader.place) of_buffer.push_back(reader);
    }
  }
  any_below(stmt, [&](const Stmt& child) {
    add(child, block ? block : scope);
    return false;
  });
}

std::vector<Ref<Block>> Readers::consumers_of(const Ref<Block>& block) const {
  const Block* scope = scopes_.at(block.get());
  std::map<size_t, Ref<Block>> consumers;
  for (const Region& region : block->writes) {
    auto readers = readers_.find(region.buffer.get());
    if (readers == readers_.end()) continue;
    for (const Reader& reader : readers->second)
      if (reader.block != block && scopes_.at(reader.block.get()) == scope)
        consumers.emplace(reader.place, reader.block);
  }
  std::vector<Ref<Block>> result;
  for (const auto& [place, consumer] : consumers) result.push_back(consumer);
  return result;
}

Stmt top_statement(const Path& path) {
  size_t i = path.size() - 1;
  // Up to the child of the nearest block; when that is the block's sequence, the statement in it that leads
  // on.
  while (!path[i - 1].as<Block>()) --i;
  return path[i].as<Seq>() ? path[i + 1] : path[i];
}

Func with_alloc(const Func& func, const std::string& scope, const Buffer& buffer) {
  if (func->body.as<Block>()->name == scope)
    return with_body(func,
                     changed(func->body.cast<Block>(), [&](Block& root) { root.allocs.push_back(buffer); }));
  return change_block(func, scope, [&](Block& block) { block.allocs.push_back(buffer); });
}

Stmt nest(const std::vector<std::pair<Var, Expr>>& vars, Stmt body) {
  for (size_t i = vars.size(); i-- > 0;) body = for_loop(vars[i].first, vars[i].second, std::move(body));
  return body;
}

}  // namespace lathe::schedule
