// Shapes and the views that change nothing but them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/arith/simplify.h"
#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_run_axes.h"
#include "core/frontends/onnx_run_sizes.h"
#include "core/relay/analysis/sizes.h"
#include "core/relay/ops/attrs_require.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/ops/rule.h"
#include "core/relay/text.h"

namespace lathe::onnx {
namespace {
using relay::Ints;

Values shape(const Node& node) {
  const std::vector<Expr> dims = dims_of(node.in(0));
  auto rank = static_cast<int64_t>(dims.size());
  auto bound = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
  int64_t begin = bound(node.position("start", 0)), end = bound(node.position("end", rank));
  OpenDimensions::current()->learn_from(node.in(0));
  // An empty range is an empty vector.
  if (end < begin) end = begin;
  return {
      dims_constant(std::span(dims).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)))};
}

Values size(const Node& node) {
  const std::vector<Expr> count{elements_of(node.dims(0))};
  OpenDimensions::current()->learn_from(node.in(0));
  return {reshape(dims_constant(count), {})};
}

/// Where a dimension of the input or of the shape is open.
Values open_reshape(const Node& node) {
  std::vector<Expr> wanted = node.sizes_in(1);
  const std::vector<Expr> from = dims_of(node.in(0));
  Expr total = 1, product = 1;
  for (const Expr& dim : from) total = total * dim;
  size_t unknown = wanted.size();
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (is_int(wanted[i], 0) && i < from.size() && node.integer("allowzero", 0) == 0) wanted[i] = from[i];
    if (is_int(wanted[i], -1))
      unknown = i;
    else
      product = product * wanted[i];
  }
  if (unknown < wanted.size()) wanted[unknown] = simplify(floordiv(total, product));
  return {reshape_to(node.in(0), wanted)};
}

Values reshape_op(const Node& node) {
  if (node.has(1) && !is_known(node.in(1))) return reshape_at_run_time(node);
  if (node.has(1) && (has_open_dims(node.in(0)) || holds_handles(node.in(1)))) return open_reshape(node);
  Ints wanted = node.has(1) ? node.ints_in(1) : node.ints("shape", {}), from = node.shape(0);
  bool allow_zero = node.integer("allowzero", 0) != 0;
  int64_t unknown = -1, product = 1;
  for (size_t i = 0; i < wanted.size(); ++i) {
    // 0 copies the input's dimension at the same place.
    if (wanted[i] == 0 && !allow_zero) {
      if (i >= from.size())
        node.reject("shape {} copies dimension {} of {}", shape_text(wanted), i, shape_text(from));
      wanted[i] = from[i];
    }
    if (wanted[i] == -1 && unknown < 0)
      unknown = static_cast<int64_t>(i);
    else if (wanted[i] < 0)
      node.reject("shape {} is malformed", shape_text(wanted));
    else if (__builtin_mul_overflow(product, wanted[i], &product))
      node.reject("shape {} is out of range", shape_text(wanted));
  }
  int64_t total = shape_size(from);
  if (unknown >= 0) {
    // With a dimension of 0 any extent would fit.
    if (product == 0 || total % product)
      node.reject("cannot reshape {} to {}", shape_text(from), shape_text(wanted));
    wanted[static_cast<size_t>(unknown)] = total / product;
    product = total;
  }
  if (product != total) node.reject("cannot reshape {} to {}", shape_text(from), shape_text(wanted));
  return {reshape(node.in(0), wanted)};
}

Values flatten(const Node& node) {
  const std::vector<Expr> from = dims_of(node.in(0));
  int64_t axis = node.integer("axis", 1), rank = node.rank(0);
  if (axis < -rank || axis > rank) node.reject("axis {} of a tensor of rank {}", axis, rank);
  if (axis < 0) axis += rank;
  Expr rows = 1, columns = 1;
  for (int64_t d = 0; d < rank; ++d) {
    Expr& product = d < axis ? rows : columns;
    product = product * from[static_cast<size_t>(d)];
  }
  return {reshape_to(node.in(0), {simplify(rows), simplify(columns)})};
}

/// The axes of one element, and those that may have one and are kept, because `keeper` does.
struct Ones {
  Ints axes, kept;
  const char* keeper = nullptr;
};

/// `value`, of which none of the axes that are kept has one element: the run checks it.
Value with_kept_axes(const Value& value, const Ones& ones) {
  Value result = value;
  for (int64_t axis : ones.kept) {
    const Expr dim = dims_of(value)[static_cast<size_t>(axis)];
    const Value longer = emit("not_equal", {number_of(dim), scalar(kInt64, 1)});
    result = emit(
        "require", {result, longer},
        make<relay::RequireAttrs>(fmt::format("dimension {} is 1: the squeeze would drop it, and {} keeps it",
                                              relay::print(dim), ones.keeper)));
  }
  return result;
}

/// Of those that may have one element all are dropped or none, where the rank that the file states of the
/// result says so; else those that lead on.
Ones ones_of(const Node& node) {
  Ones ones{.keeper = "what follows"};
  Ints open;
  for (int64_t d = 0; d < node.rank(0); ++d) {
    const Expr& dim = node.dims(0)[static_cast<size_t>(d)];
    if (is_int(dim, 1))
      ones.axes.push_back(d);
    else if (!as_int(dim) && !OpenDimensions::current()->is_at_most(2, dim))
      open.push_back(d);
  }
  if (open.empty()) return ones;
  const int64_t most = node.rank(0) - static_cast<int64_t>(ones.axes.size());
  const int64_t least = most - static_cast<int64_t>(open.size());
  const std::optional<int64_t> stated = node.stated_rank();
  if (stated == most) return {ones.axes, open, "the rank that the file states"};
  const std::string unclear = fmt::format(
      "which sizes are 1 must be known when the model is compiled, where no axes of a Squeeze are named and "
      "neither what follows nor the rank of its result, if the file states it, tells; {} is open",
      relay::print(node.dims(0)[static_cast<size_t>(open[0])]));
  for (int64_t axis : open) {
    const bool drops = stated == least || OpenDimensions::current()->choices().next(unclear);
    (drops ? ones.axes : ones.kept).push_back(axis);
  }
  const int64_t result = node.rank(0) - static_cast<int64_t>(ones.axes.size());
  if (stated && result != *stated) node.reject("{}", unclear);
  std::sort(ones.axes.begin(), ones.axes.end());
  return ones;
}

Values squeeze(const Node& node) {
  if (is_told_by_run(node, 1)) return {without_axes(node, node.in(0), RunAxes(node, 1, node.rank(0)))};
  Ones dropped{.axes = node.has(1) ? node.ints_in(1) : node.ints("axes", {})};
  for (int64_t& axis : dropped.axes) axis = node.axis(axis, node.rank(0));
  if (dropped.axes.empty()) dropped = ones_of(node);
  std::vector<Expr> to;
  for (int64_t d = 0; d < node.rank(0); ++d) {
    const Expr& dim = node.dims(0)[static_cast<size_t>(d)];
    if (std::ranges::find(dropped.axes, d) == dropped.axes.end())
      to.push_back(dim);
    else if (as_int(dim) && !is_int(dim, 1))  // of an open one the run checks it
      node.reject("axis {} has {} elements", d, relay::print(dim));
  }
  if (!has_open_dims(node.in(0))) return {reshape_to(node.in(0), to)};
  return {emit("squeeze", {with_kept_axes(node.in(0), dropped)},
               make<relay::SqueezeAttrs>(std::optional<Ints>(dropped.axes)))};
}

Values unsqueeze(const Node& node) {
  if (is_told_by_run(node, 1)) return unsqueeze_at_run_time(node);
  const std::vector<Expr> from = dims_of(node.in(0));
  Ints axes = node.has(1) ? node.ints_in(1) : node.ints("axes", {});
  int64_t rank = node.rank(0) + static_cast<int64_t>(axes.size());
  for (int64_t& axis : axes) axis = node.axis(axis, rank);
  if (has_open_dims(node.in(0))) {
    std::sort(axes.begin(), axes.end());
    Value value = node.in(0);
    for (size_t i = 0; i < axes.size(); ++i) {
      if (i > 0 && axes[i] == axes[i - 1]) node.reject("axis {} is named twice", axes[i]);
      value = emit("expand_dims", {value}, make<relay::ExpandDimsAttrs>(axes[i], int64_t{1}));
    }
    return {value};
  }
  // The new axes get their 1 first, the dimensions of the input go to the places that are left.
  std::vector<Expr> to(static_cast<size_t>(rank));
  for (int64_t axis : axes) {
    if (to[static_cast<size_t>(axis)]) node.reject("axis {} is named twice", axis);
    to[static_cast<size_t>(axis)] = 1;
  }
  size_t next = 0;
  for (Expr& dim : to)
    if (!dim) dim = from[next++];
  return {reshape_to(node.in(0), to)};
}

Values transpose(const Node& node) {
  Ints reversed(static_cast<size_t>(node.rank(0)));
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  return {emit("transpose", {node.in(0)}, make<relay::TransposeAttrs>(node.ints("perm", reversed)))};
}

/// By NumPy's rule; of two sizes of which one is open, a number other than 1 is the result's. Two expressions
/// of one size are to be equal, as for operators that broadcast, which the run checks: a table of 50 places
/// of which the first n are taken, min(50, n), has n. The first row of n, min(1, n), leaves any size, or
/// nothing of it. Nothing where only a run can tell.
Expr broadcast_dim(const Expr& a, const Expr& b) {
  if (is_int(a, 1) || prove_equal(a, b) || relay::ops::share_variables(a, b)) return b;
  if (is_int(b, 1)) return a;
  if (as_int(b)) return b;
  if (relay::is_at_most(b, 1)) return relay::simplify_size(a * b);
  return Expr();
}

Values open_expand(const Node& node) {
  std::vector<Expr> from = dims_of(node.in(0)), wanted = node.sizes_in(1);
  while (wanted.size() < from.size()) wanted.insert(wanted.begin(), Expr(1));
  for (size_t i = 0; i < from.size(); ++i) {
    Expr& to = wanted[wanted.size() - from.size() + i];
    to = broadcast_dim(from[i], to);
    if (!to) return expand_at_run_time(node);
  }
  return {repeated_to(node.in(0), wanted)};
}

Values expand(const Node& node) {
  if (!is_known(node.in(1))) return expand_at_run_time(node);
  if (has_open_dims(node.in(0)) || holds_handles(node.in(1))) return open_expand(node);
  Ints from = node.shape(0), wanted = node.ints_in(1);
  while (wanted.size() < from.size()) wanted.insert(wanted.begin(), 1);
  for (size_t i = 0; i < from.size(); ++i) {
    int64_t& to = wanted[wanted.size() - from.size() + i];
    // Expand broadcasts both ways: a 1 asked for leaves a larger dimension as it is.
    if (to == 1) to = from[i];
  }
  return {emit("broadcast_to", {node.in(0)}, make<relay::InitAttrs>(wanted))};
}

Values constant_op(const Node& node) {
  if (auto tensor = node.tensor("value")) return {constant(*tensor)};
  if (auto tensor = node.sparse_tensor("sparse_value")) return {constant(*tensor)};
  if (node.has_attr("value_float")) return {scalar(kFloat32, node.real("value_float", 0))};
  if (node.has_attr("value_floats")) {
    const std::vector<double> reals = node.reals("value_floats");
    return {constant(tensor_of(std::vector<float>(reals.begin(), reals.end()),
                               {static_cast<int64_t>(reals.size())}, kFloat32))};
  }
  // These may be of any size.
  if (const auto* i = node.find("value_int", Node::Type::AttributeProto_AttributeType_INT))
    return {constant(tensor_of<int64_t>({i->i()}, {}, kInt64))};
  if (const auto* list = node.find("value_ints", Node::Type::AttributeProto_AttributeType_INTS))
    return {int_constant({list->ints().begin(), list->ints().end()})};
  node.reject("a constant without a numeric value is not supported");
}

Values constant_of_shape(const Node& node) {
  if (!is_known(node.in(0))) return constant_of_shape_at_run_time(node);
  auto value = node.tensor("value");
  if (value && value->size() != 1) node.reject("value has {} numbers, must have one", value->size());
  if (holds_handles(node.in(0))) {
    Value element = value ? constant(value->reshaped({})) : scalar(kFloat32, 0);
    return {repeated_to(element, node.sizes_in(0))};
  }
  Ints dims = node.constant_shape(node.ints_in(0));
  if (!value) return {constant(zeros(dims, kFloat32))};
  Tensor result(dims, value->dtype());
  // By its bytes: not every int64 is a double.
  const auto* element = static_cast<const char*>(value->data());
  for (int64_t i = 0; i < result.size(); ++i)
    std::copy_n(element, value->bytes(), static_cast<char*>(result.data()) + i * value->bytes());
  return {constant(result)};
}

/// start, start + step, ... before the limit, of which some are open.
Values open_range(const Node& node) {
  for (size_t i : {0, 1})
    if (node.sizes_in(i).size() != 1)
      node.reject("input {} has {} numbers, must have one", i, node.sizes_in(i).size());
  const Expr start = node.sizes_in(0)[0], limit = node.sizes_in(1)[0];
  const int64_t step = node.int_in(2);
  if (step == 0) node.reject("a step of 0");
  const Expr span = step > 0 ? limit - start : start - limit;
  const Expr count = relay::simplify_size(max(floordiv(span - 1, Expr(std::abs(step))) + 1, 0));
  Value places = counted_to(count);
  if (step != 1) places = times(places, scalar(kInt64, static_cast<double>(step)));
  return {is_int(start, 0) ? places : plus(places, reshape(number_of(start), {1}))};
}

Values range(const Node& node) {
  // Of a computed step the number of elements is no size.
  if (!is_known(node.in(0)) || !is_known(node.in(1)) || !is_known(node.in(2)) || holds_handles(node.in(2)))
    return range_at_run_time(node);
  if (holds_handles(node.in(0)) || holds_handles(node.in(1))) return open_range(node);
  const double start = node.real_in(0), limit = node.real_in(1), delta = node.real_in(2);
  if (delta == 0) node.reject("a step of 0");
  const auto count = relay::ops::arange_count(node.known_in(0), node.known_in(1), node.known_in(2));
  if (!count) node.reject("from {} to {} by {} is no range", start, limit, delta);
  Tensor result(node.constant_shape({*count}), node.dtype(0));
  if (result.dtype().is_float()) {
    for (int64_t i = 0; i < *count; ++i) result.set(i, start + static_cast<double>(i) * delta);
    return {constant(result)};
  }
  // Not every int64 is a double. Unsigned: a multiple of the step may wrap where the sum does not.
  auto next = static_cast<uint64_t>(node.known_in(0).integer(0));
  const auto step = static_cast<uint64_t>(node.known_in(2).integer(0));
  for (int64_t i = 0; i < *count; ++i, next += step) result.set_integer(i, static_cast<int64_t>(next));
  return {constant(result)};
}

Values eye_like(const Node& node) {
  const std::vector<Expr>& dims = node.dims(0);
  if (dims.size() != 2) node.reject("an input of rank {}, must be 2", dims.size());
  DataType dtype =
      node.has_attr("dtype") ? dtype_from(static_cast<int32_t>(node.integer("dtype", 1))) : node.dtype(0);
  if (!has_open_dims(node.in(0))) node.constant_shape(node.shape(0));
  const Value diagonal =
      plus(counted_along(dims[0], 0, 2), scalar(kInt64, static_cast<double>(node.integer("k", 0))));
  return {cast_to(emit("equal", {diagonal, counted_along(dims[1], 1, 2)}), dtype)};
}

constexpr Converter kConverters[] = {
    {"Shape", shape},          {"Size", size},
    {"Reshape", reshape_op},   {"Flatten", flatten},
    {"Squeeze", squeeze},      {"Unsqueeze", unsqueeze},
    {"Transpose", transpose},  {"Expand", expand},
    {"Constant", constant_op}, {"ConstantOfShape", constant_of_shape},
    {"Range", range},          {"EyeLike", eye_like},
};
}  // namespace

std::span<const Converter> shape_converters() { return kConverters; }

}  // namespace lathe::onnx
