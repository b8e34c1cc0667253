#include "workers/quiet.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "core/support/temporary_folder.h"
#include "core/support/unfit.h"

namespace lathe::worker {
namespace {
using Clock = std::chrono::steady_clock;
constexpr int kNoNamespace = 77;

/// A process that only waits, in a group of its own.
pid_t idle_group() {
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    for (;;) pause();
  }
  setpgid(pid, pid);
  return pid;
}

bool is_stopped(pid_t pid) {
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED | WNOHANG | WNOWAIT);
  return info.si_pid == pid;
}

/// In a namespace of process ids of its own, by whose number the shared file is called: no other test's is
/// touched.
int status_in_new_namespace(const std::function<int()>& body) {
  const auto status_of = [](const std::function<int()>& act) {
    const pid_t child = fork();
    if (child == 0) _exit(act());
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  return status_of([&] { return unshare(CLONE_NEWPID) != 0 ? kNoNamespace : status_of(body); });
}

/// Who made the file could hold its lock for ever, and name any group of this user as a builder to be
/// stopped.
TEST(Quiet, TakesNoFileOfAnotherUser) {
  const int status = status_in_new_namespace([] {
    struct stat space {};
    stat("/proc/self/ns/pid", &space);
    const TemporaryFolder own;
    const std::string name = fmt::format("/lathe-quiet-2-{}-{}", getuid(), space.st_ino),
                      path = "/dev/shm" + name;
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 || fchown(file, 65534, 65534) != 0) return kNoNamespace;
    unsetenv("XDG_RUNTIME_DIR");
    int failures = 0;
    try {
      Quiet quiet;
      failures |= 1;
    } catch (const Unfit&) {
    }
    setenv("XDG_RUNTIME_DIR", own.path().c_str(), 1);
    Quiet quiet;
    if (!quiet.try_open(false) || access((own.path() + name).c_str(), F_OK) != 0) failures |= 2;
    unlink(path.c_str());
    return failures;
  });
  if (status == kNoNamespace) GTEST_SKIP() << "only root has namespaces, and gives files away";
  EXPECT_EQ(status, 0);
}

bool comes_true(const std::function<bool()>& condition) {
  for (const auto limit = Clock::now() + std::chrono::seconds(10); Clock::now() < limit;) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

TEST(Quiet, StopsABuilderWhileTheWindowIsOpen) {
  const pid_t builder = idle_group();
  {
    Quiet builds, measures;
    builds.enter(builder);
    // Another worker of this user may measure just now.
    ASSERT_TRUE(comes_true([&] { return measures.try_open(true); }));
    EXPECT_TRUE(comes_true([&] { return is_stopped(builder); }));
    EXPECT_TRUE(builds.obey());
    EXPECT_FALSE(Quiet().try_open(true)) << "one window at a time";
    measures.close();
    EXPECT_TRUE(comes_true([&] { return !builds.obey(); }));
    builds.leave();
    EXPECT_FALSE(builds.obey()) << "it builds no more";
  }
  kill(builder, SIGKILL);
  waitpid(builder, nullptr, 0);
}

/// Builders that come and go while windows open and close: nobody but them may be stopped. What would be
/// stopped by mistake is the group of who builds, so that is a group of its own here.
TEST(Quiet, NeverStopsWhoBuilds) {
  const pid_t who = fork();
  if (who == 0) {
    setpgid(0, 0);
    auto come_and_go = [] {
      Quiet quiet;
      const pid_t builder = idle_group();
      for (int i = 0; i < 10000; ++i) {
        quiet.enter(builder);
        quiet.obey();
        quiet.leave();
      }
      kill(builder, SIGKILL);
      waitpid(builder, nullptr, 0);
    };
    auto measure = [] {
      Quiet quiet;
      for (int i = 0; i < 10000; ++i)
        if (quiet.try_open(true)) quiet.close();
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 16; ++i) threads.emplace_back(come_and_go);
    threads.emplace_back(measure);
    for (std::thread& thread : threads) thread.join();
    _exit(0);
  }
  const auto limit = Clock::now() + std::chrono::seconds(60);
  int status = 0;
  pid_t ended = 0;
  while (ended == 0 && Clock::now() < limit) {
    ended = waitpid(who, &status, WNOHANG | WUNTRACED);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(ended, who);
  EXPECT_TRUE(ended == who && WIFEXITED(status)) << (WIFSTOPPED(status) ? "it was stopped" : "it hangs");
  kill(-who, SIGKILL);
  if (!WIFEXITED(status)) waitpid(who, nullptr, 0);
}

}  // namespace
}  // namespace lathe::worker
