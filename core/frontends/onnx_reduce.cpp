// Reductions, softmax and scans.
#include <cmath>
#include <numeric>

#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_run_axes.h"
#include "core/frontends/onnx_run_sizes.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::onnx {
namespace {
using relay::Ints;

/// Whether the input that names axes has none, whatever the run.
bool has_no_axes(const Node& node) { return node.rank(1) == 1 && is_int(node.dims(1)[0], 0); }

/// The axes of a reduction: an attribute, or from opset 13/18 on an input. None are all of them, or with
/// noop_with_empty_axes none.
Ints axes_of(const Node& node) {
  Ints axes = node.has(1) && !has_no_axes(node) ? node.ints_in(1) : node.ints("axes", {});
  if (axes.empty()) {
    if (node.integer("noop_with_empty_axes", 0)) return {};
    axes.resize(static_cast<size_t>(node.rank(0)));
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (int64_t& axis : axes) axis = node.axis(axis, node.rank(0));
  return axes;
}

/// Along axes that a run names, one after the other.
Value reduce_at_run_time(const Node& node, const char* op, const Value& value) {
  RunAxes axes(node, 1, node.rank(0));
  if (!axes.count() && node.integer("noop_with_empty_axes", 0) == 0) axes.be_all_if_none();
  const Value result = reduced_at_run_time(value, axes, [&](const Value& of, int64_t axis) {
    return emit(op, {of}, make<relay::ReduceAttrs>(Ints{axis}, true));
  });
  return node.integer("keepdims", 1) != 0 ? result : without_axes(node, result, axes);
}

Value reduce(const Node& node, const char* op, const Value& value) {
  if (is_told_by_run(node, 1) && !has_no_axes(node)) return reduce_at_run_time(node, op, value);
  const Ints axes = axes_of(node);
  if (axes.empty()) return value;
  return emit(op, {value}, make<relay::ReduceAttrs>(axes, node.integer("keepdims", 1) != 0));
}

Values reduction(const Node& node) {
  const Value& x = node.in(0);
  const std::string& op = node.op();
  if (op == "ReduceSum") return {reduce(node, "sum", x)};
  if (op == "ReduceMean") return {reduce(node, "mean", x)};
  if (op == "ReduceMax") return {reduce(node, "max", x)};
  if (op == "ReduceMin") return {reduce(node, "min", x)};
  if (op == "ReduceProd") return {reduce(node, "prod", x)};
  if (op == "ReduceL1") return {reduce(node, "sum", emit("abs", {x}))};
  return {reduce(node, "sum", emit("multiply", {x, x}))};
}

/// Roots and logarithms: of integers in float64, cut off.
Values real_reduction(const Node& node) {
  const DataType dtype = node.dtype(0);
  const Value x = cast_to(node.in(0), dtype.is_float() ? dtype : kFloat64);
  const std::string& op = node.op();
  const Value result = op == "ReduceLogSumExp" ? reduce(node, "logsumexp", x)
                       : op == "ReduceLogSum"  ? emit("log", {reduce(node, "sum", x)})
                                              : emit("sqrt", {reduce(node, "sum", emit("multiply", {x, x}))});
  return {cast_to(result, dtype)};
}

Values arg_reduction(const Node& node) {
  Ints axis{node.axis(node.integer("axis", 0), node.rank(0))};
  auto attrs = make<relay::ArgReduceAttrs>(axis, node.integer("keepdims", 1) != 0, false,
                                           node.integer("select_last_index", 0) != 0);
  return {cast_to(emit(node.op() == "ArgMax" ? "argmax" : "argmin", {node.in(0)}, attrs), kInt64)};
}

/// f(x, axis) of the node's input. Before opset 13 the tensor is seen as a matrix whose rows start at `axis`.
Value of_rows(const Node& node, FunctionRef<Value(const Value&, int64_t)> f) {
  const bool matrix = node.opset() < 13;
  const int64_t axis = node.axis(node.integer("axis", matrix ? 1 : -1), node.rank(0));
  // The last axis alone is that of a matrix, too, which an open shape cannot become.
  const bool last = axis + 1 == node.rank(0) && has_open_dims(node.in(0));
  if (!matrix || last) return f(node.in(0), axis);
  // Axes before `axis` are rows, all others are taken together.
  const std::span<const Expr> dims(node.dims(0));
  const auto d = static_cast<size_t>(axis);
  const Value flat = reshape_to(node.in(0), {elements_of(dims.first(d)), elements_of(dims.subspan(d))});
  return reshape_to(f(flat, 1), node.dims(0));
}

Values softmax(const Node& node) {
  const char* op = node.op() == "Softmax" ? "nn.softmax" : "nn.log_softmax";
  return {of_rows(
      node, [&](const Value& x, int64_t axis) { return emit(op, {x}, make<relay::SoftmaxAttrs>(axis)); })};
}

/// x, behind it one element more along an axis that may have none: the first maximum is where it is in x.
Value with_an_element(const Value& x, int64_t axis) {
  const std::vector<Expr>& dims = dims_of(x);
  if (as_int(dims[static_cast<size_t>(axis)])) return x;
  std::vector<Ints> width(dims.size(), Ints{0, 0});
  width[static_cast<size_t>(axis)][1] = 1;
  return emit("nn.pad", {x, number(x, -INFINITY)}, make<relay::PadAttrs>(width, std::string("constant")));
}

/// 1 at the first maximum along the axis, else 0.
Values hardmax(const Node& node) {
  return {of_rows(node, [](const Value& x, int64_t axis) {
    const relay::TensorType& type = type_of(x);
    if (is_int(type.shape[static_cast<size_t>(axis)], 0)) return x;
    auto attrs = make<relay::ArgReduceAttrs>(Ints{axis}, true);
    const Value first = cast_to(emit("argmax", {with_an_element(x, axis)}, attrs), kInt64);
    const Value place =
        counted_along(type.shape[static_cast<size_t>(axis)], axis, static_cast<int64_t>(type.shape.size()));
    return cast_to(emit("equal", {first, place}), type.dtype);
  })};
}

Value scan_along(const Node& node, int64_t axis) {
  const char* op = node.op() == "CumSum" ? "cumsum" : "cumprod";
  auto attrs = make<relay::ScanAttrs>(axis, node.dtype(0), node.integer("exclusive", 0) != 0);
  auto flip = make<relay::ReverseAttrs>(axis);
  if (!node.integer("reverse", 0)) return emit(op, {node.in(0)}, attrs);
  // From the end: there and back.
  return emit("reverse", {emit(op, {emit("reverse", {node.in(0)}, flip)}, attrs)}, flip);
}

/// CumSum and CumProd.
Values scan(const Node& node) {
  if (is_told_by_run(node, 1))
    return {along_run_axis(node, 1, [&](int64_t axis) { return scan_along(node, axis); })};
  return {scan_along(node, node.axis(node.int_in(1), node.rank(0)))};
}

Values topk(const Node& node) {
  if (node.has(1) && (!is_known(node.in(1)) || holds_handles(node.in(1)))) return top_at_run_time(node);
  int64_t axis = node.axis(node.integer("axis", -1), node.rank(0));
  int64_t k = node.has(1) ? node.int_in(1) : node.integer("k", 1);
  if (k < 0) node.reject("k is {}, must not be negative", k);
  if (k == 0) {  // of Relay's topk that is all of them
    const Value none = taken(node.in(0), int_constant({}), axis);
    return {none, cast_to(none, kInt64)};
  }
  auto attrs = make<relay::TopkAttrs>(k, axis, std::string("both"), node.integer("largest", 1) == 0, kInt64);
  Value both = emit("topk", {node.in(0)}, attrs);
  return {field_of(both, 0), field_of(both, 1)};
}

Values mean_variance_normalization(const Node& node) {
  auto over = make<relay::ReduceAttrs>(node.ints("axes", {0, 2, 3}), true);
  Value centred = emit("subtract", {node.in(0), emit("mean", {node.in(0)}, over)});
  Value deviation = emit("sqrt", {emit("mean", {emit("multiply", {centred, centred})}, over)});
  return {emit("divide", {centred, emit("add", {deviation, scalar(node.dtype(0), 1e-9)})})};
}

constexpr Converter kConverters[] = {
    {"ReduceSum", reduction, Arithmetic::kWide},
    {"ReduceMean", reduction, Arithmetic::kWide},
    {"ReduceMax", reduction},
    {"ReduceMin", reduction},
    {"ReduceProd", reduction, Arithmetic::kWide},
    {"ReduceL1", reduction, Arithmetic::kWide},
    {"ReduceL2", real_reduction, Arithmetic::kWide},
    {"ReduceSumSquare", reduction, Arithmetic::kWide},
    {"ReduceLogSum", real_reduction, Arithmetic::kWide},
    {"ReduceLogSumExp", real_reduction, Arithmetic::kWide},
    {"ArgMax", arg_reduction},
    {"ArgMin", arg_reduction},
    {"Softmax", softmax, Arithmetic::kWide},
    {"LogSoftmax", softmax, Arithmetic::kWide},
    {"Hardmax", hardmax},
    {"CumSum", scan, Arithmetic::kWide},
    {"CumProd", scan, Arithmetic::kWide},
    {"TopK", topk},
    {"MeanVarianceNormalization", mean_variance_normalization, Arithmetic::kWide},
};
}  // namespace

std::span<const Converter> reduce_converters() { return kConverters; }

}  // namespace lathe::onnx
