#include "tuner/model_race.h"

#include <algorithm>
#include <unordered_map>

#include "core/runtime/module_pair.h"
#include "core/support/clock.h"
#include "core/support/statistics.h"

namespace lathe::tuner {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kProfileSeconds = 0.08;  // of the counted runs of one side
constexpr int kProfileLoops = 4;

}  // namespace

/// One build, ready to run. Shared: the start may be the incumbent, and the incumbent once was a challenger.
struct ModelRace::Contender {
  Combination combination;
  std::vector<std::shared_ptr<const ModelBuilder::Compiled>> kernels;  // for the next one to share
  runtime::Executor executor;
};

ModelRace::ModelRace(ModelBuilder& builder, std::vector<std::vector<tir::Func>> scheduled,
                     const Combination& start, int threads)
    : builder_(builder), scheduled_(std::move(scheduled)), pool_(threads) {
  start_ = incumbent_ = contender(start);
}

std::shared_ptr<ModelRace::Contender> ModelRace::contender(const Combination& combination) {
  // The last race is against the start, which is still built.
  if (start_ && combination == start_->combination) return start_;
  std::vector<tir::Func> scheduled;
  for (size_t i = 0; i < combination.size(); ++i) scheduled.push_back(scheduled_.at(i).at(combination[i]));
  ModelBuilder::Build build = builder_.build(scheduled);
  auto made = std::make_shared<Contender>(
      Contender{combination, std::move(build.kernels),
                runtime::Executor(runtime::Module::from_image(std::move(build.image)), pool_.parallel())});
  // The same inputs for all contenders: the time of some kernels depends on data.
  runtime::set_random_inputs(made->executor, /*seed=*/0);
  return made;
}

void ModelRace::challenge(const Combination& challenger) {
  challenger_.reset();  // frees its constants before others are made
  challenger_ = contender(challenger);
}

void ModelRace::accept() { incumbent_ = std::exchange(challenger_, nullptr); }

ModelTimer::Turn ModelRace::turn() {
  // Who goes first takes turns: the second finds the caches as the first left them.
  return runtime::take_turn(incumbent_->executor, challenger_->executor, ++turns_ % 2 != 0);
}

/// Loops of both sides in turn, in an order (0 1 1 0) in which a steady drift of the machine's speed falls on
/// both alike. Clocks around every step are read here alone: a turn has none.
ModelTimer::Profile ModelRace::profile() {
  std::vector<std::vector<int64_t>> runs[2];
  Contender* sides[] = {incumbent_.get(), challenger_.get()};
  for (int i = 0; i < 2 * kProfileLoops; ++i) {
    int side = (i + i / 2) % 2;  // 0 1 1 0
    std::vector<std::vector<int64_t>> spent;
    runtime::time_in_loop(kProfileSeconds, [&] {
      spent.emplace_back(sides[side]->executor.steps().size());
      sides[side]->executor.run_timed(spent.back());
    });
    // Without the first run, as `time_in_loop` counts.
    runs[side].insert(runs[side].end(), spent.begin() + 1, spent.end());
  }
  return {task_seconds(*sides[0], runs[0]), task_seconds(*sides[1], runs[1])};
}

/// The median of each step over the runs, summed over the steps of a task.
std::vector<double> ModelRace::task_seconds(const Contender& contender,
                                            const std::vector<std::vector<int64_t>>& runs) const {
  // By kernel names: contenders differ in schedules alone, so the steps of each name the builder's kernels.
  std::unordered_map<std::string, size_t> task_of;
  for (size_t i = 0; i < builder_.size(); ++i) task_of[builder_.kernel_name(i)] = i;
  std::vector<double> seconds(builder_.size());
  const std::vector<runtime::Executor::PlannedStep> steps = contender.executor.steps();
  for (size_t step = 0; step < steps.size(); ++step) {
    std::vector<double> samples;
    for (const std::vector<int64_t>& run : runs) samples.push_back(run[step]);
    seconds[task_of.at(*steps[step].name)] += median(samples) * 1e-9;
  }
  return seconds;
}

double ModelRace::elapsed() const { return seconds_since(begun_); }

}  // namespace lathe::tuner
