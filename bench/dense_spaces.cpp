// Dense layers of given sizes, each by each algorithm that the tuner has for it: the best schedules of each
// design space, in turn.
//
//   ./run bench dense-spaces --size 128x768x768 --size 128x768x50257 [--samples 24]
//
// One thread, one process. L2 is cleared before each run, as it is between the layers of a model.
#include <fmt/ranges.h>

#include <charconv>

#include "bench/flags.h"
#include "bench/space_race.h"
#include "core/codegen/host_target.h"
#include "core/relay/analysis/call_type.h"
#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"
#include "core/support/error.h"
#include "core/support/text.h"
#include "tuner/optimize.h"

namespace lathe::bench {
namespace {

/// relu(x[rows, depth] * w + bias).
struct Dense {
  int64_t rows = 0, depth = 0, columns = 0;
  double flops() const { return 2.0 * static_cast<double>(rows * depth * columns); }
};

Dense parse_size(const std::string& text) {
  std::vector<int64_t> numbers;
  for (const std::string& part : split_text(text, 'x')) {
    int64_t number = 0;
    auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (error != std::errc() || end != part.data() + part.size() || number < 1 || number > 1 << 20) break;
    numbers.push_back(number);
  }
  if (numbers.size() != 3) fail("--size {}: must be rows x depth x columns, as 128x768x3072", text);
  return {numbers[0], numbers[1], numbers[2]};
}

/// A fused module of one layer; x is its input.
relay::Module layer_of(const Dense& size, const Target& target) {
  auto node = mutate(
      *relay::make_var("x", relay::tensor_type(std::vector<int64_t>{size.rows, size.depth}, kFloat32)));
  node->checked_type = node->annotation;
  relay::Var x = seal(std::move(node));
  auto weight = relay::typed_constant(random_tensor({size.columns, size.depth}, kFloat32, 1)),
       bias = relay::typed_constant(random_tensor({size.columns}, kFloat32, 2));
  auto main = std::make_unique<relay::Function>();
  main->params = {x};
  main->body = relay::typed_call(
      "nn.relu", {relay::typed_call("add", {relay::typed_call("nn.dense", {x, weight}), bias})});
  return tuner::optimize(relay::make_module(seal(std::move(main))), target);
}

void compare(const std::string& name, const Dense& size, const Target& target, uint64_t samples,
             bool traces) {
  const relay::Module layer = layer_of(size, target);
  const Tensor x = random_tensor({size.rows, size.depth}, kFloat32, 3);
  auto build = [&](const tuner::ScheduleWorkload& schedule) -> std::function<void()> {
    auto executor = std::make_shared<runtime::Executor>(
        runtime::Module::from_image(tuner::final_build(layer, target, schedule)), runtime::serial_parallel());
    executor->set_input(0, x);
    return [executor] { executor->run(); };
  };
  const std::map<std::string, RacedSchedule> fastest = race_spaces({build, target, samples});
  std::string line = fmt::format("| {} |", name);
  for (const std::string& kind : kinds_of_schedules()) {
    auto found = fastest.find(kind);
    line += found == fastest.end() ? " |"
                                   : fmt::format(" {:.1f} us, {:.0f} |", found->second.seconds * 1e6,
                                                 size.flops() / found->second.seconds / 1e9);
  }
  fmt::print("{}\n", line);
  for (const auto& [kind, each] : fastest)
    if (traces) fmt::print("  {}: {}\n", kind, each.trace);
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  std::vector<std::string> sizes;
  uint64_t samples = 24;
  bool traces = false;
  Flags flags("Dense layers by the best schedules of each design space, on one thread");
  flags.add("--size", sizes, "rows x depth x columns, as 128x768x3072", Flags::Need::kRequired);
  flags.add("--samples", samples, 1, 10000, "schedules tried of each space");
  flags.add("--traces", traces, "print the best schedules");
  flags.parse(argc, argv);
  std::vector<Dense> layers;
  for (const std::string& size : sizes) layers.push_back(parse_size(size));
  Target target = codegen::resolve_target("cpu");
  target.cores = 1;
  fmt::print("GFLOP/s count two operations a product of the definition.\n\n{}", table_head("layer", ""));
  for (size_t i = 0; i < sizes.size(); ++i) compare(sizes[i], layers[i], target, samples, traces);
  return 0;
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) { return lathe::bench::guarded_main(lathe::bench::run, argc, argv); }
