// Reductions, softmax, scans and sorting as ONNX nodes.
#include <algorithm>
#include <numeric>

#include "core/frontends/onnx_exporter.h"

namespace lathe::onnx {
namespace {
using relay::Ints;

/// The axes that vanish, from the front.
template <typename A>
Ints axes_of(const Written& w, const A& a) {
  Ints axes, named = a.axis.value_or(Ints{});
  for (int64_t& axis : named) axis = w.front(axis);
  for (int64_t d = 0; d < w.rank(0); ++d) {
    bool is_named = !a.axis || std::find(named.begin(), named.end(), d) != named.end();
    // With `exclude` the named axes are those that stay.
    if (is_named != (a.exclude && a.axis)) axes.push_back(d);
  }
  return axes;
}

/// `op`, an attribute's axes (but ReduceSum's, an input's), of x.
void reduce_into(Exporter& e, const std::string& op, const std::string& x, const Ints& axes, bool keepdims,
                 const std::string& output) {
  if (axes.empty()) return (void)e.node("Identity", {x}, output);
  // Before opset 18, of the reductions this one alone takes its axes as an input.
  bool as_input = op == "ReduceSum";
  auto* node = e.node(op.c_str(), as_input ? Names{x, e.ints(axes)} : Names{x}, output);
  if (!as_input) set_ints(node, "axes", axes);
  set_int(node, "keepdims", keepdims);
}

void reduction(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::ReduceAttrs>();
  reduce_into(e, find_export(w.op())->onnx, w.args[0], axes_of(w, a), a.keepdims, w.output());
}

/// all and any: the smallest and the largest of 0 and 1.
void logical_reduction(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::ReduceAttrs>();
  std::string extreme = e.fresh();
  reduce_into(e, find_export(w.op())->onnx, e.cast(w.args[0], kInt32), axes_of(w, a), a.keepdims, extreme);
  set_int(e.node("Cast", {extreme}, w.output()), "to", onnx_dtype(kBool));
}

/// mean((x - m)^2), m the second argument.
void variance(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::ReduceAttrs>();
  Ints axes = axes_of(w, a);
  int64_t count = 1;
  for (int64_t axis : axes) count *= w.shape(0)[static_cast<size_t>(axis)];
  std::string difference = e.add("Sub", w.args), sum = e.fresh();
  reduce_into(e, "ReduceSum", e.add("Mul", {difference, difference}), axes, a.keepdims, sum);
  e.node("Div", {sum, e.number(w.dtype(0), static_cast<double>(count - (a.unbiased ? 1 : 0)))}, w.output());
}

/// Over several axes: over one that holds them all.
void arg_reduction(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::ArgReduceAttrs>();
  Ints axes = axes_of(w, a), shape = w.shape(0), order, kept;
  for (int64_t d = 0; d < w.rank(0); ++d)
    if (std::find(axes.begin(), axes.end(), d) == axes.end())
      order.push_back(d), kept.push_back(shape[static_cast<size_t>(d)]);
  order.insert(order.end(), axes.begin(), axes.end());
  kept.push_back(-1);
  // ONNX knows one axis: the reduced ones go last and become one, so that positions count over all of them.
  std::string rows = e.reshaped(e.transposed(w.args[0], order), kept), place = e.fresh();
  auto* node = e.node(find_export(w.op())->onnx, {rows}, place);
  set_int(node, "axis", static_cast<int64_t>(kept.size()) - 1);
  set_int(node, "keepdims", 0);
  set_int(node, "select_last_index", a.select_last_index);
  e.node("Reshape", {e.cast(place, w.type().dtype), e.ints(w.result_shape())}, w.output());
}

void softmax(Exporter& e, const Written& w) {
  set_int(e.node(find_export(w.op())->onnx, w.args, w.output()), "axis",
          w.front(w.attrs<relay::SoftmaxAttrs>().axis));
}

void cumsum(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::ScanAttrs>();
  std::string x = a.dtype && *a.dtype != w.dtype(0) ? e.cast(w.args[0], *a.dtype) : w.args[0];
  if (!a.axis) x = e.reshaped(x, {-1});
  std::string axis = e.number(kInt64, static_cast<double>(a.axis ? w.front(*a.axis) : 0));
  set_int(e.node("CumSum", {x, axis}, w.output()), "exclusive", a.exclusive);
}

/// TopK of x: values and indices, either "" where it is not wanted.
void top(Exporter& e, const Written& w, int64_t k, int64_t axis, bool ascending, const std::string& values,
         const std::string& indices) {
  auto* node = e.node("TopK", {w.args[0], e.ints({k})}, values.empty() ? e.fresh() : values);
  node->add_output(indices.empty() ? e.fresh() : indices);
  set_int(node, "axis", w.front(axis));
  set_int(node, "largest", !ascending);
}

void sort(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::SortAttrs>();
  int64_t extent = w.shape(0)[static_cast<size_t>(w.front(a.axis))];
  // TopK of all elements is a sort.
  if (w.op() == "sort") return top(e, w, extent, a.axis, a.is_ascend, w.output(), "");
  std::string places = e.fresh();
  top(e, w, extent, a.axis, a.is_ascend, "", places);
  set_int(e.node("Cast", {places}, w.output()), "to", onnx_dtype(a.dtype));
}

void topk(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::TopkAttrs>();
  int64_t k = w.op() == "topk_like" ? w.shape(1)[0]
              : a.k > 0             ? a.k
                                    : w.shape(0)[static_cast<size_t>(w.front(a.axis))];
  std::string places = e.fresh();
  top(e, w, k, a.axis, a.is_ascend, a.ret_type == "indices" ? "" : w.outputs[0], places);
  if (a.ret_type != "values")
    set_int(e.node("Cast", {places}, w.outputs[a.ret_type == "both" ? 1 : 0]), "to", onnx_dtype(a.dtype));
}

constexpr ExportRow kRows[] = {
    {"sum", reduction, "ReduceSum"},
    {"prod", reduction, "ReduceProd"},
    {"max", reduction, "ReduceMax"},
    {"min", reduction, "ReduceMin"},
    {"mean", reduction, "ReduceMean"},
    {"logsumexp", reduction, "ReduceLogSumExp"},
    {"all", logical_reduction, "ReduceMin"},
    {"any", logical_reduction, "ReduceMax"},
    {"variance", variance},
    {"argmax", arg_reduction, "ArgMax"},
    {"argmin", arg_reduction, "ArgMin"},
    {"nn.softmax", softmax, "Softmax"},
    {"nn.fast_softmax", softmax, "Softmax"},
    {"nn.log_softmax", softmax, "LogSoftmax"},
    {"cumsum", cumsum},
    {"sort", sort},
    {"argsort", sort},
    {"topk", topk},
    {"topk_like", topk},
};
}  // namespace

std::span<const ExportRow> reduce_exports() { return kRows; }

}  // namespace lathe::onnx
