// Whether index expressions tell the iterations of loops apart, and whether two of them ever meet.
#pragma once

#include "core/arith/simplify.h"

namespace lathe {

/// Between any two points of the ranges that `context` knows of `vars`, at least one of `values` differs;
/// other variables stand still. False when that is not known. A sum whose terms are the digits of a number
/// tells all of them, and floordiv and floormod by one divisor tell their dividend.
bool one_to_one(std::span<const Expr> values, std::span<const Var> vars, const Analyzer& context);

/// Whatever values their variables take, the two differ; false when that is not known. The tests of data
/// dependence by greatest common divisors and by bounds (Banerjee), both at once.
bool never_equal(const Expr& a, const Expr& b, const Analyzer& context);

}  // namespace lathe
