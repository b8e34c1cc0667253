#include "core/support/private_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "core/support/unfit.h"

namespace lathe {
namespace {

/// What is said against it; "" when it is opened.
std::string objection(const std::string& path) {
  try {
    close(open_private_file(path));
    return "";
  } catch (const Unfit& error) {
    return error.what();
  }
}

TEST(PrivateFile, IsMadeForItsUserAlone) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  EXPECT_EQ(objection(path), "");
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(objection(path), "") << "it is there now";
}

TEST(PrivateFile, IsNothingThatOthersMayUse) {
  const TemporaryFolder folder;
  const std::string path = folder / "file", link = folder / "link", pipe = folder / "pipe";
  write_file(path, "");
  chmod(path.c_str(), 0622);
  EXPECT_EQ(objection(path), "cannot use " + path + ": others may use it, by its mode 622");
  chmod(path.c_str(), 0600);
  std::filesystem::create_symlink(path, link);
  EXPECT_EQ(objection(link), "cannot use " + link + ": Too many levels of symbolic links");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(objection(pipe), "cannot use " + pipe + ": it is no regular file");
  EXPECT_EQ(objection(folder.path()), "cannot use " + folder.path() + ": Is a directory");
}

TEST(PrivateFile, IsNobodyElses) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  write_file(path, "");
  chmod(path.c_str(), 0600);
  ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
  EXPECT_EQ(objection(path), "cannot use " + path + ": it is of the user 65534");
}

}  // namespace
}  // namespace lathe
