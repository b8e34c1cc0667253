// Images at other sizes.
#pragma once

#include "core/frontends/onnx_dims.h"
#include "core/relay/ops/attrs_nn.h"

namespace lathe::onnx {

/// Input 0 with each of the axes as many times as large as the vector `scales` says, of which a run tells
/// some; size, scales and axes of `attrs` are not looked at. `rounds_up`: where it gets smaller the nearest
/// element is the next one.
Value resize_at_run_time(const Node& node, const Value& scales, const std::vector<int64_t>& axes,
                         const relay::ResizeAttrs& attrs, bool rounds_up);
/// Input 0 at these sizes, one an axis: for a filter that is as wide as they say (attrs.antialias).
Value resize_to_run_sizes(const Node& node, const std::vector<Expr>& sizes, const relay::ResizeAttrs& attrs);
/// The same, of `axes` by one factor: the smallest, or the largest, that gives one of them its size.
Value resize_by_one_factor(const Node& node, const std::vector<Expr>& sizes, const std::vector<int64_t>& axes,
                           const relay::ResizeAttrs& attrs, bool smallest);

}  // namespace lathe::onnx
