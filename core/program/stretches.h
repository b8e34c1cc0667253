// The straight stretches of a program: operators between two decisions or calls become one function, which is
// optimized, tuned and planned as a model is.
#pragma once

#include <string>
#include <vector>

#include "core/relay/expr.h"

namespace lathe::program {

/// Whether a module's main is more than a graph of operators: branches, matches, closures, references, data,
/// or calls of functions, a library's included.
bool is_program(const relay::Module& module);

/// Whether a function of the module calls a library function.
bool calls_library(const relay::Module& module);

/// Whether a global function is a stretch: of tensors, to a tuple of tensors, without control flow.
bool is_stretch(const relay::Function& function);
/// Whether outline_stretches() made the module.
bool is_outlined(const relay::Module& module);
/// The names of a module's stretches, in order.
std::vector<std::string> stretches_of(const relay::Module& module);

/// Whether a call is of an operator that registers compute: on numbers alone.
bool is_scalar_call(const relay::Expr& e);

/// The functions that main needs, in A-normal form, with each stretch a call `@main.stretch0(...)`, whose
/// items are its results. Operators on numbers stay where registers compute them: loop counters, conditions,
/// dimensions (extents.h). Throws PlacedError for a shape that nothing tells. REQUIRES: types are inferred.
relay::Module outline_stretches(const relay::Module& module);

}  // namespace lathe::program
