// The system's linker.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/tir/target.h"

namespace lathe::codegen {

/// The system's own linker links for its own architecture only; lld for all.
std::string linker_for(const Target& target);

/// What is to be seen of a shared object from outside.
struct LinkOptions {
  std::string soname;   // the name by which programs that are linked with it find it
  std::string exports;  // the one symbol; empty: all
};

/// Object files as one shared object, by `linker`, binutils' or lld's, in a process of its own. Symbols they
/// do not define are left to whoever loads it. REQUIRES: at least one. Throws Error with the linker's words
/// when it fails, and Unfit when it cannot be started.
std::string link_shared_object(std::span<const std::string_view> objects, const std::string& linker,
                               const LinkOptions& options = {});

}  // namespace lathe::codegen
