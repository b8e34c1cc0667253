// From an outlined program to the code that a module holds, with a plan for each stretch.
#pragma once

#include <string>

#include "core/relay/expr.h"
#include "core/runtime/module_file.h"

namespace lathe::tuner {

/// The image of a program, without its library: `plan` plans a stretch (plan_graph). All plans share the
/// module's constants, equal ones being one. Where main's parameters and value are tensors, or tuples of
/// them, they are the module's inputs and outputs, named as those of a graph; where they are not it has none,
/// and main is to be called by Machine::call. Throws Error for what cannot be compiled.
runtime::ModuleImage plan_program(const relay::Module& fused,
                                  FunctionRef<runtime::ModuleImage(const std::string& stretch)> plan);

}  // namespace lathe::tuner
