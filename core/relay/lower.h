// From a fused primitive function to the tensor program that is its meaning.
#pragma once

#include "core/relay/op.h"

namespace lathe::relay {

/// The unscheduled program: params are the function's parameters (tuples flattened) then its results
/// (flattened). Dimensions that are symbols stay open. REQUIRES: types are inferred, no dimension is `?`, the
/// body consists of calls to operators with `compute`, constants (scalars are inlined), tuples and
/// projections. Throws Error naming the operator that has no meaning yet.
tir::Func lower_function(const Ref<Function>& function, const std::string& name);

/// `function` with its constants, other than scalars, as further parameters, and their values in that order:
/// what lower_function takes when a whole expression with weights is to be run.
struct LiftedConstants {
  Ref<Function> function;
  std::vector<Tensor> values;
};
LiftedConstants lift_constants(const Ref<Function>& function);

/// True when the function's only result holds its only parameter's elements in the same order (reshape,
/// squeeze, copy, a layout change that moves nothing, ...): the runtime gives the same memory another shape.
/// REQUIRES: types inferred.
bool is_view(const Ref<Function>& function);

}  // namespace lathe::relay
