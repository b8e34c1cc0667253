#include "core/runtime/pages.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "core/support/error.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1
#endif

namespace lathe::runtime {
namespace {

constexpr uint64_t huge_up(uint64_t at) { return (at + kHugePage - 1) / kHugePage * kHugePage; }

/// Gives the pages back with the last reference.
std::shared_ptr<void> owned(void* memory, uint64_t bytes) {
  return {memory, [bytes](void* pages) { munmap(pages, bytes); }};
}

/// Maps at a multiple of kHugePage: over a larger reservation, of which the rest is given back.
void* map_aligned(uint64_t bytes, int protection, int flags, int descriptor) {
  // Mmap gives multiples of 4 KiB; a huge page wants 2 MiB.
  uint64_t reserved = bytes + kHugePage;
  void* space = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) return MAP_FAILED;
  auto begin = reinterpret_cast<uint64_t>(space), at = huge_up(begin);
  // Over our own reservation, so nobody else's mapping can be there.
  void* memory = mmap(reinterpret_cast<void*>(at), bytes, protection, flags | MAP_FIXED, descriptor, 0);
  if (memory == MAP_FAILED) {
    int error = errno;
    munmap(space, reserved);
    errno = error;
    return MAP_FAILED;
  }
  uint64_t end = (at + bytes + 4095) / 4096 * 4096;
  // Before it and behind it.
  if (at > begin) munmap(space, at - begin);
  if (begin + reserved > end) munmap(reinterpret_cast<void*>(end), begin + reserved - end);
  // Refused where huge pages are off; everything works without.
  madvise(memory, bytes, MADV_HUGEPAGE);  // a wish
  return memory;
}

}  // namespace

std::shared_ptr<void> allocate_pages(uint64_t bytes, std::string_view what) {
  // Half a huge page and more is rounded up to whole ones; less to small pages, one at least.
  uint64_t size = bytes >= kHugePage / 2 ? huge_up(bytes) : (bytes + 4095) / 4096 * 4096 + 4096 * !bytes;
  void* memory = map_aligned(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (memory == MAP_FAILED)
    fail("cannot allocate {} bytes{}{}: {}", size, what.empty() ? "" : " for ", what, std::strerror(errno));
  return owned(memory, size);
}

std::shared_ptr<void> map_file(int descriptor, uint64_t bytes) {
  void* memory = map_aligned(bytes, PROT_READ, MAP_SHARED, descriptor);
  if (memory == MAP_FAILED) fail("cannot map {} bytes: {}", bytes, std::strerror(errno));
  return owned(memory, bytes);
}

void collapse_to_huge_pages(void* memory, uint64_t bytes) {
  auto begin = reinterpret_cast<uint64_t>(memory), from = huge_up(begin);
  // Whole huge pages inside the range only.
  // MADV_COLLAPSE copies; a part of a huge page would pull in what lies beside it.
  uint64_t to = (begin + bytes) / kHugePage * kHugePage;
  if (from < to) madvise(reinterpret_cast<void*>(from), to - from, MADV_COLLAPSE);
}

}  // namespace lathe::runtime
