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

}  // namespace lathe::onnx
