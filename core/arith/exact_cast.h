// Casts that change no value.
#pragma once

#include "core/arith/expr.h"

namespace lathe {

/// `value` computed in the real type `dtype`, where that rounds nothing: values that were widened from it,
/// numbers that it holds, and choices among such. Null: it would round, or nobody knows.
Expr exact_cast(DataType dtype, const Expr& value);

}  // namespace lathe
