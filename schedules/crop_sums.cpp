#include "schedules/crop_sums.h"

#include <algorithm>

#include "core/tir/builder.h"
#include "schedules/anatomy.h"
#include "schedules/padded_image.h"
#include "schedules/schedule.h"

namespace lathe::schedule {

using namespace tir;

namespace {
Analyzer known_in(const Block& block, Analyzer known) {
  for (const BlockIter& iter : block.iters) known.bind_range(iter.var, iter.extent);
  return known;
}

/// The padding is all that is seen where `iter` has this value, whatever the others are.
bool is_outside(const Block& block, const Expr& condition, const BlockIter& iter, int64_t value,
                const Analyzer& dims) {
  const Analyzer known = known_in(block, dims);
  const VarMap at{{iter.var.get(), Expr(value)}};
  for (const Expr& part : conjuncts(condition))
    if (is_int(known.simplify(substitute(part, at)), 0)) return true;
  return false;
}

/// Values first..end of a variable, at least one.
struct Seen {
  int64_t first, end;
};

Seen seen_values(const Block& block, const Expr& condition, const BlockIter& iter, int64_t extent,
                 const Analyzer& dims) {
  Seen seen{0, extent};
  while (seen.end - seen.first > 1 && is_outside(block, condition, iter, seen.first, dims)) ++seen.first;
  while (seen.end - seen.first > 1 && is_outside(block, condition, iter, seen.end - 1, dims)) --seen.end;
  return seen;
}

/// `program` with fewer values of one variable of the block, and of the loop around it that is this variable.
Func with_values(const Func& program, const Ref<Block>& block, size_t number, const Seen& seen) {
  const BlockIter& iter = block->iters[number];
  const auto path = path_to_block(program, block->name);
  const auto around = loops_around(*path);
  const auto loop = std::find_if(around.begin(), around.end(),
                                 [&](const Ref<For>& each) { return iter.value.same_as(each->var.get()); });
  if (loop == around.end()) return program;
  const Stmt cropped = changed(block, [&](Block& copy) {
    copy.iters[number].extent = seen.end - seen.first;
    copy.body = substitute(copy.body, VarMap{{iter.var.get(), iter.var + seen.first}});
    copy.body = rewrite(copy.body, [](const NodeRef& node) -> NodeRef {
                  const Load* load = node.as<Load>();
                  if (!load) return node;
                  auto simple = mutate(*load);
                  for (Expr& index : simple->indices) index = simplify(index);
                  return seal(std::move(simple));
                }).cast<StmtNode>();
    declare_accesses(copy);
  });
  Func result = replace(program, block, cropped);
  const auto now = loops_around(*path_to_block(result, block->name));
  const Ref<For>& shorter = now[static_cast<size_t>(loop - around.begin())];
  return replace(result, shorter, changed(shorter, [&](For& copy) { copy.extent = seen.end - seen.first; }));
}

Ref<Block> block_named(const Func& program, const std::string& name) {
  return path_to_block(program, name)->back().cast<Block>();
}

Func crop(const Func& program, const PaddedImage& padding, const std::string& name, const Analyzer& dims) {
  Func result = program;
  const size_t variables = block_named(program, name)->iters.size();
  for (size_t i = 0; i < variables; ++i) {
    const Ref<Block> block = block_named(result, name);
    const Load* load = neutral_load(*block, padding);
    const int64_t* extent = as_int(block->iters[i].extent);
    if (!load || !extent || block->iters[i].kind != IterKind::kReduce || !block->init) continue;
    const Seen seen = seen_values(*block, padding.condition_at(*load), block->iters[i], *extent, dims);
    if (seen.end - seen.first < *extent) result = with_values(result, block, i, seen);
  }
  return result;
}

/// Nobody reads the padding.
bool is_unseen(const Func& program, const PaddedImage& padding, const Analyzer& dims) {
  for (const Ref<Block>& reader : consumers_of(program, block_named(program, padding.block)))
    for (const Ref<Load>& load : loads_of(reader->body, padding.buffer))
      if (!known_in(*reader, dims).can_prove(padding.condition_at(*load))) return false;
  return true;
}

/// `program` with the image where the padded one was.
Func without(const Func& program, const PaddedImage& padding) {
  const Ref<Block> block = block_named(program, padding.block);
  const auto& store = *block->body.as<Store>();
  const Expr image = store.value.as<Select>()->if_true;
  const Func bare = replace(program, block, changed(block, [&](Block& copy) {
                              copy.body = tir::store(store.buffer, store.indices, image);
                              declare_accesses(copy);
                            }));
  Schedule schedule(bare);
  schedule.compute_inline(schedule.get_block(padding.block));
  return schedule.func();
}
}  // namespace

Func crop_sums(const Func& program, const Analyzer& dims) {
  Func result = program;
  for (const Ref<Block>& block : all_blocks(program)) {
    const auto padding = padded_image(program, *block);
    if (!padding) continue;
    std::vector<std::string> readers;
    for (const Ref<Block>& reader : consumers_of(program, block)) readers.push_back(reader->name);
    const Func before = result;
    for (const std::string& reader : readers) result = crop(result, *padding, reader, dims);
    if (result != before && is_unseen(result, *padding, dims)) result = without(result, *padding);
  }
  return result;
}

}  // namespace lathe::schedule
