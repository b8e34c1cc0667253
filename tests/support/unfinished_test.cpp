#include "core/support/unfinished.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <stdexcept>
#include <thread>

#include "core/support/file.h"
#include "core/support/temporary_folder.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;

class UnfinishedTest : public ::testing::Test {
 protected:
  /// Makes a file of that name.
  std::function<std::string()> file(const std::string& name) const {
    return [path = folder_ / name] { return std::ofstream(path).put('x'), path; };
  }

  TemporaryFolder folder_;
};

TEST_F(UnfinishedTest, GoesWithItsOwnerUnlessItWasFinished) {
  {
    const Unfinished gone(file("gone"));
    Unfinished stays(file("stays"));
    stays.finish([&] { fs::rename(stays.path(), folder_ / "finished"); });
    write_file(stays.path(), "another's");
  }
  EXPECT_FALSE(fs::exists(folder_ / "gone"));
  EXPECT_TRUE(fs::exists(folder_ / "finished"));
  EXPECT_TRUE(fs::exists(folder_ / "stays")) << "it is not ours any more";
}

TEST_F(UnfinishedTest, IsGoneWhereItsNameCannotBeGiven) {
  {
    Unfinished one(file("one"));
    EXPECT_THROW(one.finish([] { throw std::runtime_error("taken"); }), std::runtime_error);
    EXPECT_TRUE(fs::exists(folder_ / "one"));
  }
  EXPECT_FALSE(fs::exists(folder_ / "one"));
  EXPECT_THROW(Unfinished([]() -> std::string { throw std::runtime_error("full"); }), std::runtime_error);
}

/// As a handler of a signal does.
TEST_F(UnfinishedTest, AllGoesWithTheProcess) {
  const auto run = [&] {
    const TemporaryFolder inner;
    write_file(folder_ / "path", "x");
    fs::create_directories(inner / "deep/er");
    for (int i = 0; i < 300; ++i) write_file(inner / fmt::format("deep/er/{}", i), "x");
    fs::create_symlink(folder_.path(), inner / "link");
    const Unfinished partial(file("partial"));
    Unfinished whole(file("whole"));
    whole.finish([&] { fs::rename(whole.path(), folder_ / "finished"); });
    write_file(folder_ / "whole", "another's");
    remove_unfinished();
    _exit(fs::exists(inner.path()) ? 1 : fs::exists(partial.path()) ? 2 : 0);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "");
  EXPECT_TRUE(fs::exists(folder_ / "finished"));
  EXPECT_TRUE(fs::exists(folder_ / "whole"));
  EXPECT_TRUE(fs::exists(folder_ / "path")) << "this process's own folder";
}

/// A signal may end a child between its fork and what it begins with.
TEST_F(UnfinishedTest, WaitsForNoThreadThatAForkHasLeftBehind) {
  std::promise<void> holds, forked;
  std::thread maker([&] {
    const Unfinished one([&] {
      holds.set_value();
      forked.get_future().wait();
      return file("one")();
    });
  });
  holds.get_future().wait();
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // which ends one that waits
    remove_unfinished();
    _exit(0);
  }
  forked.set_value();
  int status = -1;
  waitpid(child, &status, 0);
  maker.join();
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace lathe
