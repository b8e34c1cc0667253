#include "schedules/crop_sums.h"

#include <algorithm>

#include "core/tir/builder.h"
#include "schedules/anatomy.h"
#include "schedules/schedule.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// A block that surrounds an image with something: t[v...] = select(condition, value, nothing).
struct Padding {
  std::string block;
  Buffer buffer;
  std::vector<const VarNode*> vars;  // by dimension of the buffer
  Expr condition, nothing;

  /// Where the image itself is at the place that the load reads.
  Expr condition_at(const Load& load) const {
    VarMap at;
    for (size_t d = 0; d < vars.size(); ++d) at[vars[d]] = load.indices[d];
    return substitute(condition, at);
  }
};

std::optional<Padding> padding_of(const Func& program, const Block& block) {
  const Store* store = block.body.as<Store>();
  if (!store || !is_injective(block) || is_param(program, store->buffer)) return std::nullopt;
  const Select* select = store->value.as<Select>();
  if (!select) return std::nullopt;
  Padding padding{block.name, store->buffer, {}, select->condition, select->if_false};
  for (const Expr& index : store->indices) {
    const VarNode* v = index.as<VarNode>();
    if (!v || std::find(padding.vars.begin(), padding.vars.end(), v) != padding.vars.end())
      return std::nullopt;
    padding.vars.push_back(v);
  }
  return padding.vars.size() == block.iters.size() ? std::optional(padding) : std::nullopt;
}

Analyzer known_in(const Block& block, Analyzer known) {
  for (const BlockIter& iter : block.iters) known.bind_range(iter.var, iter.extent);
  return known;
}

/// The padded image as a factor of the terms that the block adds up, or as what it takes the largest of. Null
/// where a term may be something though the image is not.
const Load* neutral_load(const Block& block, const Padding& padding) {
  const Store* store = block.body.as<Store>();
  if (!store || !is_reduction(block) || !accumulates(*store)) return nullptr;
  const Binary& update = *store->value.as<Binary>();
  const auto combiner = combiner_of(update.op);
  if (!combiner || !structural_equal(padding.nothing, identity_of(*combiner, padding.buffer->dtype)))
    return nullptr;
  auto is_image = [&](const Expr& e) {
    const Load* load = e.as<Load>();
    return load && load->buffer == padding.buffer ? load : nullptr;
  };
  if (const Load* alone = is_image(update.b)) return alone;
  const Binary* product = *combiner == Combiner::kSum ? update.b.as<Binary>() : nullptr;
  if (!product || product->op != BinaryOp::kMul) return nullptr;
  const Load* left = is_image(product->a);
  return left ? left : is_image(product->b);
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

Func crop(const Func& program, const Padding& padding, const std::string& name, const Analyzer& dims) {
  Func result = program;
  const size_t variables = block_named(program, name)->iters.size();
  for (size_t i = 0; i < variables; ++i) {
    const Ref<Block> block = block_named(result, name);
    const Load* load = neutral_load(*block, padding);
    const int64_t* extent = as_int(block->iters[i].extent);
    if (!load || !extent || block->iters[i].kind != IterKind::kReduce) continue;
    const Seen seen = seen_values(*block, padding.condition_at(*load), block->iters[i], *extent, dims);
    if (seen.end - seen.first < *extent) result = with_values(result, block, i, seen);
  }
  return result;
}

/// Nobody reads the padding.
bool is_unseen(const Func& program, const Padding& padding, const Analyzer& dims) {
  for (const Ref<Block>& reader : consumers_of(program, block_named(program, padding.block)))
    for (const Ref<Load>& load : loads_of(reader->body, padding.buffer))
      if (!known_in(*reader, dims).can_prove(padding.condition_at(*load))) return false;
  return true;
}

/// `program` with the image where the padded one was.
Func without(const Func& program, const Padding& padding) {
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
    const auto padding = padding_of(program, *block);
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
