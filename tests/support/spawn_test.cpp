// What a child has of its parent, asked of a shell.
#include "core/support/spawn.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/temporary_folder.h"

namespace lathe {
namespace {
using ::testing::HasSubstr;
using ::testing::Not;

int exit_code_of(const ChildProgram& child) {
  int status = 0;
  EXPECT_GT(waitpid(spawn(child), &status, 0), 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

ChildProgram shell(const std::string& script) { return {.command = {"sh", "-c", script, "its name"}}; }

TEST(Spawn, PassesArgumentsAndEndsAsTheChildDoes) {
  EXPECT_EQ(exit_code_of(shell("test \"$0\" = 'its name' && exit 7")), 7);
}

/// What this program ignores, as `tune` does to be told by errno.
TEST(Spawn, EndsAChildWhoseFileIsTooLong) {
  const TemporaryFolder folder;
  ChildProgram child = shell("ulimit -f 1; exec head -c 1M /dev/zero");
  child.files = {{1, folder / "out"}};
  const auto before = signal(SIGXFSZ, SIG_IGN);
  int status = 0;
  EXPECT_GT(waitpid(spawn(child), &status, 0), 0);
  signal(SIGXFSZ, before);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGXFSZ);
}

TEST(Spawn, OpensFiles) {
  const TemporaryFolder folder;
  write_file(folder / "in", "what is read");
  write_file(folder / "out", "what was there before, and was longer");
  ChildProgram child = shell("cat; echo failure >&2");
  child.files = {{0, folder / "in"}, {1, folder / "out"}};
  child.descriptors = {{2, 1}};
  EXPECT_EQ(exit_code_of(child), 0);
  EXPECT_EQ(read_file(folder / "out"), "what is readfailure\n");
}

TEST(Spawn, PassesDescriptorsAndNothingElse) {
  int ends[2], other[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(other, 0), 0);
  ChildProgram child = shell("ls /proc/self/fd | tr '\\n' ' ' >&5");
  child.descriptors = {{5, ends[1]}};
  child.nothing_else = true;
  EXPECT_EQ(exit_code_of(child), 0);
  close(ends[1]);
  char said[100] = {};
  EXPECT_GT(read(ends[0], said, sizeof said - 1), 0);
  EXPECT_STREQ(said, "0 1 2 3 5 ") << "3 is what ls reads";
  for (const int open : {ends[0], other[0], other[1]}) close(open);
}

TEST(Spawn, PassesNoSecretOfTheEnvironmentWithNothingElse) {
  for (const char* name : {"PGPASSWORD", "LATHE_TOKEN", "PATHLIKE", "LD_HARMLESS"})
    ASSERT_EQ(setenv(name, "the value", 1), 0);
  const TemporaryFolder folder;
  ChildProgram child = shell("test -n \"$HOME$PATH\" && env");
  child.files = {{1, folder / "out"}};
  EXPECT_EQ(exit_code_of(child), 0);
  EXPECT_THAT(read_file(folder / "out"), HasSubstr("PGPASSWORD=the value\n")) << "a trusted child has all";
  child.nothing_else = true;
  EXPECT_EQ(exit_code_of(child), 0);
  const std::string told = "\n" + read_file(folder / "out");
  EXPECT_THAT(told, HasSubstr("\nLD_HARMLESS=the value\n"));
  for (const char* secret : {"PGPASSWORD", "LATHE_TOKEN", "PATHLIKE"})
    EXPECT_THAT(told, Not(HasSubstr(secret)));
  for (const char* name : {"PGPASSWORD", "LATHE_TOKEN", "PATHLIKE", "LD_HARMLESS"}) unsetenv(name);
}

TEST(Spawn, SetsGroupAndSignals) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
  ChildProgram child = shell("kill -TERM $$; exit 3");
  EXPECT_EQ(exit_code_of(child), 3) << "it inherits what we block";
  child.all_signals = true;
  EXPECT_EQ(exit_code_of(child), -1);
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
  const ChildProgram waits = shell("exec sleep 60");
  ChildProgram apart = waits;
  apart.own_group = true;
  for (const auto& [program, group] : {std::pair(waits, getpgrp()), std::pair(apart, pid_t{0})}) {
    const pid_t pid = spawn(program);
    EXPECT_EQ(getpgid(pid), group != 0 ? group : pid);
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

TEST(Spawn, SaysWhatCannotBeRun) {
  try {
    spawn({.command = {"no-such-program", "word"}});
    ADD_FAILURE() << "it runs";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "cannot run `no-such-program`: No such file or directory");
  }
}

}  // namespace
}  // namespace lathe
