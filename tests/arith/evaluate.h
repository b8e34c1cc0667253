// Evaluation of integer expressions, the truth that simplification is tested against.
#pragma once

#include <optional>

#include "core/arith/expr.h"

namespace lathe {

using Values = std::map<const VarNode*, int64_t>;
/// The value of an int64 or bool expression; nothing where it is undefined (division by zero).
std::optional<int64_t> evaluate(const Expr& e, const Values& values);

}  // namespace lathe
