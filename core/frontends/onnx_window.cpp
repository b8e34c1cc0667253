#include "core/frontends/onnx_window.h"

#include <algorithm>

#include "core/arith/simplify.h"
#include "core/frontends/onnx_dims.h"

namespace lathe::onnx {
using Ints = std::vector<int64_t>;

size_t window_rank(const Node& node) {
  int64_t rank = node.rank(0);
  if (rank < 3 || rank > 5) node.reject("data of rank {}, must be 3 to 5", rank);
  return static_cast<size_t>(rank) - 2;
}

namespace {
/// What SAME puts around an axis in all: as many windows as elements per stride, rounded up.
Expr same_padding(const Window& w, size_t d, const Expr& extent) {
  // Windows a stride apart leave none of the extent out, whatever it is.
  if (w.strides[d] == 1) return w.reach(d) - 1;
  const Expr windows = floordiv(extent + (w.strides[d] - 1), Expr(w.strides[d]));
  return simplify(max((windows - 1) * w.strides[d] + w.reach(d) - extent, 0));
}

/// Sets what auto_pad and pads say.
void set_padding(const Node& node, Window& w) {
  const size_t n = w.rank;
  std::string mode = node.text("auto_pad", "NOTSET");
  w.padding = node.ints("pads", Ints(2 * n, 0));
  if (mode == "VALID") return w.padding.assign(2 * n, 0);
  if (w.padding.size() != 2 * n) node.reject("pads has {} numbers, must have {}", w.padding.size(), 2 * n);
  if (mode == "NOTSET") return;
  if (mode != "SAME_UPPER" && mode != "SAME_LOWER") node.reject("auto_pad `{}` is unknown", mode);
  std::vector<Expr> pads(2 * n);
  for (size_t d = 0; d < n; ++d) {
    const Expr total = same_padding(w, d, node.dims(0)[d + 2]);
    // An odd element of padding goes behind (SAME_UPPER) or before.
    const Expr half = simplify(floordiv(total, Expr(2))), rest = simplify(total - half);
    pads[d] = mode == "SAME_UPPER" ? half : rest;
    pads[n + d] = mode == "SAME_UPPER" ? rest : half;
  }
  const bool known = std::all_of(pads.begin(), pads.end(), [](const Expr& pad) { return as_int(pad); });
  for (size_t i = 0; i < pads.size(); ++i) w.padding[i] = known ? int_value(pads[i]) : 0;
  if (!known) w.frame = std::move(pads);
}

}  // namespace

Window window_of(const Node& node, std::optional<size_t> weight) {
  Window w;
  w.rank = window_rank(node);
  Ints of_weight = weight ? node.shape(*weight) : Ints{};
  // Behind channels of results and of data come the spatial axes.
  if (of_weight.size() > 2) of_weight.erase(of_weight.begin(), of_weight.begin() + 2);
  w.kernel = node.ints("kernel_shape", of_weight);
  w.strides = node.ints("strides", Ints(w.rank, 1));
  w.dilation = node.ints("dilations", Ints(w.rank, 1));
  if (weight && node.rank(*weight) != static_cast<int64_t>(w.rank) + 2)
    node.reject("a weight of rank {} for data of rank {}", node.rank(*weight), w.rank + 2);
  if (w.kernel.size() != w.rank || w.strides.size() != w.rank || w.dilation.size() != w.rank)
    node.reject("kernel_shape, strides or dilations do not have {} numbers", w.rank);
  for (size_t d = 0; d < w.rank; ++d)
    if (w.kernel[d] < 1 || w.strides[d] < 1 || w.dilation[d] < 1)
      node.reject("kernel, strides and dilations must be positive");
  set_padding(node, w);
  return w;
}

Value framed(Value data, const Window& w, const Value& fill) {
  for (size_t d = 0; d < w.rank && !w.frame.empty(); ++d)
    data = padded_along(data, static_cast<int64_t>(d) + 2, w.frame[d], w.frame[w.rank + d], fill);
  return data;
}

}  // namespace lathe::onnx
