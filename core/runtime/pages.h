// Memory in whole pages, huge ones (2 MiB) where the system gives them.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "core/support/unfit.h"

namespace lathe::runtime {

inline constexpr uint64_t kHugePage = uint64_t{2} << 20;

/// Zeroed memory. From 1 MiB on it fills whole huge pages. Throws OutOfResources, which says what it was for.
std::shared_ptr<void> allocate_pages(uint64_t bytes, std::string_view what = "");

/// The same for what may grow: `bytes` are `wished` where the system has as many, else `needed`.
struct RoomyPages {
  std::shared_ptr<void> memory;
  int64_t bytes = 0;
};
RoomyPages allocate_roomy(int64_t needed, int64_t wished, std::string_view what);

/// The first `bytes` of an open file, read-only and shared with every process that maps the file. Address and
/// offset agree modulo kHugePage, so that a file system that caches files in huge pages can map those.
/// Nothing is read before it is used. Throws Error; the descriptor stays the caller's.
std::shared_ptr<void> map_file(int descriptor, uint64_t bytes);

/// Asks for memory that is in use already to be moved to huge pages. A wish: systems may refuse.
void collapse_to_huge_pages(void* memory, uint64_t bytes);

}  // namespace lathe::runtime
