// A model built twice, untuned: as it is, and with kernels that run more often than they have to, so that the
// whole model takes a given share longer:
//   lathe-planted-slowdown --model dqn --share 0.03 --threads N --out FOLDER
// writes as_is.lathe, again.lathe (the same kernels under another name: other bytes, no other work) and
// slower.lathe, and prints a JSON object: which kernel repeats how often, and how much slower that is when
// the two race in turn.
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "bench/flags.h"
#include "core/codegen/host_target.h"
#include "core/runtime/executor.h"
#include "core/runtime/module_pair.h"
#include "core/runtime/thread_pool.h"
#include "core/support/signed_rank.h"
#include "core/support/statistics.h"
#include "tuner/final_build.h"
#include "tuner/load_model.h"
#include "tuner/optimize.h"

namespace lathe::bench {
namespace {

using runtime::ModuleImage;
using runtime::Plan;
using runtime::Step;

/// Seconds of each step: the median over some runs.
std::vector<double> step_seconds(const ModuleImage& image, int threads) {
  constexpr int kRuns = 200;
  runtime::ThreadPool pool(threads);
  runtime::Executor executor(runtime::Module::from_image(image), pool.parallel());
  runtime::set_random_inputs(executor, /*seed=*/0);
  std::vector<std::vector<double>> samples(image.plan.steps.size());
  for (int run = 0; run < kRuns; ++run) {
    std::vector<int64_t> spent(image.plan.steps.size());
    executor.run_timed(spent);
    for (size_t i = 0; i < spent.size(); ++i) samples[i].push_back(static_cast<double>(spent[i]) * 1e-9);
  }
  std::vector<double> seconds;
  for (const std::vector<double>& each : samples) seconds.push_back(median(each));
  return seconds;
}

/// Whether a step may run twice: it writes nothing that it reads.
bool repeatable(const Plan& plan, const Step& step) {
  const size_t inputs = step.args.size() - static_cast<size_t>(step.results);
  for (size_t i = 0; i < inputs; ++i)
    for (size_t j = inputs; j < step.args.size(); ++j) {
      const runtime::Value &read = plan.values[static_cast<size_t>(step.args[i])],
                           &written = plan.values[static_cast<size_t>(step.args[j])];
      if (read.place == written.place && read.at < written.at + written.bytes() &&
          written.at < read.at + read.bytes())
        return false;
    }
  return true;
}

constexpr int kRounds = 6;      // of planting and racing
constexpr double kNear = 0.05;  // to the share asked for, as a share of it

struct Plant {
  size_t step = 0;
  int64_t times = 0;  // more
};

/// The step whose repetitions come nearest to the share; of equal ones that with the fewest.
Plant choose(const Plan& plan, const std::vector<double>& seconds, double share) {
  const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  Plant best;
  double best_miss = INFINITY;
  for (size_t step = 0; step < plan.steps.size(); ++step) {
    if (!repeatable(plan, plan.steps[step])) continue;
    const auto times = std::max<int64_t>(1, std::llround(share * all / seconds[step]));
    const double planted = static_cast<double>(times) * seconds[step] / all;
    if (const double miss = std::abs(planted - share); miss < best_miss)
      best = {step, times}, best_miss = miss;
  }
  return best;
}

/// ln(slower / as it is), with its 95% interval, from turns in one process.
Location race(const std::string& as_is, const std::string& slower, int threads) {
  constexpr int kTurns = 600;
  runtime::ModulePair pair(runtime::Module::open(slower), runtime::Module::open(as_is), threads);
  std::vector<double> ln_ratios;
  for (int i = 0; i < kTurns; ++i) {
    const TurnTimer::Turn turn = pair.turn();
    ln_ratios.push_back(std::log(turn.incumbent / turn.challenger));
  }
  return hodges_lehmann(ln_ratios, 0.95);
}

void write_module(const std::string& folder, const std::string& name, ModuleImage image) {
  image.plan.model = name;
  runtime::write_module(fmt::format("{}/{}.lathe", folder, name), image);
}

ModuleImage repeated(ModuleImage image, const Plant& plant) {
  const Step step = image.plan.steps.at(plant.step);
  image.plan.steps.insert(image.plan.steps.begin() + static_cast<long>(plant.step),
                          static_cast<size_t>(plant.times), step);
  return image;
}

int plant(int argc, char** argv) {
  Flags flags("a model, and the same model slowed down by a share");
  std::string model, folder;
  double share = 0.03;
  int threads = 1;
  flags.add("--model", model, "a model of the zoo, or an ONNX file", Flags::Need::kRequired);
  flags.add("--share", share, 0.001, 1.0, "of the time by which it is slower");
  flags.add("--threads", threads, 1, 64, "to time it with");
  flags.add("--out", folder, "where both modules go", Flags::Need::kRequired);
  flags.parse(argc, argv);

  const Target target = codegen::resolve_target("cpu");
  const ModuleImage image = tuner::final_build(tuner::optimize(tuner::load_model(model), target), target,
                                               tuner::default_schedules(target));
  Plant planted = choose(image.plan, step_seconds(image, threads), share);
  write_module(folder, "again", image);
  write_module(folder, "as_is", image);
  Location raced;
  for (int round = 1;; ++round) {
    write_module(folder, "slower", repeated(image, planted));
    raced = race(folder + "/as_is.lathe", folder + "/slower.lathe", threads);
    const double found = std::expm1(raced.centre);
    if (std::abs(found - share) < kNear * share || round == kRounds) break;
    // Repeated, a kernel finds its data in the cache: more are needed than its share says.
    const double factor = std::clamp(share / std::max(found, share / 4), 0.25, 4.0);
    planted.times = std::max<int64_t>(1, std::llround(static_cast<double>(planted.times) * factor));
  }
  fmt::print("{}\n", nlohmann::json{{"kernel", image.plan.steps[planted.step].kernel},
                                    {"times", planted.times},
                                    {"raced", std::expm1(raced.centre)},
                                    {"raced_low", std::expm1(raced.low)},
                                    {"raced_high", std::expm1(raced.high)}}
                         .dump());
  return 0;
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) { return lathe::bench::guarded_main(lathe::bench::plant, argc, argv); }
