// Each convolution of a model by itself, by each algorithm that the tuner has for it: the best schedules of
// each design space, in turn.
//
//   ./run bench conv-spaces --model inception_v3 [--layer 17x17] [--samples 24]
//
// One thread, one process. L2 is cleared before each run, as it is between the layers of a model.
#include <fmt/ranges.h>

#include <map>
#include <set>

#include "bench/cold_run.h"
#include "bench/conv_layers.h"
#include "bench/main.h"
#include "core/codegen/host_target.h"
#include "core/support/error.h"
#include "core/support/statistics.h"
#include "schedules/primitive.h"
#include "schedules/space.h"
#include "tuner/load_model.h"

namespace lathe::bench {
namespace {

/// The columns of the table: a design space, and the reduction at once or in blocks.
constexpr const char* kKinds[] = {"contraction", "contraction in blocks", "implicit-gemm",
                                  "implicit-gemm in blocks", "winograd"};

std::string kind_of(const schedule::DesignSpace& space, const schedule::Trace& trace) {
  const bool blocks = std::any_of(trace.steps.begin(), trace.steps.end(), [](const schedule::Step& step) {
    return step.primitive == &schedule::primitive("rfactor");
  });
  return std::string(space.name) + (blocks ? " in blocks" : "");
}

struct Candidate {
  std::string kind;
  std::unique_ptr<LayerModule> module;
  std::string trace;
  std::vector<double> times;
};

/// The kernel's workload as the build of the layer asks for it.
tir::Func workload_of(const ConvLayer& layer, const Target& target) {
  tir::Func found;
  LayerModule built(layer, target, [&](const tir::Func& workload) {
    found = workload;
    return schedule::replay(schedule::default_trace(workload, target), workload);
  });
  return found;
}

using Best = std::map<std::string, std::vector<Candidate>>;  // by kind

bool is_faster(const Candidate& a, const Candidate& b) { return median(a.times) < median(b.times); }

/// Adds the fastest of the space's first schedules, each timed a few times.
void add_best(Best& all, const schedule::DesignSpace& space, const ConvLayer& layer, const Target& target,
              uint64_t samples) {
  constexpr int kRuns = 7;
  constexpr size_t kKept = 3;
  tir::Func workload = workload_of(layer, target);
  Evictor evict;
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < samples; ++seed) {
    try {
      schedule::Schedule s = schedule::sample(space, workload, target, seed + 1);
      std::string trace = schedule::to_json(s.trace());
      if (!seen.insert(trace).second) continue;
      auto module = std::make_unique<LayerModule>(layer, target, [&](const tir::Func&) { return s.func(); });
      Candidate candidate{kind_of(space, s.trace()), std::move(module), trace, {}};
      for (int i = 0; i < kRuns; ++i) candidate.times.push_back(timed_run(*candidate.module, evict));
      std::vector<Candidate>& best = all[candidate.kind];
      best.push_back(std::move(candidate));
      std::stable_sort(best.begin(), best.end(), is_faster);
      if (best.size() > kKept) best.pop_back();
    } catch (const Error&) {
      continue;  // a sample that cannot be compiled
    }
  }
}

/// All candidates in turn; the fastest of each kind.
std::vector<const Candidate*> race(Best& best) {
  constexpr int kRounds = 60;
  Evictor evict;
  for (auto& [kind, candidates] : best)
    for (Candidate& each : candidates) each.times.clear();
  for (int round = 0; round < kRounds; ++round)
    for (auto& [kind, candidates] : best)
      for (Candidate& each : candidates) each.times.push_back(timed_run(*each.module, evict));
  std::vector<const Candidate*> fastest;
  for (auto& [kind, candidates] : best)
    fastest.push_back(&*std::min_element(candidates.begin(), candidates.end(), is_faster));
  return fastest;
}

struct Settings {
  std::string model, layer;
  uint64_t samples = 24;
  bool traces = false;
};

void compare(const ConvLayer& layer, const Target& target, const Settings& settings) {
  Best best;
  for (const schedule::DesignSpace* space : schedule::spaces_for(workload_of(layer, target), target))
    add_best(best, *space, layer, target, settings.samples);
  const std::vector<const Candidate*> fastest = race(best);
  std::string line = fmt::format("| {} | {} |", layer.problem.text(), layer.uses);
  for (const char* kind : kKinds) {
    auto found = std::find_if(fastest.begin(), fastest.end(),
                              [&](const Candidate* each) { return each->kind == kind; });
    line += found == fastest.end() ? " |" : fmt::format(" {:.1f} |", median((*found)->times) * 1e6);
  }
  fmt::print("{}\n", line);
  for (const Candidate* each : fastest)
    if (settings.traces) fmt::print("  {}: {}\n", each->kind, each->trace);
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  Settings settings;
  CLI::App app("Each convolution of a model by the best schedules of each design space, on one thread");
  app.add_option("--model", settings.model, "a model of the zoo, or an ONNX file")->required();
  app.add_option("--layer", settings.layer, "only layers whose description contains this");
  app.add_option("--samples", settings.samples, "schedules tried of each space")->check(CLI::Range(1, 10000));
  app.add_flag("--traces", settings.traces, "print the best schedules");
  parse_flags(app, argc, argv);
  Target target = codegen::resolve_target("cpu");
  target.cores = 1;
  const std::vector<ConvLayer> layers = find_conv_layers(tuner::load_model(settings.model), target);
  fmt::print("| layer | uses | {} us |\n|---|---|---|---|---|---|---|\n", fmt::join(kKinds, " us | "));
  for (const ConvLayer& layer : layers)
    if (layer.problem.text().find(settings.layer) != std::string::npos) compare(layer, target, settings);
  return 0;
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) { return lathe::bench::guarded_main(lathe::bench::run, argc, argv); }
