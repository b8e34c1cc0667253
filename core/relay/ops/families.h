// The families of operators, one function a file of this folder. tables.cpp lists them.
#pragma once

#include "core/relay/op.h"

namespace lathe::relay::ops {

std::span<const Op> conv_ops();
std::span<const Op> pool_ops();
std::span<const Op> dense_ops();
std::span<const Op> norm_ops();
std::span<const Op> softmax_ops();
std::span<const Op> activation_ops();
std::span<const Op> unary_ops();
std::span<const Op> binary_ops();
std::span<const Op> shape_ops();
std::span<const Op> joining_ops();
std::span<const Op> reduce_ops();
std::span<const Op> move_ops();
std::span<const Op> create_ops();
std::span<const Op> sized_ops();
std::span<const Op> conv_transpose_ops();
std::span<const Op> indexing_ops();
std::span<const Op> sort_ops();
std::span<const Op> box_ops();
std::span<const Op> determinant_ops();
std::span<const Op> image_ops();
std::span<const Op> quantize_ops();

}  // namespace lathe::relay::ops
