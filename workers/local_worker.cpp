#include "workers/local_worker.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <vector>

#include "core/runtime/cores.h"
#include "core/support/error.h"
#include "core/support/spawn.h"

namespace lathe::worker {

using Clock = std::chrono::steady_clock;

LocalWorker::LocalWorker(const std::string& endpoint, std::vector<std::string> more_flags)
    // This very program, even where its file was replaced meanwhile.
    : command_({"/proc/self/exe", "worker", "--tracker", endpoint, "--with-parent",
                fmt::format("{}", getpid()), "--quiet", "--no-config"}) {
  // Without files of configuration: those are for workers that people start.
  command_.insert(command_.end(), more_flags.begin(), more_flags.end());
  // The thread starts every one of them: a child dies with the thread that made it, and this one stays.
  std::promise<void> started;
  auto ready = started.get_future();
  thread_ = std::thread([this, started = std::move(started)]() mutable {
    try {
      pid_ = start();
    } catch (...) {
      started.set_exception(std::current_exception());
      return;
    }
    started.set_value();
    watch();
  });
  try {
    ready.get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

LocalWorker::~LocalWorker() {
  stop_ = true;
  thread_.join();
}

int LocalWorker::start() {
  // As this thread's, which may have been taken away since the last start.
  cores_ = static_cast<int>(runtime::allowed_cores().size());
  // So that Ctrl-C reaches us alone: the worker then drains when it is told to.
  // Out of the terminal's group: an interrupt is ours to handle, and ours to pass on.
  return spawn({.command = command_, .own_group = true});
}

void LocalWorker::watch() {
  auto pause = std::chrono::milliseconds(200);
  auto born = Clock::now();
  bool asked = false, was_unfit = false;
  Clock::time_point asked_at;
  for (;;) {
    // Without waiting, since the thread has stop_ to look at too. Where none could be started there is no
    // child, which is an error here and leads to the next try.
    int status = 0;
    if (const pid_t ended = waitpid(pid_, &status, WNOHANG); ended != 0) {
      if (stop_) return;
      const bool unfit = ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == kUnfitStatus;
      unfit_ = unfit && was_unfit;
      was_unfit = unfit;
      // One that dies at once may do so for ever: be patient with it.
      if (Clock::now() - born > std::chrono::seconds(10)) pause = std::chrono::milliseconds(200);
      for (const auto until = Clock::now() + pause; Clock::now() < until && !stop_;)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (stop_) return;
      pause = std::min<std::chrono::milliseconds>(pause * 2, std::chrono::seconds(10));
      born = Clock::now();
      try {
        pid_ = start();
      } catch (const Error&) {  // no memory just now, perhaps
        continue;
      }
    }
    if (stop_ && !asked) {
      asked = true;
      asked_at = Clock::now();
      kill(pid_, SIGTERM);
    }
    // F10 gives it five seconds; what it has not sent by then its leases' end makes up for.
    if (asked && Clock::now() - asked_at > std::chrono::seconds(5)) kill(pid_, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

namespace {

/// Ends this process as another one has ended.
[[noreturn]] void end_as(int status) {
  if (WIFSIGNALED(status)) {
    // There is nothing of this process that a core file could tell.
    prctl(PR_SET_DUMPABLE, 0);
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
    // Where it is blocked, it comes when it no longer is.
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_UNBLOCK, &all, nullptr);
  }
  _exit(WEXITSTATUS(status));
}

}  // namespace

void die_with_parent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before the signal was asked for.
  if (getppid() != parent) _exit(1);  // it was faster
}

void die_with_parent_as_group(pid_t parent) {
  // fork clears what prctl asks for, so that a parent-death signal ends one process and nothing that it has
  // started: somebody has to be there who ends the group.
  constexpr int kParentDied = SIGUSR1;
  sigset_t awaited, before;
  sigemptyset(&awaited);
  for (const int signal : {kParentDied, SIGCHLD, SIGINT, SIGTERM}) sigaddset(&awaited, signal);
  // Before any of them can come: none is lost, and none ends the guard by its default.
  sigprocmask(SIG_BLOCK, &awaited, &before);
  prctl(PR_SET_PDEATHSIG, kParentDied);
  if (getppid() != parent) _exit(1);
  const pid_t guard = getpid(), child = fork();
  if (child < 0) fail("fork: {}", strerror(errno));
  if (child == 0) {
    die_with_parent(guard);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return;
  }
  // Whoever reads from the child is to see its end.
  syscall(SYS_close_range, 3, ~0u, 0);
  for (;;) {
    const int signal = sigwaitinfo(&awaited, nullptr);
    int status = 0;
    if (signal == kParentDied) kill(0, SIGKILL);  // this process too
    if (signal == SIGINT || signal == SIGTERM) kill(child, signal);
    if (signal == SIGCHLD && waitpid(child, &status, WNOHANG) == child) end_as(status);
  }
}

}  // namespace lathe::worker
