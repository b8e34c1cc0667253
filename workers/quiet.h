// A quiet machine while a candidate is timed, although others are being built beside it.
//
// With cores to spare, measurements and builds are pinned to different ones. With none, a measurement opens a
// timed window: at most one is open on the machine (for this user), and while it is, the builders of all
// workers stand still (SIGSTOP). Both sides meet in one small file of shared memory; whoever dies leaves
// nothing locked.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace lathe::worker {

struct CorePlan {
  std::vector<int> run, build;  // cpu numbers
  bool stop_builders = false;   // the two overlap, or share a physical core
};

/// How `threads`-wide measurements and `builders` share the cores this process may use.
/// Throws Unfit when there are fewer cores than threads, but there were as many when the process began: they
/// were taken from it. Throws Error where it never had them: such a lease is none for this worker.
CorePlan plan_cores(int threads);

/// One process's end of the shared file. Not thread-safe.
class Quiet {
 public:
  /// Throws Unfit where another user has made the file, or may write it.
  Quiet();
  ~Quiet();
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

  // For who measures.
  /// Opens the timed window unless another one is open; `stop_builders` also brings all builders to a stand.
  bool try_open(bool stop_builders);
  void close();

  // For who builds. The builder is a process group, led by `group`.
  void enter(pid_t group);
  void leave();
  /// Whether the builder must stand still now; stops or continues it accordingly. Call after enter(), and
  /// every few milliseconds: that also wakes a builder whose stopper died.
  bool obey();

 private:
  struct Shared;
  bool window_is_open();
  void signal_builders(int signal);

  int lock_ = -1;
  Shared* shared_ = nullptr;
  uint64_t builder_ = 0;  // its name; 0: none
  bool stopped_ = false;
  bool stopping_ = false;
};

}  // namespace lathe::worker
