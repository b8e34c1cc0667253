// Operators on quantized tensors in terms of the others.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// qnn.conv2d(x, w, zx, zw, ..)   ->  nn.conv2d(x, w - zw; int32, padded with zx) - zx * sum(w - zw)
/// qnn.dense                          likewise
/// qnn.dequantize(x, s, z)        ->  cast(x - z, float32) * s
/// qnn.quantize(x, s, z)          ->  cast(round(clip(x / s)) + z)
/// qnn.requantize, qnn.add, qnn.mul   quantize of (the combination of) dequantize
///
/// Where x is itself a sum, relu or clip of products with constants, dividing by s is done to these
/// constants: a quantized convolution ends in one multiplication. This rounds a little differently (the
/// product of the constants is float32). Data of int8 meets weights of int8 as uint8, moved by 128. REQUIRES:
/// types are inferred; runs before constants are folded.
Module canonicalize_qnn(const Module& module);

}  // namespace lathe::relay
