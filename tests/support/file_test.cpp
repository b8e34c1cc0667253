#include "core/support/file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>

#include "core/support/error.h"
#include "core/support/temporary_folder.h"

namespace lathe {
namespace {

TEST(WriteFile, ADeviceStaysADevice) {
  const std::filesystem::path full = "/dev/full";
  if (!std::filesystem::is_character_file(full)) GTEST_SKIP() << "no /dev/full";
  EXPECT_THROW(write_file(full, "x"), Error);
  EXPECT_TRUE(std::filesystem::is_character_file(full));
  write_file("/dev/null", "x");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(WriteFile, ThreadsThatWriteOnePathDoNotMixTheirBytes) {
  TemporaryFolder folder;
  const std::string path = folder.path() + "/file";
  auto write = [&](char byte) {
    for (int i = 0; i < 50; ++i) write_file(path, std::string(100'000, byte));
  };
  std::thread other(write, 'a');
  write('b');
  other.join();
  const std::string bytes = read_file(path);
  EXPECT_EQ(bytes, std::string(100'000, bytes[0]));
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    EXPECT_EQ(entry.path(), path) << "nothing is left behind";
}

TEST(ReadFile, HasABound) {
  TemporaryFolder folder;
  const std::string large = folder / "large";
  write_file(large, "");
  std::filesystem::resize_file(large, (uintmax_t{1} << 31) + 1);
  const auto refusal = [](const std::string& path) {
    try {
      return std::to_string(read_file(path).size());
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(refusal(large), fmt::format("cannot read {}: it has more than 2147483648 bytes", large));
  EXPECT_EQ(refusal("/dev/zero"), "cannot read /dev/zero: it has more than 268435456 bytes");
  EXPECT_EQ(refusal("/dev/null"), "0");
  EXPECT_EQ(refusal(folder.path()), fmt::format("cannot read {}: Is a directory", folder.path()));
  EXPECT_GT(read_file("/proc/self/status").size(), 0U) << "whose size is said to be 0";
}

}  // namespace
}  // namespace lathe
