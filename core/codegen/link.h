// The system's linker.
#pragma once

#include <string>
#include <string_view>

namespace lathe::codegen {

/// An object file as a shared object, by binutils' `linker` ("ld") in a process of its own. Symbols it does
/// not define are left to whoever loads it. Throws Error with the linker's words when it fails or is missing.
std::string link_shared_object(std::string_view object, const std::string& linker);

}  // namespace lathe::codegen
