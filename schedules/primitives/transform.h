// Linear maps of a few elements, as algorithms with fewer multiplications apply them before and after.
#pragma once

#include <vector>

#include "core/arith/expr.h"
#include "schedules/cook_toom.h"

namespace lathe::schedule {

/// matrix * x, an expression a row. Where rows differ from others in signs only, or columns do (points come
/// as p and -p), their common parts are the same expressions, which code generation computes once.
std::vector<Expr> transformed(const Matrix& matrix, const std::vector<Expr>& x);

/// values[index]; a single one once the index is a constant.
Expr element(const std::vector<Expr>& values, const Expr& index);

}  // namespace lathe::schedule
