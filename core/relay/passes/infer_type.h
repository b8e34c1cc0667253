// Type inference (Roesch et al. 2019, section 3.2): Hindley-Milner unification, where operators are typed by
// relations between tensor shapes that wait in a queue for the holes they need.
#pragma once

#include "core/relay/expr.h"
#include "core/support/placed_error.h"

namespace lathe::relay {

/// A type that is wrong or not determined.
class TypeError : public PlacedError {
 public:
  using PlacedError::PlacedError;
};

/// Every expression of the result has its checked_type; parameters and results of functions are annotated;
/// operators that are values became functions. An expression that has the right type already stays the same
/// node. Throws TypeError.
Module infer_type(const Module& module);

/// An equation between dimensions that the types of a program demand and arithmetic cannot decide.
struct DimCheck {
  Expr call;  // of the operator that demands it, each time it runs
  lathe::Expr a, b;
  bool or_one = false;  // in a broadcast: one of the two may be 1 instead
};
/// All of a module's, in the order of its functions' calls. Throws TypeError.
std::vector<DimCheck> undecided_dims(const Module& module);

/// The same for a function on its own: no global function or algebraic data type may occur.
Ref<Function> infer_type(const Ref<Function>& function);

}  // namespace lathe::relay
