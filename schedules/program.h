// Finding statements of a scheduled program and replacing them. Between blocks the tree is For, Seq and If;
// every statement stands in it once, so a pointer names a place.
#pragma once

#include <optional>
#include <set>
#include <unordered_map>

#include "core/arith/simplify.h"
#include "core/tir/stmt.h"

namespace lathe::schedule {

/// The statements from the function's body (first) down to one statement (last).
using Path = std::vector<tir::Stmt>;

std::optional<Path> path_to_block(const tir::Func& func, const std::string& name);
std::optional<Path> path_to_loop(const tir::Func& func, const Var& loop_var);
/// The path to `stmt`. REQUIRES: it is in the program.
Path path_to(const tir::Func& func, const tir::Stmt& stmt);

/// The loops around the last statement of `path`, up to the nearest block, outermost first; the statement
/// itself is not among them.
std::vector<Ref<tir::For>> loops_around(const Path& path);
/// The nearest block around the last statement. REQUIRES: it is not the root.
Ref<tir::Block> scope_of(const Path& path);
/// The blocks in `stmt`, in program order, not those nested inside them. `stmt` itself may be one.
std::vector<Ref<tir::Block>> blocks_in(const tir::Stmt& stmt);
/// All blocks of the program except the root, in program order, outer before inner.
std::vector<Ref<tir::Block>> all_blocks(const tir::Func& func);

/// `root` with the statement `old` replaced, or removed together with the loops it leaves empty when
/// `replacement` is null. REQUIRES: `old` stands in `root`.
tir::Stmt replace(const tir::Stmt& root, const tir::Stmt& old, const tir::Stmt& replacement);
tir::Func with_body(const tir::Func& func, tir::Stmt body);
tir::Func replace(const tir::Func& func, const tir::Stmt& old, const tir::Stmt& replacement);
/// A copy of `block` after `change` was run on it.
tir::Stmt changed(const Ref<tir::Block>& block, FunctionRef<void(tir::Block&)> change);
tir::Stmt changed(const Ref<tir::For>& loop, FunctionRef<void(tir::For&)> change);
/// The program with the block of that name changed.
tir::Func change_block(const tir::Func& func, const std::string& name, FunctionRef<void(tir::Block&)> change);

/// The ranges of the loops around the last statement of `path` (itself included when it is a loop) and of the
/// variables of the blocks around it.
Analyzer analyzer_at(const Path& path);
/// `stmt` with the bindings and predicates of its blocks simplified. `context` knows the variables around it.
tir::Stmt simplify_bindings(const tir::Stmt& stmt, Analyzer context);

/// Sets the declared reads and writes of a leaf block from its body.
void declare_accesses(tir::Block& block);

/// A name for a new block or buffer that no block or buffer of `func` has: `wish`, or with a number added.
std::string fresh_block_name(const tir::Func& func, const std::string& wish);
std::string fresh_buffer_name(const tir::Func& func, const std::string& wish);

/// The blocks of `stmts`'s subtree that read / write `buffer`.
bool reads_buffer(const tir::Block& block, const tir::BufferNode* buffer);
bool writes_buffer(const tir::Block& block, const tir::BufferNode* buffer);
/// Of one of the block's variables; null where `v` is none.
Expr extent_of(const tir::Block& block, const VarNode* v);
bool is_param(const tir::Func& func, const tir::Buffer& buffer);

/// Blocks of the same scope as `block` that write what it reads / read what it writes, in program order.
std::vector<Ref<tir::Block>> producers_of(const tir::Func& func, const Ref<tir::Block>& block);
std::vector<Ref<tir::Block>> consumers_of(const tir::Func& func, const Ref<tir::Block>& block);

/// Who reads what in a program, for many questions about the same one: the functions above look through a
/// scope for each.
class Readers {
 public:
  /// O(blocks and what they read).
  explicit Readers(const tir::Func& func);
  /// As above. REQUIRES: `block` is in the program.
  std::vector<Ref<tir::Block>> consumers_of(const Ref<tir::Block>& block) const;

 private:
  struct Reader {
    size_t place;  // among all blocks, in program order
    Ref<tir::Block> block;
  };
  void add(const tir::Stmt& stmt, const tir::Block* scope);

  std::unordered_map<const tir::Block*, const tir::Block*> scopes_;
  std::unordered_map<const tir::BufferNode*, std::vector<Reader>> readers_;
};

/// The statement of the scope's sequence that holds the end of `path`.
tir::Stmt top_statement(const Path& path);
/// `func` with `buffer` allocated by the block named `scope`.
tir::Func with_alloc(const tir::Func& func, const std::string& scope, const tir::Buffer& buffer);

/// Nests `body` in the loops of `vars`, the first outermost.
tir::Stmt nest(const std::vector<std::pair<Var, Expr>>& vars, tir::Stmt body);

}  // namespace lathe::schedule
