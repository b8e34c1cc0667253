// Branches by a condition that only a run knows. Where both sides give tensors of one rank and type, or
// sequences of such, the result is one of these. Else it stays either: what follows is made for each of the
// two apart, until it gives the same for both.
#pragma once

#include "core/frontends/onnx_program.h"

namespace lathe::onnx {

/// An optional that has no value is asked for it, or a sequence for an item that it has not: the run must not
/// get here.
class NoElement : public Error {
 public:
  using Error::Error;
};

/// Whether the value is one of two that have nothing in common, by a condition: it has no type.
bool is_either(const Value& value);

/// What the two sides give, one of it by the condition. A side that fails for want of an element, or where
/// nothing else leads on (Choices), is left out: a run that would take it is refused.
Values branch_of(const Value& condition, FunctionRef<Values()> yes, FunctionRef<Values()> no);

/// What f makes of the inputs: of each side where one of them is either. `again` is called for each time more
/// that f is.
Values of_each_side(const Values& inputs, FunctionRef<Values(const Values&)> f, FunctionRef<void()> again);

}  // namespace lathe::onnx
