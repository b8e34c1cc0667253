// Data movement: gathers, scatters, blocks.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/arith/simplify.h"
#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_run_sizes.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/text.h"

namespace lathe::onnx {
namespace {
using relay::Ints;

/// They are known, and none counts from the end.
bool counts_from_front(const Value& indices) {
  const Tensor* tensor = known(indices);
  for (int64_t i = 0; tensor && i < tensor->size(); ++i)
    if (tensor->integer(i) < 0) return false;
  return tensor != nullptr;
}

/// Negative indices count from the end.
Value wrapped_indices(const Value& indices, int64_t extent) {
  DataType dtype = type_of(indices).dtype;
  Value shifted = emit("add", {indices, scalar(dtype, static_cast<double>(extent))});
  return emit("where", {emit("less", {indices, scalar(dtype, 0)}), shifted, indices});
}

/// Rejects the choice of so many elements from input 0 where it surely has none.
void require_elements(const Node& node, const std::vector<Expr>& chosen) {
  const auto is_zero = [](const Expr& dim) { return is_int(dim, 0); };
  const bool takes_some =
      std::ranges::all_of(chosen, [](const Expr& dim) { return as_int(dim) && int_value(dim) > 0; });
  if (takes_some && std::ranges::any_of(node.dims(0), is_zero))
    throw NothingToTake(fmt::format("{} has no elements, of which {} are taken",
                                    relay::print(node.in(0)->checked_type), int_value(elements_of(chosen))));
}

Values gather(const Node& node) {
  int64_t axis = node.axis(node.integer("axis", 0), node.rank(0));
  const Expr& extent = node.dims(0)[static_cast<size_t>(axis)];
  std::vector<Expr> chosen = node.dims(0);
  chosen.erase(chosen.begin() + axis);
  chosen.insert(chosen.begin() + axis, node.dims(1).begin(), node.dims(1).end());
  require_elements(node, chosen);
  const bool forward = counts_from_front(node.in(1));
  // Of an axis whose size is known what counts from the end is arithmetic on constants, or with them.
  const Value indices =
      forward || !as_int(extent) ? node.in(1) : wrapped_indices(node.in(1), int_value(extent));
  return {emit("take", {node.in(0), indices},
               make<relay::TakeAttrs>(int64_t{0}, std::optional<int64_t>(axis),
                                      std::string(forward || as_int(extent) ? "clip" : "from_end")))};
}

Values gather_elements(const Node& node) {
  int64_t axis = node.axis(node.integer("axis", 0), node.rank(0));
  require_elements(node, node.dims(1));
  return {emit("gather", {node.in(0), node.in(1)}, make<relay::GatherAttrs>(axis))};
}

/// Relay's gather_nd and scatter_nd have the index tuple first, ONNX last.
Value index_tuple_first(const Value& indices) {
  Ints axes(type_of(indices).shape.size());
  std::iota(axes.begin(), axes.end(), -1);
  // (last, 0, 1, 2, ...)
  axes[0] = static_cast<int64_t>(axes.size()) - 1;
  return emit("transpose", {indices}, make<relay::TransposeAttrs>(axes));
}

/// Rejects indices without a dimension of their own.
void require_tuples(const Node& node) {
  if (node.rank(1) == 0) node.reject("indices are a scalar");
}

/// How many axes the indices of a GatherND name, of which the batch is none, where their own dimension does
/// not say it: what the result's rank leaves, or the one axis that there is; else what leads on.
int64_t named_axes(const Node& node, int64_t batch) {
  const int64_t most = node.rank(0) - batch;
  if (most == 1) return 1;
  const std::optional<int64_t> result = node.stated_rank();
  if (!result) {
    const std::string unclear = fmt::format(
        "how many axes its indices name must be known when the model is compiled, since the result's rank "
        "follows from it, which the file does not state, nor does what follows tell; they are of type {}",
        relay::print(node.in(1)->checked_type));
    int64_t axes = most;
    while (axes > 1 && OpenDimensions::current()->choices().next(unclear)) --axes;
    return axes;
  }
  const int64_t axes = node.rank(1) - 1 + most - *result;
  if (axes < 1 || axes > most)
    node.reject("a result of rank {} for data of rank {} and indices of rank {}", *result, node.rank(0),
                node.rank(1));
  return axes;
}

Values gather_nd(const Node& node) {
  require_tuples(node);
  const int64_t batch = node.integer("batch_dims", 0);
  std::vector<Expr> tuples = node.dims(1);
  if (!as_int(tuples.back())) tuples.back() = named_axes(node, batch);
  const Value indices = with_dims(node.in(1), tuples);
  auto attrs = make<relay::GatherNdAttrs>(batch, std::optional<int64_t>(int_value(tuples.back())));
  return {emit("gather_nd", {node.in(0), index_tuple_first(indices)}, attrs)};
}

Values scatter_elements(const Node& node) {
  int64_t axis = node.axis(node.integer("axis", 0), node.rank(0));
  require_elements(node, node.dims(1));
  std::string reduction = node.text("reduction", "none");
  auto attrs = make<relay::ScatterElementsAttrs>(axis, reduction == "none" ? "update" : reduction);
  return {emit("scatter_elements", {node.in(0), node.in(1), node.in(2)}, attrs)};
}

Values scatter_nd(const Node& node) {
  require_tuples(node);
  // How many axes they name is told by the ranks, too.
  std::vector<Expr> tuples = node.dims(1);
  const int64_t width = node.rank(0) + node.rank(1) - 1 - node.rank(2);
  if (!as_int(tuples.back()) && width < 0)
    node.reject("updates of rank {} do not go with data of rank {} and indices of rank {}", node.rank(2),
                node.rank(0), node.rank(1));
  if (!as_int(tuples.back())) tuples.back() = width;
  const Value indices = with_dims(node.in(1), tuples);
  std::string reduction = node.text("reduction", "none");
  auto attrs = make<relay::ScatterNdAttrs>(reduction == "none" ? "update" : reduction);
  return {emit("scatter_nd", {node.in(0), index_tuple_first(indices), node.in(2)}, attrs)};
}

/// Slices along an axis (of the flattened tensor without one) where known booleans say so.
Values compress(const Node& node) {
  if (!is_known(node.in(1)) || has_open_dims(node.in(0))) return compress_at_run_time(node);
  Value data = node.has_attr("axis") ? node.in(0) : reshape(node.in(0), {shape_size(node.shape(0))});
  int64_t axis = node.axis(node.integer("axis", 0), static_cast<int64_t>(shape_of(data).size()));
  Ints kept, chosen = node.ints_in(1);
  for (size_t i = 0; i < chosen.size(); ++i)
    if (chosen[i]) kept.push_back(static_cast<int64_t>(i));
  if (static_cast<int64_t>(chosen.size()) > shape_of(data)[static_cast<size_t>(axis)])
    node.reject("{} conditions for {} elements", chosen.size(), shape_of(data)[static_cast<size_t>(axis)]);
  return {emit("take", {data, int_constant(kept)},
               make<relay::TakeAttrs>(int64_t{0}, std::optional<int64_t>(axis), std::string("clip")))};
}

/// The first elements of each sequence, as many as input 1 says, in reverse.
Values reverse_sequence(const Node& node) {
  int64_t time = node.integer("time_axis", 0), batch = node.integer("batch_axis", 1);
  if (node.rank(0) < 2 || time + batch != 1) node.reject("axes {} and {}, must be 0 and 1", time, batch);
  std::vector<Expr> items(static_cast<size_t>(node.rank(0)), Expr(1));
  items[static_cast<size_t>(batch)] = node.dims(0)[static_cast<size_t>(batch)];
  // Element t of a sequence of n is element n - 1 - t where t < n, else itself.
  Value at = counted_along(node.dims(0)[static_cast<size_t>(time)], time, node.rank(0)),
        lengths = reshape_to(cast_to(node.in(1), kInt64), items);
  Value mirrored = minus(minus(lengths, scalar(kInt64, 1)), at);
  Value index = repeated_to(choose(less(at, lengths), mirrored, at), node.dims(0));
  return {emit("gather", {node.in(0), index}, make<relay::GatherAttrs>(time))};
}

Values depth_to_space(const Node& node) {
  bool depth = node.op() == "DepthToSpace";
  auto attrs =
      make<relay::SubPixelAttrs>(node.integer("blocksize", 1), std::string("NCHW"), node.text("mode", "DCR"));
  return {emit(depth ? "nn.depth_to_space" : "nn.space_to_depth", {node.in(0)}, attrs)};
}

/// Values, or a depth, that only a run tells: each place of the new axis is compared with the index.
Value chosen_by_index(const Node& node, int64_t axis, const Expr& depth) {
  const int64_t rank = node.rank(0) + 1;
  const Value size = number_of(depth);
  Value index = cast_to(node.in(0), kInt64);
  index = choose(less(index, scalar(kInt64, 0)), plus(index, size), index);
  index = emit("expand_dims", {index}, make<relay::ExpandDimsAttrs>(axis, int64_t{1}));
  const Value here = emit("equal", {index, counted_along(depth, axis, rank)});
  const Value values = with_dims(node.in(2), {2});
  return choose(here, reshape(sliced(values, 0, 1, 2), {}), reshape(sliced(values, 0, 0, 1), {}));
}

Values one_hot(const Node& node) {
  // Of a run, which may say it as a real number.
  if (!is_known(node.in(1)) && node.dtype(1) != kInt64)
    return one_hot(node.as(node.op(), {node.in(0), cast_to(node.in(1), kInt64), node.in(2)}, node.opset()));
  const Expr depth = size_in(node, 1);
  const int64_t axis = node.axis(node.integer("axis", -1), node.rank(0) + 1);
  const Tensor* values = known(node.in(2));
  if (values && values->size() != 2) node.reject("values has {} numbers, must have two", values->size());
  if (!values || !as_int(depth)) return {chosen_by_index(node, axis, depth)};
  DataType dtype = values->dtype();
  Value indices = wrapped_indices(cast_to(node.in(0), kInt64), int_value(depth));
  auto attrs = make<relay::OneHotAttrs>(int_value(depth), axis, std::optional<DataType>(dtype));
  return {
      emit("one_hot", {indices, scalar(dtype, values->value(1)), scalar(dtype, values->value(0))}, attrs)};
}

/// Keeps the elements on and above (below) diagonal k of the last two dimensions.
Values trilu(const Node& node) {
  const std::vector<Expr>& dims = node.dims(0);
  if (dims.size() < 2) node.reject("an input of rank {}, must be 2 or more", dims.size());
  // One matrix, which broadcasts over the batch.
  const Value shift = node.has(1) ? cast_to(reshape(node.in(1), {}), kInt64) : scalar(kInt64, 0);
  const Value diagonal = plus(counted_along(dims[dims.size() - 2], 0, 2), shift),
              column = counted_along(dims.back(), 1, 2);
  const bool upper = node.integer("upper", 1) != 0;
  const Value kept = emit("less_equal", {upper ? diagonal : column, upper ? column : diagonal});
  return {emit("where", {kept, node.in(0), scalar(node.dtype(0), 0)})};
}

constexpr Converter kConverters[] = {
    {"Gather", gather},
    {"GatherElements", gather_elements},
    {"GatherND", gather_nd},
    {"ScatterElements", scatter_elements},
    {"Scatter", scatter_elements},
    {"ScatterND", scatter_nd},
    {"Compress", compress},
    {"ReverseSequence", reverse_sequence},
    {"DepthToSpace", depth_to_space},
    {"SpaceToDepth", depth_to_space},
    {"OneHot", one_hot},
    {"Trilu", trilu},
};
}  // namespace

std::span<const Converter> tensor_converters() { return kConverters; }

}  // namespace lathe::onnx
