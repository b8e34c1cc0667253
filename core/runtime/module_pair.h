// Two builds of one model, timed in turn as they would run.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"
#include "core/support/node.h"
#include "core/support/race.h"

namespace lathe::runtime {

/// Calls `run` once, then again until the time is over; seconds of each call but the first.
/// The uncounted first call meets the caches as whoever ran before left them.
std::vector<double> time_in_loop(double seconds, FunctionRef<void()> run);

/// One turn of both; on odd ones the incumbent begins. Runs one in a loop, then the other: the caches are in
/// the state of a model that runs again and again. Turns are short, so that what else happens on the machine
/// hits both sides.
TurnTimer::Turn take_turn(Executor& incumbent, Executor& challenger, bool odd);

/// Both with an arena of their own, on the same random inputs; where dimensions are open, with these numbers
/// for them.
class ModulePair final : public TurnTimer {
 public:
  ModulePair(std::shared_ptr<const Module> incumbent, std::shared_ptr<const Module> challenger, int threads,
             std::span<const int64_t> dims = {});

  Turn turn() override { return take_turn(incumbent_, challenger_, ++turns_ % 2 != 0); }
  double elapsed() const override;

 private:
  ThreadPool pool_;
  Executor incumbent_, challenger_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  int turns_ = 0;
};

}  // namespace lathe::runtime
