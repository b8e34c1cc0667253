#include "core/runtime/module_pair.h"

#include "core/support/clock.h"
#include "core/support/statistics.h"

namespace lathe::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kTurnSeconds = 0.004;  // of the counted runs of one side

}  // namespace

std::vector<double> time_in_loop(double seconds, FunctionRef<void()> run) {
  // Not counted: the other side has just had the caches.
  run();
  std::vector<double> samples;
  for (double spent = 0; spent < seconds; spent += samples.back()) {
    auto start = Clock::now();
    run();
    samples.push_back(seconds_since(start));
  }
  return samples;
}

TurnTimer::Turn take_turn(Executor& incumbent, Executor& challenger, bool odd) {
  TurnTimer::Turn times;
  const auto time = [](Executor& executor) {
    return median(time_in_loop(kTurnSeconds, [&] { executor.run(); }));
  };
  // In turn: who goes first, goes second next time.
  if (odd) times.incumbent = time(incumbent);
  times.challenger = time(challenger);
  if (!odd) times.incumbent = time(incumbent);
  return times;
}

ModulePair::ModulePair(std::shared_ptr<const Module> incumbent, std::shared_ptr<const Module> challenger,
                       int threads, std::span<const int64_t> dims)
    : pool_(threads),
      incumbent_(std::move(incumbent), pool_.parallel()),
      challenger_(std::move(challenger), pool_.parallel()) {
  for (Executor* executor : {&incumbent_, &challenger_}) {
    if (!dims.empty()) executor->set_dims(dims);
    set_random_inputs(*executor, /*seed=*/0);
  }
}

double ModulePair::elapsed() const { return seconds_since(begun_); }

}  // namespace lathe::runtime
