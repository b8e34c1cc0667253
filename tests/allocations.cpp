#include "tests/allocations.h"

#include <atomic>
#include <cstddef>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

constinit std::atomic<int64_t> calls = 0, bytes_asked = 0;

void count(size_t bytes) {
  calls.fetch_add(1, std::memory_order_relaxed);
  bytes_asked.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
}

}  // namespace

// The C library's own, under the names that it exports for this use.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) { return count(bytes), __libc_malloc(bytes); }
void* calloc(size_t number, size_t bytes) { return count(number * bytes), __libc_calloc(number, bytes); }
void* realloc(void* memory, size_t bytes) { return count(bytes), __libc_realloc(memory, bytes); }
void* aligned_alloc(size_t alignment, size_t bytes) {
  return count(bytes), __libc_memalign(alignment, bytes);
}
}

namespace lathe {
const bool kCountsAllocations = true;
Allocations allocations() { return {calls, bytes_asked}; }
}  // namespace lathe

#else

namespace lathe {
const bool kCountsAllocations = false;
Allocations allocations() { return {}; }
}  // namespace lathe

#endif
