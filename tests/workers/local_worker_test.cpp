#include "workers/local_worker.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace lathe::worker {
namespace {

constexpr int kLives = 7, kNoNamespace = 77;

/// The exit status of a child that does `body`.
template <typename Body>
int status_of_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int live_if_child_of(pid_t parent) {
  die_with_parent(parent);
  return kLives;
}

/// Nobody would ever do what waits for it.
TEST(LocalWorkers, OneThatCanDoNothingIsNotWaitedForWithoutEnd) {
  const LocalWorker worker("ipc:///nowhere");
  while (!worker.is_unfit()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

TEST(DieWithParent, LivesWhileItsParentDoes) {
  const pid_t self = getpid();
  EXPECT_EQ(status_of_child([&] { return live_if_child_of(self); }), kLives);
}

TEST(DieWithParent, EndsWhenItsParentWasFaster) {
  EXPECT_EQ(status_of_child([] { return live_if_child_of(getppid() + 1); }), 1);
}

/// `tune` may be all that a container runs.
TEST(DieWithParent, LivesWhereItsParentIsTheFirstProcess) {
  const int status = status_of_child([] {
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) return kNoNamespace;
    return status_of_child([] {
      const pid_t first = getpid();
      return first != 1 ? 2 : status_of_child([&] { return live_if_child_of(first); });
    });
  });
  if (status == kNoNamespace) GTEST_SKIP() << "no namespaces here";
  EXPECT_EQ(status, kLives);
}

/// A searcher that is taken over may start what no signal of its own parent ends.
TEST(DieWithParent, TakesItsGroupWithIt) {
  int held[2];
  ASSERT_EQ(pipe2(held, O_CLOEXEC), 0);
  const pid_t tracker = fork();
  if (tracker == 0) {
    const pid_t self = getpid();
    if (fork() == 0) {
      setpgid(0, 0);
      die_with_parent_as_group(self);
      if (fork() == 0) (void)!write(held[1], "started", 7);
    }
    for (;;) sleep(600);
  }
  close(held[1]);
  char text[8];
  EXPECT_EQ(read(held[0], text, sizeof text), 7);
  kill(tracker, SIGKILL);
  waitpid(tracker, nullptr, 0);
  // The pipe ends when nobody holds it any more.
  pollfd ended{.fd = held[0], .events = POLLIN};
  EXPECT_TRUE(poll(&ended, 1, 5000) == 1 && (ended.revents & POLLHUP) != 0);
  close(held[0]);
}

/// What a tracker sees of its searcher is the guard's.
TEST(DieWithParent, EndsAsItsChildDoes) {
  const auto guarded = [](auto body) {
    const pid_t self = getpid();
    return status_of_child([&] {
      setpgid(0, 0);
      die_with_parent_as_group(self);
      return body();
    });
  };
  EXPECT_EQ(guarded([] { return kLives; }), kLives);
  EXPECT_EQ(guarded([] { return raise(SIGUSR2); }), -SIGUSR2);
  EXPECT_EQ(guarded([] { return raise(SIGKILL); }), -SIGKILL);
  // One that is asked to end is the guard's parent's to ask: the child gets it, and may end as it likes.
  EXPECT_EQ(guarded([] {
              static volatile sig_atomic_t asked = 0;
              signal(SIGTERM, [](int) { asked = 1; });
              kill(getppid(), SIGTERM);
              while (!asked) usleep(1000);
              return kLives;
            }),
            kLives);
}

}  // namespace
}  // namespace lathe::worker
