// The functions of a program -> machine code.
#pragma once

#include <span>

#include "core/codegen/compile.h"
#include "core/runtime/program/native.h"

namespace lathe::codegen {

/// An object that exports kNativeSymbol: the program's functions as native.h says. `constants[i]` is the data
/// of program.constants[i]; numbers become part of the code. Thread-safe. Throws Error as compile_object.
/// REQUIRES: check_program().
Object compile_program(const runtime::Program& program, std::span<const void* const> constants,
                       const Target& target);

}  // namespace lathe::codegen
