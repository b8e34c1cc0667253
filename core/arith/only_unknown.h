// Dimensions that are told by an expression of them.
#pragma once

#include <cstdint>
#include <optional>

#include "core/arith/expr.h"
#include "core/support/node.h"

namespace lathe {

/// An expression that is coefficient * variable + rest.
struct OnlyUnknown {
  const VarNode* variable = nullptr;
  int64_t coefficient = 0;  // not 0
  Expr rest;                // without the variable

  /// What the variable is where the expression is `value` and the rest `rest_value`: rounded down, and never
  /// negative.
  int64_t told_by(int64_t value, int64_t rest_value) const;
};

/// `e` by the one variable of it that is not known; nothing where it has several, or is not linear in that
/// one with a constant as coefficient. Points into `e`.
std::optional<OnlyUnknown> only_unknown(const Expr& e, FunctionRef<bool(const VarNode*)> is_known);

}  // namespace lathe
