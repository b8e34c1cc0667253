// Windows that convolutions and poolings move over their data.
#pragma once

#include <array>
#include <optional>

#include "core/frontends/onnx_converter.h"

namespace lathe::onnx {

/// Spatial dimensions of the node's data: 1 to 3.
size_t window_rank(const Node& node);

/// Of names for 1, 2 and 3 spatial dimensions.
inline const char* by_rank(size_t rank, std::array<const char*, 3> names) { return names[rank - 1]; }

struct Window {
  size_t rank;  // spatial
  std::vector<int64_t> kernel, strides, dilation;
  std::vector<int64_t> padding;  // begins, then ends
  std::vector<Expr> frame;       // of the same form: what is put around the data first; empty: nothing

  int64_t reach(size_t d) const { return (kernel[d] - 1) * dilation[d] + 1; }
};

/// The window of a node with a weight at input `weight`, whose kernel it then is unless kernel_shape says so,
/// or without one.
Window window_of(const Node& node, std::optional<size_t> weight);

/// The data (n, channels, spatial...) with the window's frame of `fill` around it.
Value framed(Value data, const Window& w, const Value& fill);

}  // namespace lathe::onnx
