#include "schedules/primitives/algorithm.h"

namespace lathe::schedule {

using namespace tir;

void require_unscheduled(const Application& a, const Path& path) {
  a.require_outermost(path);
  const Block& block = *path.back().as<Block>();
  std::vector<Ref<For>> loops = loops_around(path);
  // Variable i is loop i over the same values: a new algorithm then need not know of any loop.
  bool plain = loops.size() == block.iters.size() && is_int(block.predicate, 1) && block.allocs.empty();
  for (size_t i = 0; plain && i < loops.size(); ++i)
    plain = block.iters[i].value.same_as(loops[i]->var.get()) &&
            structural_equal(block.iters[i].extent, loops[i]->extent);
  if (!plain || blocks_in(top_statement(path)).size() != 1)
    a.fail("block `{}` is scheduled already", block.name);
}

void require_constant_extents(const Application& a, const Path& path) {
  const Block& block = *path.back().as<Block>();
  for (const BlockIter& iter : block.iters)
    if (!as_int(iter.extent))
      a.fail("variable {} of block `{}` has no constant extent", iter.var->name, block.name);
}

Func with_algorithm(const Application& a, const Block& block, const Stmt& stmts,
                    const std::vector<Buffer>& buffers) {
  Func func = replace(a.func, top_statement(*path_to_block(a.func, block.name)), stmts);
  return with_body(func, changed(func->body.cast<Block>(), [&](Block& root) {
                     root.allocs.insert(root.allocs.end(), buffers.begin(), buffers.end());
                   }));
}

Stmt copy_nest(const std::string& name, const Buffer& from, const Buffer& to) {
  Block block;
  block.name = name;
  std::vector<std::pair<Var, Expr>> loops;
  std::vector<Expr> indices;
  for (size_t d = 0; d < from->shape.size(); ++d) {
    Var v = var(fmt::format("v{}", d)), loop = var(fmt::format("c{}", d));
    block.iters.push_back({v, from->shape[d], IterKind::kSpatial, loop});
    loops.emplace_back(loop, from->shape[d]);
    indices.push_back(v);
  }
  block.body = store(to, indices, load(from, indices));
  declare_accesses(block);
  return nest(loops, seal(std::make_unique<Block>(block)));
}

}  // namespace lathe::schedule
