// A worker process on this machine, kept alive: what `tune` runs when it is its own tracker.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace lathe::worker {

class LocalWorker {
 public:
  /// Starts `tune worker --tracker ENDPOINT --with-parent PID`, and again whenever it dies, from a thread of
  /// its own. The worker dies with this process. Throws Error when it cannot be started at all.
  explicit LocalWorker(const std::string& endpoint, std::vector<std::string> more_flags = {});
  /// Drains it; after five seconds, kills it.
  ~LocalWorker();
  LocalWorker(const LocalWorker&) = delete;
  LocalWorker& operator=(const LocalWorker&) = delete;

  /// Whether it has ended so twice in a row, which it does not live down by itself. It has said why.
  bool is_unfit() const { return unfit_; }
  /// That it may use, since its last start.
  int cores() const { return cores_; }

 private:
  int start();
  void watch();

  std::vector<std::string> command_;
  std::atomic<bool> stop_{false}, unfit_{false};
  std::atomic<int> pid_{-1}, cores_{0};
  std::thread thread_;
};

/// With which a worker ends whose machine can build or run nothing.
inline constexpr int kUnfitStatus = 4;

/// Ends this process when its parent does. `parent` is what that was when it started this process: who is
/// nobody's child any more has the parent 1, and so has a child of a container's first process.
void die_with_parent(pid_t parent);

/// As die_with_parent, with all that this process will start, unless it leaves the process's group. The
/// caller goes on in a child of the process that was started; that one stays as a guard, passes SIGINT and
/// SIGTERM on, and ends as the child does. REQUIRES: a process of one thread, the first of its group.
void die_with_parent_as_group(pid_t parent);

}  // namespace lathe::worker
