#include "core/runtime/pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>

namespace lathe::runtime {
namespace {

/// Whether there is memory at that page.
bool is_present(const char* page) {
  unsigned char resident = 0;
  return mincore(const_cast<char*>(page), 1, &resident) == 0 && resident & 1;
}

void expect_neighbours(const std::shared_ptr<void>& memory, uint64_t bytes) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const char* first = static_cast<const char*>(memory.get());
  EXPECT_TRUE(is_present(first - page)) << bytes;
  EXPECT_TRUE(is_present(first + (bytes + page - 1) / page * page)) << bytes;
}

TEST(Pages, MaskedLanesFindMemoryBeforeAndBehind) {
  for (uint64_t bytes : {1, 4096, 757760, 2 << 20}) expect_neighbours(allocate_pages(bytes), bytes);
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  const std::vector<char> content(3 * 4096, 'x');
  ASSERT_EQ(std::fwrite(content.data(), 1, content.size(), file.get()), content.size());
  std::fflush(file.get());
  std::shared_ptr<void> mapped = map_file(fileno(file.get()), content.size());
  expect_neighbours(mapped, content.size());
  EXPECT_EQ(static_cast<const char*>(mapped.get())[content.size() - 1], 'x');
}

}  // namespace
}  // namespace lathe::runtime
