// Library functions of the runtime, for the interpreter.
#pragma once

#include <string>

#include "core/relay/interpret/interpreter.h"
#include "core/runtime/program/library.h"

namespace lathe::program {

/// What the interpreter calls for the function of that name (Interpreter::add_library): fails as compiled
/// programs do.
relay::Interpreter::Library interpreted(std::string name, runtime::LibraryFunction function);

}  // namespace lathe::program
