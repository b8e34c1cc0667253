// What passes ask of calls and their operands, and the calls that many of them write.
#pragma once

#include "core/relay/op.h"

namespace lathe::relay {

/// The operator that `e` calls, or null.
const Op* operator_of(const Expr& e);
/// `e` where it calls the operator named, else null.
const Call* call_of(const Expr& e, std::string_view name);
/// Whether `e` is a constant whose elements, of which it has some, are all `value`.
bool is_filled_with(const Expr& e, double value);

// Typed calls of these operators. REQUIRES: types of the operands.
Expr cast(const Expr& e, DataType dtype);  // `e` itself where it has the type
Expr reshape(const Expr& e, std::vector<int64_t> shape);
Expr transpose(const Expr& e, std::vector<int64_t> axes);

}  // namespace lathe::relay
