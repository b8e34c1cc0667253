// Products with weights of blocks that share a scale, where the weights had better be real numbers.
#pragma once

#include "core/relay/expr.h"
#include "core/tir/target.h"

namespace lathe::relay {

/// nn.block_dense of many rows, or of weights that stay in a cache, becomes
///   nn.dense(data, reshape(weight * scale))
/// whose weights are folded into real numbers: many rows would multiply the scales into them again and again.
/// Of few rows, and of as many as a run has, the weights are what a run reads, in as few bytes as they lie
/// there. REQUIRES: types are inferred; the result has them. Runs before constants are folded and layouts
/// chosen.
Module expand_block_products(const Module& module, const Target& target);

}  // namespace lathe::relay
