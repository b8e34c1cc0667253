// A model as a shared library that programs are linked with.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tir/target.h"

namespace lathe::codegen {

/// The parts of a lathe_library (core/runtime/linked_library.h).
struct LibraryParts {
  std::string plan, program, constants;
  std::vector<std::string> symbols;  // that `objects` define
  std::vector<std::string_view> objects;
};

/// The bytes of a shared library, called `soname`, which exports nothing but the lathe_library `name`. It
/// needs libc's and libm's symbols. Throws Error without a linker for the target. REQUIRES: a C identifier.
std::string link_library(const std::string& name, const std::string& soname, const LibraryParts& parts,
                         const Target& target);

}  // namespace lathe::codegen
