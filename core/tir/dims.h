// The dimensions that a tensor program leaves open.
#pragma once

#include <span>
#include <string_view>

#include "core/arith/simplify.h"
#include "core/tir/stmt.h"

namespace lathe::tir {

/// The variables in the shapes of the params, in the order in which they first occur. A kernel takes their
/// values in this order (core/runtime/kernel.h). Empty for a program of constant shapes.
std::vector<Var> dims_of(const FuncNode& func);

/// A dimension that stays open in with_dims().
inline constexpr int64_t kStaysOpen = -1;
/// `func` with these values for its dimensions. REQUIRES: as many as dims_of() gives, none negative but those
/// that stay open.
Func with_dims(const Func& func, std::span<const int64_t> values);

/// `func` for calls of which the dimensions are in these bounds: whatever is one number for all of them is
/// that number. REQUIRES: a bound for each, none empty; `func` has its index arithmetic in int64.
Func with_dims_within(const Func& func, std::span<const Bound> bounds);

/// `func` with simple shapes and extents: whoever compares or rebuilds these finds them as they are.
Func with_simple_shapes(const Func& func);

/// Whether the text of a function (core/tir/text.h) names dimensions, without parsing it.
bool names_dims(std::string_view text);

/// All dimensions are numbers.
bool has_constant_shape(const BufferNode& buffer);

/// The bytes that a buffer takes, as an expression of the dimensions.
Expr byte_count(const BufferNode& buffer);

}  // namespace lathe::tir
