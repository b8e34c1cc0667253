// What of a model only a run decides, as parts of a program: branches, loops, and sizes that data tell.
#pragma once

#include "core/frontends/onnx_dims.h"

namespace lathe::onnx {

/// `value`, whose sizes that only a run tells (`?`) have names from here on.
Value with_named_sizes(const Value& value);
/// The type of which both are, with `?` for sizes in which they differ; null where they differ in more.
relay::Type common_type(const relay::Type& a, const relay::Type& b);
/// Whether a run may refuse to compute the value: something in it that `known` does not need anyway.
bool may_fail(const Value& value, const Value& known);
/// `type` of a tensor, with `?` for sizes that nothing tells here, as those of the body of a loop behind it.
relay::Type with_told_sizes(const relay::Type& type);
/// As many zeros as the number says, which a run computes: a vector, whose length has a name.
Value zeros_of(const Value& count);
/// The first rows of `value`, as many as the number says.
Value first_rows(const Value& value, const Value& count);

/// One of the two, by a boolean of rank 0. Where they differ in a size, the result has a new one. Throws
/// Error where they differ in anything else.
Values branch(const Value& condition, const Values& yes, const Values& no);

/// A function that calls itself in tail position: while more(state), state = next(state). A size that differs
/// from step to step has a new name in each. What does not depend on the state is computed once. Throws Error
/// where anything else of the state's types differs.
Values loop_while(const Values& first, FunctionRef<Value(const Values&)> more,
                  FunctionRef<Values(const Values&)> next);

/// Rows of equal shape, as many as a loop has steps, of which each gives one: a part of the loop's state.
/// Row `at` of `all`, along the first dimension, replaced.
Value with_row(const Value& all, const Value& at, const Value& row);
/// Element `at`, a number of rank 0, along the first dimension, which vanishes.
Value row_of(const Value& all, const Value& at);

}  // namespace lathe::onnx
