// Work told by what it asks for of memory, which is the same on any machine and at any load: malloc of the
// whole process is counted. For tests with a binary of their own, which names allocations.cpp among its
// sources.
#pragma once

#include <cstdint>

namespace lathe {

struct Allocations {
  int64_t calls = 0, bytes = 0;

  Allocations operator-(const Allocations& before) const {
    return {calls - before.calls, bytes - before.bytes};
  }
};

/// Since the process began. A sanitizer has malloc, and nothing is counted.
Allocations allocations();
extern const bool kCountsAllocations;

template <typename F>
Allocations allocations_of(F&& f) {
  const Allocations before = allocations();
  f();
  return allocations() - before;
}

}  // namespace lathe
