// What control flow costs beside kernels: nanoseconds a call and an iteration, as native code and by the
// virtual machine.
//
//   ./run bench program-costs [--seconds 0.2]
//
// Each row is the least of runs for that long. "with a kernel" is a loop of one kernel on four numbers; what
// the kernel itself takes is measured apart and subtracted.
#include <fmt/core.h>

#include <chrono>
#include <optional>

#include "bench/flags.h"
#include "core/codegen/host_target.h"
#include "core/relay/text.h"
#include "core/runtime/plan_dims.h"
#include "core/runtime/thread_pool.h"
#include "tuner/compile.h"

namespace lathe::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kLength = 4;  // of the programs' vectors

struct Row {
  const char* what;
  double count;  // of what is counted, a run
  const char* text;
};

constexpr Row kRows[] = {
    {"iteration, numbers", 1e6, R"(
def @loop(%n: int32, %sum: int64) -> int64 { if (%n == 0) { %sum } else { @loop(%n - 1, %sum + cast(%n, dtype="int64")) } }
def @main() { @loop(1000000, 0i64) })"},
    {"iteration, two functions in turn", 1e6, R"(
def @even(%n: int32) -> bool { if (%n == 0) { True } else { @odd(%n - 1) } }
def @odd(%n: int32) -> bool { if (%n == 0) { False } else { @even(%n - 1) } }
def @main() { @even(1000000) })"},
    {"call (Fibonacci's numbers)", 832039, R"(
def @fib(%n: int32) -> int32 { if (%n < 2) { %n } else { @fib(%n - 1) + @fib(%n - 2) } }
def @main() { @fib(28) })"},
    {"call of a closure, and a match (a fold)", 1e5, R"(
import "list"
def @upto(%n: int32, %l: List[int32]) -> List[int32] { if (%n == 0) { %l } else { @upto(%n - 1, Cons(%n, %l)) } }
def @sum(%l: List[int32], %k: int32) -> int32 {
  @foldl(fn (%a: int32, %b: int32) { %a * %k + %b }, 0, %l)
}
def @main() { @sum(@upto(100000, Nil), 3) })"},
    {"iteration with a kernel", 1e5, R"(
def @loop(%n: int32, %x: Tensor[(4), float32]) -> Tensor[(4), float32] {
  if (%n == 0) { %x } else { @loop(%n - 1, %x + 1f) }
}
def @main() { @loop(100000, zeros(shape=[4], dtype="float32")) })"},
    {"the same for vectors of any length", 1e5, R"(
def @loop(%n: int32, %x: Tensor[(n), float32]) -> Tensor[(n), float32] {
  if (%n == 0) { %x } else { @loop(%n - 1, %x + 1f) }
}
def @main() { @loop(100000, zeros(shape=[4], dtype="float32")) })"},
    {"the same, of another length each time", 1e4, R"(
def @loop(%n: int32, %x: Tensor[(4), float32], %most: float32) -> float32 {
  if (%n == 0) { %most } else { @loop(%n - 1, %x, max(first_rows(%x, 3 + floor_mod(%n, 2)))) }
}
def @main() { @loop(10000, zeros(shape=[4], dtype="float32"), 0f) })"},
};

/// The least seconds of a run of f, for so long.
template <typename F>
double least_seconds(double seconds, F&& f) {
  double least = 1e9;
  const Clock::time_point begin = Clock::now();
  do {
    const Clock::time_point before = Clock::now();
    f();
    least = std::min(least, std::chrono::duration<double>(Clock::now() - before).count());
  } while (std::chrono::duration<double>(Clock::now() - begin).count() < seconds);
  return least;
}

double run_seconds(const runtime::LoadedProgram& program, runtime::RunBy by, double seconds) {
  runtime::Machine machine(program, runtime::serial_parallel(), by);
  return least_seconds(seconds, [&] { machine.heap().release(machine.call(program.program.main, {})); });
}

/// What the kernels of one call of each plan take.
double kernel_seconds(const runtime::LoadedProgram& program, double seconds) {
  constexpr int kCalls = 10000;
  double all = 0;
  for (const runtime::LoadedPlan& plan : program.plans) {
    runtime::Plan numbers = *plan.plan;
    if (!numbers.dims.empty())
      bind_dims(*plan.plan, std::vector<int64_t>(numbers.dims.size(), kLength), numbers);
    std::vector<Tensor> tensors;
    std::vector<void*> buffers;
    for (const runtime::Value& value : numbers.values) tensors.emplace_back(value.shape, value.dtype);
    for (size_t step = 0; step < plan.kernels.size(); ++step) {
      if (numbers.steps[step].when == 0) continue;
      buffers.clear();
      for (int64_t arg : numbers.steps[step].args)
        buffers.push_back(tensors[static_cast<size_t>(arg)].data());
      all += least_seconds(seconds,
                           [&] {
                             for (int i = 0; i < kCalls; ++i)
                               plan.kernels[step](buffers.data(), nullptr, runtime::serial_parallel(),
                                                  numbers.steps[step].dims.data());
                           }) /
             kCalls;
    }
  }
  return all;
}

int run(int argc, char** argv) {
  Flags flags("What control flow costs beside kernels, in nanoseconds.");
  double seconds = 0.2;
  flags.add("--seconds", seconds, 0.001, 3600, "for each figure");
  flags.parse(argc, argv);
  fmt::print("{:<42}{:>10}{:>18}{:>10}\n", "ns", "native", "virtual machine", "kernel");
  for (const Row& row : kRows) {
    auto module = runtime::Module::from_image(
        tuner::compile_program(relay::parse_module(row.text, row.what), codegen::host_target()));
    const runtime::LoadedProgram& program = *module->program();
    const double kernel = kernel_seconds(program, seconds);
    auto ns = [&](runtime::RunBy by) {
      return (run_seconds(program, by, seconds) / row.count - kernel) * 1e9;
    };
    fmt::print("{:<42}{:>10.1f}{:>18.1f}{:>10.1f}\n", row.what, ns(runtime::RunBy::kBest),
               ns(runtime::RunBy::kInstructions), kernel * 1e9);
  }
  return 0;
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) { return lathe::bench::guarded_main(lathe::bench::run, argc, argv); }
