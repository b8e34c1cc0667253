// float32 models -> models that multiply and store in bfloat16.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// nn.conv2d, nn.dense (x, w)  ->  the same of cast(x, bfloat16) and cast(w, bfloat16), summing in float32
/// nn.max_pool2d (x)           ->  on cast(x, bfloat16), exact
/// x of pooling and of sums of two tensors  ->  cast(cast(x, bfloat16), float32)
///
/// So tensors lie in memory as bfloat16 (rounded to nearest even) and weights take half as much; what is
/// fused into a convolution stays float32, as do results of functions and everything else. REQUIRES: types
/// are inferred; batch norms are scales and shifts already (simplify_inference), best folded into weights.
Ref<Function> to_mixed_precision(const Ref<Function>& function);

}  // namespace lathe::relay
