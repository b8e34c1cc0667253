// The interface between generated code and whoever calls it. A kernel needs nothing else of the host than
// libc and libm, so the same shared object runs in the runtime, in a measuring child and in the tests.
#pragma once

#include <cstdint>

extern "C" {

/// How a kernel runs a parallel loop. `launch` calls body(closure, begin, end) on disjoint ranges that cover
/// [0, iterations), perhaps at the same time on several threads, and returns when all are done.
struct LatheParallel {
  void (*launch)(void* pool, void (*body)(void* closure, int64_t begin, int64_t end), void* closure,
                 int64_t iterations);
  void* pool;
};

/// One primitive function. `buffers` are its parameters in order, inputs before outputs, each 64-byte aligned
/// and dense in row-major order; `workspace` is 64-byte aligned scratch memory of the size the artifact
/// states; `parallel` is never null; `dims` are the values of the dimensions that the function leaves open,
/// in the order of its parameters' shapes, and may be null where it leaves none: numbers in the host's
/// memory, for whoever launches work on another device needs them first. Returns 0, or the number of the
/// check that failed.
typedef int32_t (*LatheKernel)(void* const* buffers, void* workspace, const LatheParallel* parallel,
                               const int64_t* dims);
}

namespace lathe::runtime {

/// What every pointer handed to a kernel is a multiple of, in bytes.
inline constexpr int64_t kAlignment = 64;

constexpr int64_t align_up(int64_t bytes, int64_t alignment = kAlignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace lathe::runtime
