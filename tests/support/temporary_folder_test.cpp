#include "core/support/temporary_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "core/support/error.h"
#include "core/support/file.h"

namespace lathe {
namespace {

TEST(TemporaryFolder, IsFreshAndVanishesWithWhatIsInIt) {
  std::string path;
  {
    TemporaryFolder one, other;
    EXPECT_NE(one.path(), other.path());
    path = one.path();
    EXPECT_TRUE(std::filesystem::is_empty(path));
    EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms::owner_all);
    std::filesystem::create_directory(one / "inner");
    write_file(one / "inner/file", "x");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TemporaryFolder, SaysWhyItCannotBeMade) {
  setenv("TMPDIR", "/proc", 1);
  try {
    TemporaryFolder folder;
    ADD_FAILURE() << "made " << folder.path();
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("cannot make the folder /proc/lathe-")) << error.what();
  }
  unsetenv("TMPDIR");
}

}  // namespace
}  // namespace lathe
