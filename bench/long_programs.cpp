// What long programs cost: each stage of `tune compile` on a chain of let bindings that few kernels make up,
// types of tuples nested deep, and types of the zoo's largest model.
//
//   ./run bench long-programs [--lets 25000,50000,100000] [--nested 20000]
//
// One process; a stage's time is of one run, in milliseconds, and `processor` is what all of them took of
// processors, whatever else ran. Linear stages take twice as long for twice the lets.
#include <fmt/core.h>

#include <chrono>
#include <ctime>

#include "bench/flags.h"
#include "core/codegen/host_target.h"
#include "core/models/zoo.h"
#include "core/relay/passes/infer_type.h"
#include "core/relay/text.h"
#include "core/runtime/module_file.h"
#include "tuner/final_build.h"
#include "tuner/optimize.h"
#include "tuner/tasks.h"

namespace lathe::bench {
namespace {

/// Of one run of f, in milliseconds; its result is kept in `into`.
template <typename T, typename F>
double timed(T& into, F&& f) {
  auto start = std::chrono::steady_clock::now();
  into = f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

/// Of all threads of this process, in milliseconds.
double processor_ms() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// dense, tanh, dense, tanh, ... over one row of 16 numbers.
std::string chain_text(int64_t lets) {
  std::string text =
      "#[version = \"0.0.5\"]\ndef @main(%x: Tensor[(1, 16), float32], %w: Tensor[(16, 16), float32]) {\n";
  std::string last = "%x";
  for (int64_t i = 0; i < lets; ++i) {
    text += i % 2 ? fmt::format("  let %v{} = tanh({});\n", i, last)
                  : fmt::format("  let %v{} = nn.dense({}, %w);\n", i, last);
    last = fmt::format("%v{}", i);
  }
  return text + "  " + last + "\n}\n";
}

/// A pair of a pair of a pair ..., and back to what is innermost.
std::string nested_text(int64_t depth) {
  std::string text =
      "#[version = \"0.0.5\"]\ndef @main(%x: Tensor[(16), float32]) {\n  let %p0 = (%x, %x);\n";
  for (int64_t i = 1; i < depth; ++i) text += fmt::format("  let %p{} = (%p{}, %x);\n", i, i - 1);
  text += fmt::format("  let %q0 = %p{}.0;\n", depth - 1);
  for (int64_t i = 1; i < depth; ++i) text += fmt::format("  let %q{} = %q{}.0;\n", i, i - 1);
  return text + fmt::format("  %q{}\n}}\n", depth - 1);
}

void print_chain(int64_t lets) {
  const Target target = codegen::host_target();
  const std::string text = chain_text(lets);
  relay::Module parsed, typed, fused;
  std::vector<tuner::Task> tasks;
  runtime::ModuleImage image;
  const double before = processor_ms();
  const double parse = timed(parsed, [&] { return relay::parse_module(text); }),
               infer = timed(typed, [&] { return relay::infer_type(parsed); }),
               passes = timed(fused, [&] { return tuner::optimize(typed, target); }),
               extract = timed(tasks, [&] { return tuner::extract_tasks(fused); }),
               build = timed(image, [&] {
                 return tuner::final_build(fused, target, tuner::default_schedules(target));
               });
  const double all = parse + infer + passes + extract + build;
  fmt::print("{:>7} {:>9.0f} {:>9.0f} {:>9.0f} {:>9.0f} {:>9.0f} {:>9.0f} {:>9.0f} {:>8}\n", lets, parse,
             infer, passes, extract, build, all, processor_ms() - before, image.plan.steps.size());
}

void print_nested(int64_t depth) {
  const relay::Module parsed = relay::parse_module(nested_text(depth));
  relay::Module typed;
  const double once = timed(typed, [&] { return relay::infer_type(parsed); }),
               again = timed(typed, [&] { return relay::infer_type(typed); });
  fmt::print("tuples nested {} deep: types {:.0f} ms, again {:.0f} ms\n", depth, once, again);
}

/// The least of several runs: it takes milliseconds.
void print_zoo() {
  std::string slowest;
  double most = 0;
  for (const models::Model& model : models::zoo()) {
    const relay::Module module = models::build_model(model.name);
    relay::Module typed;
    double least = timed(typed, [&] { return relay::infer_type(module); });
    for (int i = 0; i < 4; ++i)
      least = std::min(least, timed(typed, [&] { return relay::infer_type(module); }));
    if (least > most) most = least, slowest = model.name;
  }
  fmt::print("types of {}, which of the zoo takes longest: {:.1f} ms\n", slowest, most);
}

int long_programs(int argc, char** argv) {
  std::vector<int64_t> lengths{25000, 50000, 100000};
  int64_t nested = 20000;
  Flags flags("what long programs cost, stage by stage");
  flags.add("--lets", lengths, 1, 10000000, "lengths of the chain");
  flags.add("--nested", nested, 1, 1000000, "depth of the tuples");
  flags.parse(argc, argv);
  fmt::print("{:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8}\n", "lets", "parse ms", "types", "passes",
             "tasks", "build", "in all", "processor", "steps");
  for (int64_t lets : lengths) print_chain(lets);
  print_nested(nested);
  print_zoo();
  return 0;
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) {
  return lathe::bench::guarded_main(lathe::bench::long_programs, argc, argv);
}
