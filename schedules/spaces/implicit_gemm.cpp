// Schedules of convolutions after `im2col`: a matrix product whose register tiles run on across the ends of
// rows, so that odd widths leave no small tiles at edges. What a task reads of the data is gathered inside it
// (place_producers in tiled_reduction.cpp), where it stays in the second-level cache. A window of one tap and
// a stride of 1 gathers nothing: the product reads the data itself.
#include <algorithm>

#include "core/arith/simplify.h"
#include "core/support/error.h"
#include "core/tir/machine.h"
#include "schedules/spaces/building_blocks.h"
#include "schedules/tiling.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// Gathering a vector: a load, a store, and where it comes from.
constexpr double kGatherCycles = 12;
/// Where windows overlap, tiles find the direct algorithm's data in the first-level cache, and each gathered
/// copy of it in the second-level one, mostly while they multiply: this share of the time shows. Half the
/// vectors of a position's results share what they read.
constexpr double kShown = 0.2, kResultsOfATile = 2;
/// The model's error: with a measurement, a schedule need not be tried that is estimated this much slower.
constexpr double kHopeless = 1.02;
/// Estimated at this share of the direct algorithm's time, it is taken without a measurement.
constexpr double kClear = 0.93;

/// Groups of so many neighbours, of a dot product: as many as there are along `extent`.
bool is_grouped(const Block& block, const Expr& index, const Expr& extent) {
  const Binary* sum = index.as<Binary>();
  const Binary* group = sum && sum->op == BinaryOp::kAdd ? sum->a.as<Binary>() : nullptr;
  if (!group || group->op != BinaryOp::kMul) return false;
  const Expr count = extent_of(block, group->a.as<VarNode>()),
             length = extent_of(block, sum->b.as<VarNode>());
  return count && length && structural_equal(length, group->b) &&
         structural_equal(simplify(count * length), extent);
}

/// The gathered windows are the data in its own order: rows and columns of as many elements.
bool is_view(const Block& columns) {
  const Load* data = columns.body.as<Store>()->value.as<Load>();
  if (!data) return false;
  for (size_t d = 0; d < data->indices.size(); ++d) {
    const Expr& index = data->indices[d];
    const Binary* row = index.as<Binary>();
    if (index.as<VarNode>() || is_int(index, 0) || is_grouped(columns, index, data->buffer->shape[d]))
      continue;
    if (!row || row->op != BinaryOp::kFloorDiv || !row->a.as<VarNode>() || d + 1 == data->indices.size() ||
        !structural_equal(data->indices[d + 1], floormod(row->a, row->b)) ||
        !structural_equal(data->buffer->shape[d + 1], row->b))
      return false;
    ++d;
  }
  return true;
}

struct Product {
  BlockHandle block;
  double gathered = 0, copies = 0;  // elements; those beyond the data's own
};

/// im2col of `block`, joined with the element-wise blocks around it. Throws Error as the primitives do.
Product flatten(Schedule& s, const Ref<Block>& block) {
  Im2colBlocks b = s.im2col(s.get_block(block->name));
  inline_producers(s, b.columns);
  Product product{b.product};
  if (is_view(*s[b.columns])) {
    s.compute_inline(b.columns);
  } else {
    product.gathered = product.copies = static_cast<double>(iterations(*s[b.columns]));
    for (const Region& read : s[b.columns]->reads)
      product.copies -= static_cast<double>(byte_size(read.buffer) / read.buffer->dtype.bytes());
  }
  std::vector<Ref<Block>> consumers = consumers_of(s.func(), s[b.result]);
  if (consumers.size() == 1 && is_injective(*consumers[0]))
    s.reverse_compute_inline(s.get_block(consumers[0]->name));
  return product;
}

/// Cycles of all cores that the product takes for having its windows gathered.
double gathering(const Product& product, const VectorReduction& flat, const Target& target) {
  double results = 1, element = 1;  // vectors of results that share what is gathered
  for (size_t o = 0; o < flat.operands.size(); ++o) {
    if (flat.is_weight(o)) continue;
    element = flat.operands[o].buffer->dtype.bytes();
    for (size_t i = 0; i < flat.extents.size(); ++i)
      if (!flat.reduces[i] && !flat.operands[o].uses[i])
        results *= static_cast<double>(steps_of(flat, i, target));
  }
  double copies = std::max(product.copies, 0.0) * element * results / kResultsOfATile;
  double reading = copies * kShown / machine_of(target).l2_bandwidth;
  return (product.gathered / target.lanes() * kGatherCycles + reading) / target.cores;
}

/// Variables that a tile could extend along.
int64_t spatial_variables(const VectorReduction& reduction) {
  int64_t count = 0;
  for (size_t i = 0; i < reduction.extents.size(); ++i)
    count += !reduction.reduces[i] && reduction.extents[i] > 1;
  return count;
}
}  // namespace

ImplicitGemm implicit_gemm(const Func& func, const Target& target) {
  if (!dominant_reduction(func)) return ImplicitGemm::kNone;
  Schedule s(func);
  inline_elementwise(s);
  Ref<Block> block = dominant_reduction(s.func());
  auto direct = vector_reduction(block);
  if (!direct || vector_width(*direct, target) == 1 || !direct->broadcasts()) return ImplicitGemm::kNone;
  if (reduction_chain(s.func(), target).size() > 1) return ImplicitGemm::kNone;
  try {
    Product product = flatten(s, block);
    auto flat = vector_reduction(s[product.block]);
    if (!flat || vector_width(*flat, target) == 1) return ImplicitGemm::kNone;
    // One row, or one column.
    if (spatial_variables(*flat) == spatial_variables(*direct)) return ImplicitGemm::kNone;
    const double cycles = tilings(*flat, target)[0].cost + gathering(product, *flat, target);
    const double share = cycles / tilings(*direct, target)[0].cost;
    if (share > kHopeless) return ImplicitGemm::kNone;
    // What copies of windows that overlap cost is known too badly for that.
    return share <= kClear && product.copies <= 0 ? ImplicitGemm::kFirst : ImplicitGemm::kOther;
  } catch (const Error&) {
    return ImplicitGemm::kNone;  // no convolution
  }
}

void generate_implicit_gemm(Schedule& schedule, const Target& target, const Policy& policy) {
  inline_elementwise(schedule);
  Product product = flatten(schedule, dominant_reduction(schedule.func()));
  auto reduction = vector_reduction(schedule[product.block]);
  CHECK(reduction, "the space of implicit GEMM was asked to schedule another program");
  schedule_rest(schedule, target, schedule_tiled_reduction(schedule, *reduction, target, policy).done);
}

}  // namespace lathe::schedule
