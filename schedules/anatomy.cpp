#include "schedules/anatomy.h"

#include <algorithm>
#include <numeric>

#include "core/tir/machine.h"
#include "core/tir/regions.h"

namespace lathe::schedule {

using namespace tir;

bool is_injective(const Block& block) {
  for (const BlockIter& iter : block.iters)
    if (iter.kind != IterKind::kSpatial) return false;
  return !block.init && block.body.as<Store>() && block.writes.size() == 1;
}

bool is_reduction(const Block& block) {
  bool reduces = false;
  for (const BlockIter& iter : block.iters) {
    if (iter.kind == IterKind::kOpaque) return false;
    reduces |= iter.kind == IterKind::kReduce;
  }
  return reduces && block.init && block.body.as<Store>() && block.writes.size() == 1;
}

int64_t iterations(const Block& block) {
  int64_t count = 1;
  for (const BlockIter& iter : block.iters) count *= as_int(iter.extent) ? int_value(iter.extent) : 0;
  return count;
}

std::vector<Ref<Load>> loads_of(const NodeRef& root, const Buffer& buffer) {
  std::vector<Ref<Load>> loads;
  post_order(root, [&](const NodeRef& node) {
    const Load* load = node.as<Load>();
    const auto is_known = [&](const Ref<Load>& other) { return structural_equal(other, node); };
    if (load && (!buffer || load->buffer == buffer) && std::none_of(loads.begin(), loads.end(), is_known))
      loads.push_back(node.cast<Load>());
  });
  return loads;
}

bool any_uses(const std::vector<Expr>& indices, const Var& v) {
  return std::any_of(indices.begin(), indices.end(),
                     [&](const Expr& index) { return uses_var(index, v.get()); });
}

namespace {
/// How far apart the elements at `indices` are in memory for neighbouring values of `lane`; 0 when that is
/// not the same everywhere.
int64_t stride_of(const std::vector<Expr>& indices, const Var& lane) {
  if (indices.empty()) return 0;
  for (size_t d = 0; d + 1 < indices.size(); ++d)
    if (uses_var(indices[d], lane.get())) return 0;
  std::vector<Var> vars{lane};
  // Only the last dimension: a variable that moves another one as well, or is divided, has no single stride.
  auto form = linear_form(indices.back(), vars);
  return form ? form->coefficients[lane.get()] : 0;
}
}  // namespace

bool is_contiguous(const std::vector<Expr>& indices, const Var& lane) {
  return stride_of(indices, lane) == 1;
}

bool is_in_strides(const std::vector<Expr>& indices, const Var& lane) {
  const int64_t stride = stride_of(indices, lane);
  return stride >= 1 && stride <= kMostLaneStride;
}

bool loads_in_strides(const Expr& value, const Var& lane, int64_t most, bool past_others) {
  bool good = true;
  post_order(value, [&](const NodeRef& node) {
    const Load* load = node.as<Load>();
    if (!load || !any_uses(load->indices, lane)) return;
    std::vector<Expr> indices = load->indices;
    int64_t behind = 1;  // elements of the axes that the lane does not move along
    while (past_others && indices.size() > 1 && !uses_var(indices.back(), lane.get())) {
      const int64_t* extent = as_int(load->buffer->shape[indices.size() - 1]);
      if (!extent || *extent < 1 || *extent > most) break;
      behind *= *extent;
      indices.pop_back();
    }
    const int64_t stride = stride_of(indices, lane);
    good &= stride >= 1 && behind <= most && stride * behind <= most;
  });
  return good;
}

bool loads_contiguously(const Expr& value, const Var& lane) { return loads_in_strides(value, lane, 1); }

namespace {
/// cast(load) with the load contiguous along `k`, which its last dimension holds whole multiples of; or null.
const Load* widened_load(const Expr& e, const Var& k, int64_t extent) {
  const Cast* cast = e.as<Cast>();
  const Load* load = cast ? cast->value.as<Load>() : nullptr;
  if (!load || !is_contiguous(load->indices, k)) return nullptr;
  const int64_t* last = as_int(load->buffer->shape.back());
  return last && *last % extent == 0 ? load : nullptr;
}

/// What `block` adds to its sum, when that is a product; or null.
const Binary* summed_product(const Block& block) {
  const Store* update = block.body.as<Store>();
  const Binary* sum = update ? update->value.as<Binary>() : nullptr;
  const Binary* product = sum && sum->op == BinaryOp::kAdd ? sum->b.as<Binary>() : nullptr;
  const Load* total = sum ? sum->a.as<Load>() : nullptr;
  bool sums = product && product->op == BinaryOp::kMul && total && total->buffer == update->buffer;
  return sums ? product : nullptr;
}
}  // namespace

int64_t products_at_once(const Block& block) {
  const Binary* product = is_reduction(block) ? summed_product(block) : nullptr;
  int64_t most = 1;
  // Both operands have to be widened from types of one length; a null product gives 1.
  for (const Expr* operand : {product ? &product->a : nullptr, product ? &product->b : nullptr}) {
    const Cast* widened = operand ? operand->as<Cast>() : nullptr;
    int64_t length = widened ? dot_length(widened->value.dtype(), product->dtype) : 0;
    if (length == 0 || (most > 1 && length != most)) return 1;
    most = length;
  }
  return most;
}

DataType operand_type(const Block& block) {
  const Buffer& sums = block.body.as<Store>()->buffer;
  auto operand = std::find_if(block.reads.begin(), block.reads.end(),
                              [&](const Region& read) { return read.buffer != sums; });
  return operand == block.reads.end() ? sums->dtype : operand->buffer->dtype;
}

std::optional<DotProduct> dot_product(const Block& block) {
  const Binary* product = summed_product(block);
  if (!product || block.iters.empty() || block.iters.back().kind != IterKind::kReduce) return std::nullopt;
  const BlockIter& last = block.iters.back();
  if (!as_int(last.extent)) return std::nullopt;
  int64_t extent = int_value(last.extent);
  const Load* x = widened_load(product->a, last.var, extent);
  const Load* y = widened_load(product->b, last.var, extent);
  if (!x || !y || dot_length(x->buffer->dtype, product->dtype) != extent ||
      dot_length(y->buffer->dtype, product->dtype) != extent)
    return std::nullopt;
  return DotProduct{last.var, x->buffer, y->buffer};
}

int64_t VectorReduction::terms() const {
  int64_t most = 1;
  for (const Operand& operand : operands) most = std::max(most, operand.places);
  return most;
}

double VectorReduction::steps() const {
  double result = 1;
  for (size_t i = 0; i < extents.size(); ++i)
    if (reduces[i] && i != dot) result *= static_cast<double>(extents[i]);
  return result;
}

/// The innermost of several reduction variables, where it has few values and nothing is broadcast.
std::optional<size_t> VectorReduction::window() const {
  constexpr int64_t kLargest = 8;
  if (broadcasts() || dot || std::count(reduces.begin(), reduces.end(), true) < 2) return std::nullopt;
  for (size_t i = reduces.size(); i-- > 0;)
    if (reduces[i]) return extents[i] > 1 && extents[i] <= kLargest ? std::optional(i) : std::nullopt;
  return std::nullopt;
}

/// The product of the result's extents that no weight is indexed with.
double VectorReduction::positions() const {
  double count = 1;
  for (size_t i = 0; i < extents.size(); ++i) {
    bool weighs = false;
    for (size_t o = 0; o < operands.size(); ++o) weighs |= is_weight(o) && operands[o].uses[i];
    if (!reduces[i] && !weighs) count *= static_cast<double>(extents[i]);
  }
  return count;
}

bool VectorReduction::broadcasts() const {
  for (const Operand& operand : operands)
    if (!operand.contiguous) return true;
  return false;
}

namespace {
/// e as v // n (v % n), giving n; else 0.
int64_t divisor_of(const Expr& e, BinaryOp op, const Var& v) {
  const Binary* binary = e.as<Binary>();
  bool matches = binary && binary->op == op && binary->a == v && as_int(binary->b);
  return matches ? int_value(binary->b) : 0;
}

}  // namespace

int64_t run_of(const std::vector<Expr>& indices, const Var& lane, int64_t whole) {
  if (indices.empty()) return 0;
  // A lane that is cut in two, [.., lane // n, .., lane % n]: neighbours within n are neighbours in memory.
  int64_t packed = divisor_of(indices.back(), BinaryOp::kFloorMod, lane);
  for (size_t d = 0; d + 1 < indices.size(); ++d)
    if (uses_var(indices[d], lane.get()) &&
        (packed == 0 || divisor_of(indices[d], BinaryOp::kFloorDiv, lane) != packed))
      return 0;
  if (packed) return packed;
  std::vector<Var> vars{lane};
  auto form = linear_form(indices.back(), vars);
  return form && form->coefficients[lane.get()] == 1 ? whole : 0;
}

void fit_to_loop(VectorReduction& reduction, size_t i, const Block& block, const For& loop) {
  int64_t extent = int_value(loop.extent);
  // A part of the values: what lies beyond belongs to another iteration of the loops around, so tiles may not
  // stick out into it. With a predicate some of the part's values do not exist, and a tile could be cut
  // anywhere, unless it is the last ones alone.
  if (extent < reduction.extents[i]) reduction.fits[i] = Fit::kExact;
  if (uses_var(block.predicate, loop.var.get()))
    reduction.fits[i] = reduction.is_part ? Fit::kExact : Fit::kSingle;
  reduction.extents[i] = extent;
}

namespace {
/// By block variable.
std::vector<int64_t> strides_of(const Load& load, const Block& block) {
  std::vector<Var> vars;
  for (const BlockIter& iter : block.iters) vars.push_back(iter.var);
  std::vector<int64_t> strides(vars.size(), 0);
  int64_t elements = 1;  // of the dimensions inside
  // From the innermost dimension, whose elements are neighbours, outwards.
  for (size_t d = load.indices.size(); d-- > 0;) {
    auto linear = linear_form(load.indices[d], vars);
    const int64_t* extent = as_int(load.buffer->shape[d]);
    if (!linear || !extent) return std::vector<int64_t>(vars.size(), 0);
    for (size_t i = 0; i < vars.size(); ++i)
      if (auto found = linear->coefficients.find(vars[i].get()); found != linear->coefficients.end())
        strides[i] += found->second * elements;
    elements *= *extent;
  }
  return strides;
}
}  // namespace

/// Neighbours in the last dimension of a packed operand, of which `load` reads one, are summed within a lane:
/// a dot product that is written out. Those of one element of the lane's own are lanes.
bool is_of_group(const Load& load, DataType sum) {
  return load.indices.size() > 1 && as_int(load.indices.back()) &&
         is_int(load.buffer->shape.back(), dot_length(load.buffer->dtype, sum));
}

/// Adds `operand`, or counts it with one that lies in the same way: places that differ by constants, of terms
/// that are written out.
void add_operand(VectorReduction& reduction, Operand operand) {
  for (Operand& known : reduction.operands)
    if (known.buffer == operand.buffer && known.uses == operand.uses && known.strides == operand.strides &&
        known.contiguous == operand.contiguous) {
      ++known.places;
      return;
    }
  reduction.operands.push_back(std::move(operand));
}

/// Reads the block's one store: which variable lanes lie along, which operands are vectors and which are the
/// same for all lanes. Nothing when an operand would have to be gathered.
std::optional<VectorReduction> vector_reduction(const Ref<Block>& block) {
  if (!is_reduction(*block)) return std::nullopt;
  const Store& update = *block->body.as<Store>();
  VectorReduction result;
  result.block = block->name;
  std::optional<size_t> vector;
  for (size_t i = 0; i < block->iters.size(); ++i) {
    const BlockIter& iter = block->iters[i];
    if (!as_int(iter.extent)) return std::nullopt;
    result.extents.push_back(int_value(iter.extent));
    result.reduces.push_back(iter.kind == IterKind::kReduce);
    result.fits.push_back(Fit::kAny);
    if (!update.indices.empty() && update.indices.back() == iter.var) vector = i;
  }
  // Without a variable of its own along the last dimension of the result there is nothing to lay lanes along.
  if (!vector || result.extents[*vector] == 1) return std::nullopt;
  result.vector = *vector;
  const Var& lane = block->iters[*vector].var;
  result.bits = std::max(32, static_cast<int>(update.buffer->dtype.bits));
  result.run = result.extents[*vector];
  // As the only variable of the reduction it is better left a loop, or there would be none.
  bool sums_more = std::count(result.reduces.begin(), result.reduces.end(), true) > 1;
  if (sums_more && dot_product(*block)) result.dot = block->iters.size() - 1;
  bool gathers = false;
  post_order(update.value, [&](const NodeRef& node) {
    const Load* load = node.as<Load>();
    if (!load || load->buffer == update.buffer) return;
    Operand operand{load->buffer, {}, strides_of(*load, *block), any_uses(load->indices, lane)};
    for (const BlockIter& iter : block->iters) operand.uses.push_back(any_uses(load->indices, iter.var));
    if (operand.contiguous) {
      // Lanes of a dot product are neighbours when their groups are: the last dimension is one group.
      bool grouped =
          result.dot ? load->indices.back() == block->iters[*result.dot].var : is_of_group(*load, kInt32);
      size_t dims = load->indices.size() - (grouped ? 1 : 0);
      int64_t run = result.dot && !grouped ? 0
                                           : run_of({load->indices.begin(), load->indices.begin() + dims},
                                                    lane, result.extents[*vector]);
      // As many dense loads, and shuffles.
      if (run == 0 && !result.dot && is_in_strides(load->indices, lane)) run = result.extents[*vector];
      gathers |= run == 0;
      // Vectors may not cross the end of a run of any operand: the gcd divides all of them.
      result.run = std::gcd(result.run, run);
    }
    add_operand(result, std::move(operand));
  });
  if (gathers || result.operands.empty()) return std::nullopt;
  return result;
}

int64_t least_dilation(const Block& block) {
  std::vector<Var> vars;
  for (const BlockIter& iter : block.iters) vars.push_back(iter.var);
  int64_t least = 0;
  post_order(block.body, [&](const NodeRef& node) {
    const Load* load = node.as<Load>();
    for (const Expr& index : load ? load->indices : std::vector<Expr>{}) {
      const auto form = linear_form(index, vars);
      int64_t apart = 0;
      bool slides = false;
      for (const BlockIter& iter : block.iters) {
        if (!form || !form->coefficients.count(iter.var.get()) || is_int(iter.extent, 1)) continue;
        if (iter.kind == IterKind::kSpatial) slides = true;
        if (iter.kind == IterKind::kReduce) apart = form->coefficients.at(iter.var.get());
      }
      if (slides && apart > 0) least = least == 0 ? apart : std::min(least, apart);
    }
  });
  return std::max<int64_t>(least, 1);
}

Ref<Block> dominant_reduction(const Func& func) {
  Ref<Block> best;
  for (const Ref<Block>& block : all_blocks(func))
    if (is_reduction(*block) && (!best || iterations(*block) > iterations(*best))) best = block;
  return best;
}

}  // namespace lathe::schedule
