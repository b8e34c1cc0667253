// Resampling of images. Along each spatial axis an output pixel is a weighted sum of a few source pixels (its
// taps); small tables hold the taps of every row and column, and the result combines them.
#pragma once

#include <optional>
#include <string>

#include "core/relay/ops/families.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {

enum class ResizeMethod { kNearest, kLinear, kCubic };
/// Of its names, TVM's and ONNX's; nothing for another.
std::optional<ResizeMethod> resize_method(const std::string& name);

/// The image `x` at the size of `type`, by the attributes' method, coordinates and filters. REQUIRES: they
/// are checked; `rank` spatial axes.
Buffer resized(FuncBuilder& f, const ResizeAttrs& a, int rank, const Buffer& x, const TensorType& type);

}  // namespace lathe::relay::ops
