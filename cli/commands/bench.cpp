// `tune bench`: what a run takes, and where the time goes. The profile is of runs of its own, for looking at
// the clock around each step would slow down those that are timed as a whole.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/libraries.h"
#include "cli/model_flags.h"
#include "core/runtime/timing.h"
#include "core/support/bounded_json.h"

namespace lathe::cli {
namespace {

struct Layer {
  std::string kernel;
  int64_t calls = 0;
  double microseconds = 0;  // of all its calls in one run
  double flops = 0, bytes = 0;
  double gflops() const { return flops / microseconds / 1e3; }
  double gigabytes() const { return bytes / microseconds / 1e3; }
};

/// The time of each kernel that runs, longest first: the median over 20 runs of each step, summed over the
/// steps it runs in.
std::vector<Layer> profile(runtime::Executor& executor) {
  constexpr int kRuns = 20;
  const std::vector<runtime::Executor::PlannedStep> steps = executor.steps();
  std::vector<std::vector<int64_t>> spent(kRuns, std::vector<int64_t>(steps.size()));
  std::vector<int64_t> calls(steps.size());  // of all runs together
  for (std::vector<int64_t>& run : spent) executor.run_timed(run, calls);
  std::vector<Layer> layers;
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto [name, plan, step] = steps[i];
    std::array<int64_t, kRuns> samples;
    for (int run = 0; run < kRuns; ++run) samples[run] = spent[run][i];
    // Of each step by itself: an interruption hits one step of one run.
    std::nth_element(samples.begin(), samples.begin() + kRuns / 2, samples.end());
    const std::string kernel = step ? *name : *name + " (library)";
    auto layer =
        std::find_if(layers.begin(), layers.end(), [&](const Layer& l) { return l.kernel == kernel; });
    if (layer == layers.end()) layer = layers.insert(layers.end(), {.kernel = kernel});
    const int64_t calls_a_run = calls[i] / kRuns;
    layer->calls += calls_a_run;
    layer->microseconds += static_cast<double>(samples[kRuns / 2]) / 1e3;
    if (!step) continue;  // a library function, of which only the time is known
    layer->flops += step->flops * static_cast<double>(calls_a_run);
    layer->bytes += static_cast<double>(runtime::bytes_of(*plan, *step) * calls_a_run);
  }
  // Of a family of kernels those for other sizes do not run.
  std::erase_if(layers, [](const Layer& layer) { return layer.calls == 0; });
  std::sort(layers.begin(), layers.end(),
            [](const Layer& a, const Layer& b) { return a.microseconds > b.microseconds; });
  return layers;
}

/// What a run takes for tensors.
std::string tensors_text(const runtime::Executor& executor) {
  const auto megabytes = [](int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  if (const auto held = executor.program_bytes())
    return fmt::format("{:.3f} MB of the program's values", megabytes(*held));
  const runtime::Plan& plan = executor.plan();
  const int64_t fewest = plan.arena_lower_bound;  // of a model without open dimensions
  return fmt::format("{:.3f} MB of tensors, {:.3f} if none took another's place{}",
                     megabytes(plan.arena_bytes), megabytes(runtime::tensor_bytes(plan)),
                     fewest > 0 ? fmt::format(" (no plan needs less than {:.3f})", megabytes(fewest)) : "");
}

void print_text(const ModelFlags& flags, const runtime::Executor& executor, const runtime::Timing& timing,
                const std::vector<Layer>& layers) {
  const bool short_run = timing.median < 1e-4;
  const double scale = short_run ? 1e6 : 1e3;
  fmt::print("{}, {} thread{}: {:.3f} {}  (95% interval {:.3f} .. {:.3f}, least {:.3f}, {} runs)\n",
             flags.model, flags.threads, flags.threads == 1 ? "" : "s", timing.median * scale,
             short_run ? "us" : "ms", timing.low * scale, timing.high * scale, timing.least * scale,
             timing.runs);
  fmt::print("memory: {:.1f} MB of weights, {}\n", static_cast<double>(executor.plan().constant_bytes) / 1e6,
             tensors_text(executor));
  if (layers.empty()) return;
  double total = 0, flops = 0;
  for (const Layer& layer : layers) total += layer.microseconds, flops += layer.flops;
  fmt::print("\n{:>10}  {:>6}  {:>5}  {:>7}  {:>6}  kernel\n", "us", "share", "calls", "GFLOP/s", "GB/s");
  // Operations of open sizes are not counted.
  const auto rate = [](double gflops) { return gflops > 0 ? fmt::format("{:.1f}", gflops) : "-"; };
  for (const Layer& layer : layers)
    fmt::print("{:>10.1f}  {:>5.1f}%  {:>5}  {:>7}  {:>6.1f}  {}\n", layer.microseconds,
               100 * layer.microseconds / total, layer.calls, rate(layer.gflops()), layer.gigabytes(),
               layer.kernel);
  fmt::print("{:>10.1f}  100.0%         {:>7}          all kernels\n", total, rate(flops / total / 1e3));
}

void print_json(const ModelFlags& flags, const runtime::Executor& executor, const runtime::Timing& timing,
                const std::vector<Layer>& layers) {
  const runtime::Plan& plan = executor.plan();
  nlohmann::json report = {{"model", flags.model},
                           {"target", plan.target},
                           {"threads", flags.threads},
                           {"median_ms", timing.median * 1e3},
                           {"low_ms", timing.low * 1e3},
                           {"high_ms", timing.high * 1e3},
                           {"least_ms", timing.least * 1e3},
                           {"runs", timing.runs},
                           {"weight_bytes", plan.constant_bytes},
                           {"arena_bytes", executor.program_bytes().value_or(plan.arena_bytes)}};
  if (!executor.program_bytes()) report["tensor_bytes"] = runtime::tensor_bytes(plan);
  for (const Layer& layer : layers)
    report["layers"].push_back({{"kernel", layer.kernel},
                                {"calls", layer.calls},
                                {"us", layer.microseconds},
                                {"gflops", layer.gflops()},
                                {"gbytes_per_s", layer.gigabytes()}});
  fmt::print("{}\n", json_line(report));
}

}  // namespace

int bench_command(Flags& flags) {
  ModelFlags model;
  std::vector<std::string> inputs, libraries;
  bool as_json = false, with_profile = false;
  double seconds = 5;
  model.add_to(flags);
  flags.add("--input NAME=FILE", inputs, "a .npy file, once for each input; others are random");
  add_library_flag(flags, libraries);
  flags.add_duration("--time", seconds, "measure at most this long");
  flags.add("--profile", with_profile,
            "also time each kernel and library function; GB/s counts its arguments, each once");
  flags.add("--json", as_json, "print one JSON object");
  if (!flags.parse()) return kSuccess;

  const LibraryFunctions functions = load_libraries(libraries);
  RunningModel running = start_model(model, open_inputs(inputs), /*seed=*/0);
  give_functions(*running.executor, functions);
  runtime::Timing timing = runtime::time_runs([&] { running.executor->run(); }, {.most_seconds = seconds});
  std::vector<Layer> layers = with_profile ? profile(*running.executor) : std::vector<Layer>();
  (as_json ? print_json : print_text)(model, *running.executor, timing, layers);
  return kSuccess;
}

}  // namespace lathe::cli
