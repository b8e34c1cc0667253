// The code of one function.
#pragma once

#include <string>

#include "core/program/program_emitter.h"

namespace lathe::program {

/// Gives the functions, plans and constants that it names numbers of `all`. Throws PlacedError for what
/// cannot be compiled.
runtime::CodeFunction emit_function(ProgramEmitter& all, const Ref<relay::Function>& function,
                                    std::string name);

}  // namespace lathe::program
