// From a fused primitive function to the tensor program that is its meaning.
#pragma once

#include "core/relay/op.h"

namespace lathe::relay {

/// The unscheduled program: params are the function's parameters (tuples flattened) then its results
/// (flattened). REQUIRES: types are inferred, shapes constant, the body consists of calls to operators with
/// `compute`, constants (scalars are inlined), tuples and projections. Throws Error naming the operator that
/// has no meaning yet.
tir::Func lower_function(const Ref<Function>& function, const std::string& name);

/// `function` with its constants, other than scalars, as further parameters, and their values in that order:
/// what lower_function takes when a whole expression with weights is to be run.
struct LiftedConstants {
  Ref<Function> function;
  std::vector<Tensor> values;
};
LiftedConstants lift_constants(const Ref<Function>& function);

/// A function that computes nothing: its result holds elements of its first parameter in the same order, all
/// of them (reshape, squeeze, copy, a layout change that moves nothing, ...), or those at one of `extent`
/// positions along the first dimension: the runtime gives the same memory, or a part of it, another shape.
struct View {
  int64_t extent = 1, position = 0;
  std::optional<size_t> position_param;  // the parameter that has the position as its only element
};
/// None when the function computes something. REQUIRES: types inferred.
std::optional<View> find_view(const Ref<Function>& function);

}  // namespace lathe::relay
