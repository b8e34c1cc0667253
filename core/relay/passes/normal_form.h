// The two ways to say that a value is used twice: bound by let, or shared in the graph.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// Binds every intermediate value by let, in the innermost scope that holds all its uses, operands first; the
/// order of evaluation is then explicit. Primitive functions are not entered.
Ref<Function> to_a_normal_form(const Ref<Function>& function);

/// Replaces variables bound by let by their values. Bindings of values with effects, and of recursive
/// functions, stay.
Ref<Function> to_graph_normal_form(const Ref<Function>& function);

}  // namespace lathe::relay
