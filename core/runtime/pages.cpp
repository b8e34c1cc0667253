#include "core/runtime/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/support/error.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1
#endif

namespace lathe::runtime {
namespace {

constexpr uint64_t up(uint64_t at, uint64_t size) { return (at + size - 1) / size * size; }

uint64_t page_size() {
  static const auto size = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return size;
}

/// A page that is there: written to, for one only read would be the system's page of zeros.
bool make_present(uint64_t page) {
  auto* memory = reinterpret_cast<char*>(page);
  if (mprotect(memory, page_size(), PROT_READ | PROT_WRITE) != 0) return false;
  *const_cast<volatile char*>(memory) = 0;
  return true;
}

/// Maps at a multiple of kHugePage: over a larger reservation, of which the rest is given back but for a page
/// before and one behind. A vector at an edge has lanes there, masked off: what they would touch does not
/// matter, but where it is no memory at all a processor takes 140 ns to find that nothing is wrong (Zen 4).
/// Throws Error.
std::shared_ptr<void> map_aligned(uint64_t bytes, int protection, int flags, int descriptor,
                                  std::string_view what) {
  const uint64_t page = page_size(), size = up(bytes, page), reserved = size + kHugePage + 2 * page;
  const auto refused = [&] {
    const std::string why = std::strerror(errno);
    if (descriptor >= 0) fail("cannot map {} bytes{}: {}", bytes, what, why);
    throw OutOfResources(fmt::format("cannot allocate {} bytes{}: {}", bytes, what, why));
  };
  void* space = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) refused();
  // Mmap gives multiples of a page; a huge page wants 2 MiB.
  const auto begin = reinterpret_cast<uint64_t>(space), at = up(begin + page, kHugePage);
  const uint64_t from = at - page, to = at + size + page;
  if (from > begin) munmap(space, from - begin);
  if (begin + reserved > to) munmap(reinterpret_cast<void*>(to), begin + reserved - to);
  std::shared_ptr<void> pages(reinterpret_cast<void*>(from),
                              [bytes = to - from](void* first) { munmap(first, bytes); });
  // Over our own reservation, so nobody else's mapping can be there.
  void* memory = mmap(reinterpret_cast<void*>(at), bytes, protection, flags | MAP_FIXED, descriptor, 0);
  if (memory == MAP_FAILED || !make_present(from) || !make_present(at + size)) refused();
  madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: refused where huge pages are off
  return {std::move(pages), memory};
}

}  // namespace

std::shared_ptr<void> allocate_pages(uint64_t bytes, std::string_view what) {
  // Half a huge page and more is rounded up to whole ones; less to small pages, one at least.
  const uint64_t size = up(std::max<uint64_t>(bytes, 1), bytes >= kHugePage / 2 ? kHugePage : page_size());
  return map_aligned(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                     what.empty() ? "" : fmt::format(" for {}", what));
}

RoomyPages allocate_roomy(int64_t needed, int64_t wished, std::string_view what) {
  if (wished > needed) {
    try {
      return {allocate_pages(static_cast<uint64_t>(wished), what), wished};
    } catch (const OutOfResources&) {
      // What is needed now may be there all the same.
    }
  }
  return {allocate_pages(static_cast<uint64_t>(needed), what), needed};
}

std::shared_ptr<void> map_file(int descriptor, uint64_t bytes) {
  return map_aligned(bytes, PROT_READ, MAP_SHARED, descriptor, "");
}

void collapse_to_huge_pages(void* memory, uint64_t bytes) {
  auto begin = reinterpret_cast<uint64_t>(memory), from = up(begin, kHugePage);
  // Whole huge pages inside the range only.
  // MADV_COLLAPSE copies; a part of a huge page would pull in what lies beside it.
  uint64_t to = (begin + bytes) / kHugePage * kHugePage;
  if (from < to) madvise(reinterpret_cast<void*>(from), to - from, MADV_COLLAPSE);
}

}  // namespace lathe::runtime
