// Each convolution of a model by itself, by each algorithm that the tuner has for it: the best schedules of
// each design space, in turn.
//
//   ./run bench conv-spaces --model inception_v3 [--layer 17x17] [--samples 24]
//
// One thread, one process. L2 is cleared before each run, as it is between the layers of a model.
#include <fmt/ranges.h>

#include "bench/conv_layers.h"
#include "bench/flags.h"
#include "bench/space_race.h"
#include "core/codegen/host_target.h"
#include "tuner/load_model.h"

namespace lathe::bench {
namespace {

struct Settings {
  std::string model, layer;
  uint64_t samples = 24;
  bool traces = false;
};

void compare(const ConvLayer& layer, const Target& target, const Settings& settings) {
  auto build = [&](const tuner::ScheduleWorkload& schedule) -> std::function<void()> {
    auto module = std::make_shared<LayerModule>(layer, target, schedule);
    return [module] { module->run(); };
  };
  const std::map<std::string, RacedSchedule> fastest = race_spaces({build, target, settings.samples});
  std::string line = fmt::format("| {} | {} |", layer.problem.text(), layer.uses);
  for (const std::string& kind : kinds_of_schedules()) {
    auto found = fastest.find(kind);
    line += found == fastest.end() ? " |" : fmt::format(" {:.1f} |", found->second.seconds * 1e6);
  }
  fmt::print("{}\n", line);
  for (const auto& [kind, each] : fastest)
    if (settings.traces) fmt::print("  {}: {}\n", kind, each.trace);
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  Settings settings;
  Flags flags("Each convolution of a model by the best schedules of each design space, on one thread");
  flags.add("--model", settings.model, "a model of the zoo, or an ONNX file", Flags::Need::kRequired);
  flags.add("--layer", settings.layer, "only layers whose description contains this");
  flags.add("--samples", settings.samples, 1, 10000, "schedules tried of each space");
  flags.add("--traces", settings.traces, "print the best schedules");
  flags.parse(argc, argv);
  Target target = codegen::resolve_target("cpu");
  target.cores = 1;
  const std::vector<ConvLayer> layers = find_conv_layers(tuner::load_model(settings.model), target);
  fmt::print("{}", table_head("layer | uses", " us"));
  for (const ConvLayer& layer : layers)
    if (layer.problem.text().find(settings.layer) != std::string::npos) compare(layer, target, settings);
  return 0;
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) { return lathe::bench::guarded_main(lathe::bench::run, argc, argv); }
