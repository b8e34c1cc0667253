// What training needs and inference does not.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// nn.batch_norm in inference becomes x * scale + shift with scale = gamma / sqrt(variance + epsilon), shift
/// = beta - mean * scale; nn.dropout vanishes. Scale and shift are expressions of the statistics, for
/// fold_constant to fold. REQUIRES: types are inferred. The result has its types.
Module simplify_inference(const Module& module);

}  // namespace lathe::relay
