// Products with weights of blocks that share a scale, of data that may be rounded to bytes.
#pragma once

#include "core/relay/passes/fold_constant.h"
#include "core/tir/target.h"

namespace lathe::relay {

/// nn.block_dense that may round its data, of weights that are known, becomes
///   nn.contrib_block_dense_pack(bytes, scale, sums, packed weight, scales, zeros)
/// where each block of the data is round(127 x / max |x|), and the weights lie in as few bits (2, 4, 8) as
/// their blocks' ranges take, in the order in which vectors of `target` multiply them. Of many rows only
/// where it multiplies bytes faster than real numbers. `evaluate` is called once at most, with all weights.
/// REQUIRES: types are inferred; the result has them. Runs before weights become real.
Module round_block_products(const Module& module, const Target& target, const Evaluate& evaluate);

/// Lets every nn.block_dense round its data. REQUIRES as above; the result has types.
Module let_blocks_round(const Module& module);

}  // namespace lathe::relay
