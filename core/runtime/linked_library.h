// A model in a shared library of its own, as `tune compile --native` writes it: what lathe.h calls a
// lathe_library.
#pragma once

#include <cstdint>

extern "C" {

struct LatheSymbol {
  const char* name;
  const void* address;
};

/// The parts of a module file, where the loader has put them.
struct lathe_library {
  int64_t version;  // kLibraryVersion
  const char* plan;
  int64_t plan_bytes;
  const char* program;
  int64_t program_bytes;  // 0: there is none
  const char* constants;  // at a multiple of kAlignment
  int64_t constant_bytes;
  const LatheSymbol* symbols;  // kernels, and the native code of a program
  int64_t symbol_count;
};
}

namespace lathe::runtime {

inline constexpr int64_t kLibraryVersion = 3;

}  // namespace lathe::runtime
