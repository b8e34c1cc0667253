#include "core/support/disk_use.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/temporary_folder.h"

namespace lathe {
namespace {

constexpr size_t kMany = 1000;
constexpr uint64_t kMebibyte = 1 << 20;

/// A child in a group of its own that has done its deed, until this goes.
class Holder {
 public:
  explicit Holder(const std::function<void()>& deed) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    child_ = fork();
    if (child_ == 0) {
      setpgid(0, 0);
      deed();
      (void)!write(ends[1], "x", 1);
      for (;;) pause();
    }
    setpgid(child_, child_);
    char done = 0;
    EXPECT_EQ(read(ends[0], &done, 1), 1);
    close(ends[0]);
    close(ends[1]);
  }
  ~Holder() {
    kill(-child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  pid_t group() const { return child_; }

 private:
  pid_t child_;
};

/// Opened, filled with a MiB, and without a name.
int nameless(const std::string& path) {
  const int file = open(path.c_str(), O_CREAT | O_RDWR, 0600);
  const std::string bytes(kMebibyte, 'x');
  (void)!write(file, bytes.data(), bytes.size());
  unlink(path.c_str());
  return file;
}

TEST(DiskUse, IsOfAllThatIsInAFolder) {
  const TemporaryFolder folder;
  EXPECT_EQ(disk_use(folder.path(), 0, kMany).files, 0u);
  std::filesystem::create_directories(folder / "a/b");
  write_file(folder / "a/b/file", std::string(kMebibyte, 'x'));
  write_file(folder / "other", std::string(kMebibyte, 'x'));
  std::filesystem::create_symlink("/", folder / "elsewhere");
  const DiskUse use = disk_use(folder.path(), 0, kMany);
  EXPECT_EQ(use.files, 5u);
  EXPECT_GE(use.bytes, 2 * kMebibyte);
  EXPECT_LE(use.bytes, 3 * kMebibyte) << "of a link nothing is followed";
  EXPECT_FALSE(use.uncounted);
  std::filesystem::resize_file(folder / "other", uint64_t{1} << 40);
  EXPECT_LE(disk_use(folder.path(), 0, kMany).bytes, 3 * kMebibyte) << "a hole takes no room";
}

TEST(DiskUse, EndsAtTooManyFiles) {
  const TemporaryFolder folder;
  for (int i = 0; i < 100; ++i) write_file(folder / fmt::format("{}", i), "");
  EXPECT_EQ(disk_use(folder.path(), 0, 20).files, 21u);
}

TEST(DiskUse, CountsNoFoldersWithoutEnd) {
  const TemporaryFolder folder;
  std::string path = folder / "a";
  for (int i = 0; i < 100; ++i) path += "/a";
  std::filesystem::create_directories(path);
  EXPECT_TRUE(disk_use(folder.path(), 0, kMany).uncounted);
}

TEST(DiskUse, SeesWhatHasLostItsName) {
  const TemporaryFolder folder;
  const Holder holder([&] { nameless(folder / "file"); });
  EXPECT_EQ(disk_use(folder.path(), 0, kMany).files, 0u);
  const DiskUse use = disk_use(folder.path(), holder.group(), kMany);
  EXPECT_GE(use.bytes, kMebibyte);
  EXPECT_LE(use.bytes, 2 * kMebibyte) << "once, whoever has it";
  EXPECT_EQ(use.files, 1u);
  EXPECT_FALSE(use.uncounted);
}

/// Neither a child nor a thread with descriptors of its own is a place to hide.
TEST(DiskUse, SeesWhatOthersOfTheGroupHold) {
  const TemporaryFolder folder;
  const Holder child([&] {
    if (fork() != 0) return;
    nameless(folder / "file");
    for (;;) pause();
  });
  const Holder thread([&] {
    std::thread([&] {
      unshare(CLONE_FILES);
      nameless(folder / "file");
      for (;;) pause();
    }).detach();
  });
  for (const Holder* holder : {&child, &thread}) {
    uint64_t seen = 0;
    for (int i = 0; i < 500 && seen < kMebibyte; ++i) {
      seen = disk_use(folder.path(), holder->group(), kMany).bytes;
      usleep(10'000);
    }
    EXPECT_GE(seen, kMebibyte);
  }
}

TEST(DiskUse, SeesThatSomethingIsInMemoryAlone) {
  const TemporaryFolder folder;
  const Holder holder([&] {
    const int file = nameless(folder / "file");
    mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0);
    close(file);
  });
  EXPECT_TRUE(disk_use(folder.path(), holder.group(), kMany).uncounted);
  const TemporaryFolder another;
  EXPECT_FALSE(disk_use(another.path(), holder.group(), kMany).uncounted) << "it lies elsewhere";
}

TEST(RemoveFolder, RemovesWhateverIsThere) {
  const TemporaryFolder parent;
  const std::string folder = parent / "x";
  remove_folder(folder);  // there is none
  std::filesystem::create_directory(folder);
  const std::string here = std::filesystem::current_path();
  std::filesystem::current_path(folder);
  for (const char* name : {"moved-0", "file", "moved-2"}) write_file(name, "x");
  std::filesystem::create_symlink("/etc", "link");
  // Deeper than any path may be long.
  for (int i = 0; i < 800; ++i) {
    std::filesystem::create_directory("inner");
    std::filesystem::create_directory("empty");
    write_file("file", "x");
    std::filesystem::current_path("inner");
  }
  std::filesystem::current_path(here);
  chmod((folder + "/inner/inner").c_str(), 0);
  remove_folder(folder);
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_TRUE(std::filesystem::exists("/etc"));
}

TEST(RemoveFolder, SaysWhatItCannotDo) {
  const TemporaryFolder parent;
  write_file(parent / "file", "x");
  EXPECT_THROW(remove_folder(parent / "file"), Error);
}

}  // namespace
}  // namespace lathe
