// One form for what several operators say.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// nn.bias_add (x, b)          ->  add of the vector with its broadcast axes spelled out
/// nn.conv1d (x, w), NCW, OIW  ->  nn.conv2d of images one row high, for which there are layouts
/// concatenate of many parts   ->  concatenate of concatenations of 16 each
///
/// REQUIRES: types are inferred; the result has its types.
Module canonicalize_ops(const Module& module);

}  // namespace lathe::relay
