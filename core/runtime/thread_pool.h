// The native thread pool behind parallel loops: fork and join in a fraction of a microsecond, by spinning
// before sleeping.
#pragma once

#include <memory>

#include "core/runtime/kernel.h"

namespace lathe::runtime {

/// A fixed team of threads, the caller being one of them. A launch splits the iterations in as many equal
/// contiguous parts as there are threads; part 0 is the caller's, part i always worker i's, so that a thread
/// finds the data it touched last time in its own cache. Parts of eight iterations and more are taken in ever
/// smaller pieces; one that is done helps with what others have not begun, so that a core that is slow, late
/// or taken away costs little. A launch made while another is running (a nested one, or one from another
/// thread) runs serially on its caller. Between launches the workers spin for about 200 microseconds, then
/// sleep; with more threads than cores they sleep at once.
class ThreadPool {
 public:
  /// `pin` binds each thread of the team, the caller too, to a core of its own while the pool lives (ignored
  /// when there are fewer cores than threads). Throws OutOfResources when the system gives no more threads.
  /// REQUIRES: threads >= 1, and destruction on the constructing thread when it is pinned.
  explicit ThreadPool(int threads, bool pin = false);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }
  /// The handle that kernels take; valid as long as the pool. Thread-safe.
  const LatheParallel* parallel() const { return &parallel_; }

 private:
  class Team;
  int threads_;
  LatheParallel parallel_;
  std::unique_ptr<Team> team_;
};

/// Runs parallel loops on the calling thread alone.
const LatheParallel* serial_parallel();

}  // namespace lathe::runtime
