// Rewrite rules of expressions as a table, and the matcher that applies them. Internal to core/arith.
#pragma once

#include "core/arith/expr.h"

namespace lathe {

/// from -> to, for any values of the variables in it. Variables of type bool match boolean expressions, the
/// others expressions of any type; one that occurs twice must match equal expressions without `?`. Constants
/// match by value.
struct Rule {
  Expr from, to;
  Expr eager = {};  // a variable of which `from` evaluates what it stands for only where a select chooses it
};

/// Rules for what is not index arithmetic: selects, logic, bit operations, exact float identities.
std::span<const Rule> simplification_rules();

/// e rewritten by the first rule that matches at its root; e itself when none does.
Expr apply_rules(const Expr& e);

}  // namespace lathe
