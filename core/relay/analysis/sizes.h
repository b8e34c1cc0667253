// Arithmetic of sizes: expressions of dimensions, of which none is negative.
#pragma once

#include <optional>

#include "core/arith/expr.h"

namespace lathe::relay {

/// An equal expression, simpler by that.
lathe::Expr simplify_size(const lathe::Expr& size);
/// Whether a <= b can be shown.
bool is_at_most(const lathe::Expr& a, const lathe::Expr& b);

/// The operator that computes this of numbers; null where there is none.
const char* operator_of(BinaryOp op);

/// Elements begin, begin + stride, ... of an axis. Where there are none `begin` may lie outside.
struct Slice {
  lathe::Expr begin, count;
  int64_t stride = 1;
};

/// A position this far from an end of an axis of open size lies beyond it: exporters write "to the end" so.
constexpr int64_t kBeyondAnyAxis = INT32_MAX;

/// begin:end:stride as NumPy has it: a negative position counts from the end, one outside is the nearest.
/// Nothing where it can't be told whether begin or end is negative. REQUIRES: the stride is not 0.
std::optional<Slice> numpy_slice(const lathe::Expr& begin, const lathe::Expr& end, int64_t stride,
                                 const lathe::Expr& extent);

}  // namespace lathe::relay
