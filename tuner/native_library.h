// A build as a shared library and a C header, for programs that are linked with it.
#pragma once

#include <string>
#include <vector>

#include "core/runtime/module_file.h"

namespace lathe::tuner {

/// Writes the library to `path`, which ends in .so, and its header beside it: lib<NAME>.so and NAME.h. The
/// library holds code, plan and weights; what runs it is liblathe-runtime.so (lathe_module_link in lathe.h).
/// Gives the header's path. Throws Error for another ending, "cannot write PATH: reason", and as
/// codegen::link_library.
std::string write_native_library(const std::string& path, const runtime::ModuleImage& image);

/// The header's text. `functions`: names of the library functions that the model calls. REQUIRES: `name` is a
/// C identifier.
std::string native_header(const std::string& name, const runtime::Plan& plan,
                          const std::vector<std::string>& functions);

}  // namespace lathe::tuner
