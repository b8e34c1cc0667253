// Dimensions as values of a program: numbers, which functions compute with, pass on and capture.
#pragma once

#include "core/relay/expr.h"

namespace lathe::program {

/// A global function in which no type is needed to know a dimension: those of parameters and of casts are
/// numbers bound by let (`extent`), casts are comparisons with such numbers (`match_shape`), and so is
/// `arange` of numbers that are computed. A call of a library function gets the dimensions of its results
/// that are no constants as further arguments. Throws PlacedError for one that nothing tells. With
/// `check_params` functions compare what they are called with, too: where a value of the module has a
/// dimension `?`, any dimension may be another than types say. REQUIRES: A-normal form, types.
Ref<relay::Function> with_extents(const Ref<relay::Function>& function, bool check_params);

/// Whether the type of an expression of the module, which are inferred, has a dimension `?`.
bool has_unknown_dims(const relay::Module& module);

/// A call of `extent`: the extent of a tensor's axis, as a number.
relay::Expr extent_of(const relay::Expr& tensor, int64_t axis);

/// A call of `require`.
bool is_requirement(const relay::Expr& e);

/// A call of an operator between tensors and numbers that runs without a kernel (runtime::SizedOp), or a
/// requirement.
bool is_sized_call(const relay::Expr& e);

/// Whether some tensor of the module has a size that it computes.
bool has_computed_sizes(const Ref<relay::Function>& function);

}  // namespace lathe::program
