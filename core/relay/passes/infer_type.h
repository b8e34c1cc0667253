// Type inference (Roesch et al. 2019, section 3.2): Hindley-Milner unification, where operators are typed by
// relations between tensor shapes that wait in a queue for the holes they need.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// A type that is wrong or not determined. what() begins with the place.
class TypeError : public Error {
 public:
  TypeError(Span span, std::string message);
  const Span& span() const { return span_; }
  const std::string& message() const { return message_; }  // without the place

 private:
  Span span_;
  std::string message_;
};

/// Every expression of the result has its checked_type; parameters and results of functions are annotated. An
/// expression that has the right type already stays the same node. Throws TypeError.
Module infer_type(const Module& module);

/// The same for a function on its own: no global function or algebraic data type may occur.
Ref<Function> infer_type(const Ref<Function>& function);

}  // namespace lathe::relay
