#include "workers/local_worker.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

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

}  // namespace
}  // namespace lathe::worker
