#include "workers/quiet.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

namespace lathe::worker {
namespace {
using Clock = std::chrono::steady_clock;

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
