// The system's linker.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lathe::codegen {

/// Whether PATH has a program of this name.
bool has_program(const std::string& name);

/// Object files as one shared object, by `linker`, binutils' or lld's, in a process of its own. Symbols they
/// do not define are left to whoever loads it. REQUIRES: at least one. Throws Error with the linker's words
/// when it fails or is missing.
std::string link_shared_object(std::span<const std::string_view> objects, const std::string& linker);

}  // namespace lathe::codegen
