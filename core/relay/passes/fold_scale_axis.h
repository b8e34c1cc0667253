// Scales along an axis move into the weights of their neighbours.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// Backward: conv(x, w) * s becomes conv(x, w * s) for a constant s along the output channels, also across
/// the addition of a constant: (conv(x, w) + b) * s is conv(x, w * s) + b * s. For nn.conv2d (NCHW, OIHW) and
/// nn.dense whose only user is the scale. The products are left for fold_constant. REQUIRES: types are
/// inferred; the result has its types.
Module fold_scale_axis(const Module& module);

}  // namespace lathe::relay
