// What cores cost each other: the probes that take several of them.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "core/runtime/thread_pool.h"
#include "core/support/node.h"

namespace lathe::worker {

/// A thread on each core that this process may use, the caller's among them, pinned while the team lives.
/// Each measurement is of one moment, and nothing when a thread came too late for it to count.
class CoreTeam {
 public:
  CoreTeam();

  int cores() const { return pool_.threads(); }

  /// Seconds that a parallel loop takes besides its work.
  std::optional<double> launch();

  /// Seconds that `read` takes after another core has written the words. REQUIRES: two cores.
  std::optional<double> exchange(std::span<uint64_t> words, FunctionRef<void()> read);

  /// How many times slower each of `work` is while all run, one on each core, than the first alone. By CPU
  /// time, of which other processes take none. REQUIRES: one for each core.
  std::optional<double> slowdown(std::span<const std::function<void()>> work);

 private:
  bool each_on_its_own(int parts, FunctionRef<void(int part)> body);

  runtime::ThreadPool pool_;
  std::vector<std::thread::id> ran_;  // by part
};

}  // namespace lathe::worker
