// Normalizations and products, as operators of several domains compose them.
#pragma once

#include "core/frontends/onnx_converter.h"

namespace lathe::onnx {

/// (.., m, n) as (.., n, m).
Value transposed_last_two(const Value& value);

/// The axes from `axis`, which counts from the end where it is negative, to the last one of input 0.
std::vector<int64_t> axes_from(const Node& node, int64_t axis);

struct Normalized {
  Value result, mean, inverse;  // 1 / deviation; of a root mean square no mean
};
/// Less its mean, over its deviation, times the scale, plus the bias, which may be null.
Normalized layer_normalized(const Value& x, const std::vector<int64_t>& axes, double epsilon,
                            const Value& scale, const Value& bias);
/// Over the root of its mean square, without a scale.
Normalized rms_normalized(const Value& x, const std::vector<int64_t>& axes, double epsilon);

}  // namespace lathe::onnx
