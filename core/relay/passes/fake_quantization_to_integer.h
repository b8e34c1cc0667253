// Quantize-dequantize (QDQ) graphs -> integer operators.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// A QDQ model computes in float32 between `qnn.dequantize` and `qnn.quantize`. This pass pushes dequantize
/// down through what can compute on the integers themselves:
///
///   nn.conv2d, nn.dense, .. (dequantize x, dequantize w)  ->  dequantize (qnn.conv2d, .. (x, w)), int32
///   + dequantize or constant bias               ->  inside, when it is whole at the product's scale
///   nn.max_pool2d, reshape, transpose, ...      ->  the same on integers
///   nn.global_avg_pool2d                        ->  a sum in int32
///   concatenate of equal scales                 ->  the same on integers
///   quantize (dequantize q)                     ->  q, when scale and zero point agree
///
/// An operator's row says what it is (NarrowRule).
///
/// Element-wise float arithmetic that is left (residual sums, activations) stays between a dequantize and a
/// quantize, to be fused with its neighbours. REQUIRES: types are inferred; runs before constants are folded,
/// or weights would be float32 already.
Module fake_quantization_to_integer(const Module& module);

}  // namespace lathe::relay
