// Dimensions of a program that are its own, and not of the graph around it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/tir/stmt.h"

namespace lathe::tir {

/// func f[h, w](a: float32[1 + h // 14 * (w // 14), 64])  ->  func f[n](a: float32[n, 64])
///
/// where the program needs h and w for nothing else: what is scheduled for rows finds rows, and layers that
/// see the image at other scales are one program. Each dimension of the result stands by itself in the shape
/// of a parameter, which is how calls tell it (told_dims). Gives `func` itself when there is nothing to
/// name, or not all can be. REQUIRES: unscheduled.
Func with_own_dims(const Func& func);

/// func f[n](x: float32[n]) -> (y: float32[n - 4])  ->  func f[m](x: float32[m + 4]) -> (y: float32[m])
///
/// since loops run over results: where tiles end is then told by a dimension, and not by a sum. Gives `func`
/// itself as above. REQUIRES: unscheduled.
Func with_dims_of_results(const Func& func);

/// func f[a, b](x: float32[a, 1, 8, 4], w: float32[1, b, 4, 8]) -> (y: float32[a, b, 8, 8])
///   ->  func f[q0, q1, q2, q3, a, b](x: float32[q0, q1, 8, 4], w: float32[q2, q3, 4, 8]) -> (..)
///
/// of products with two open dimensions of a batch or more, of which an operand lacks one: each operand has
/// its own, and its only element stands for all where one is 1. Operands of which only a run tells which of
/// their dimensions are 1 are then few programs, in place of nine: this one, that of operands that agree, and
/// those in which rows of several products are rows of one. Gives `func` itself as above. REQUIRES:
/// unscheduled.
Func with_dims_of_operands(const Func& func);

/// The value of each dimension, in the order of dims_of(), in a call whose parameters have these shapes: what
/// stands where it stands alone. A shape may have several open dimensions where the program has one
/// (join_dims.h), which is their product then. Nothing when one is not told.
std::optional<std::vector<Expr>> told_dims(const FuncNode& func, std::span<const std::vector<Expr>> shapes);

}  // namespace lathe::tir
