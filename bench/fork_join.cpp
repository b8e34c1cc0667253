// What a parallel loop costs besides its work: our thread pool against GCC's OpenMP runtime, on the machine's
// cores. `empty` does nothing in each thread; `work` computes for about 2 microseconds in each, `rows` 7
// times as long, in as many iterations; their time beyond the serial loop's is the cost.
//
//   ./run bench fork-join [--benchmark_filter=...]
#include <benchmark/benchmark.h>
#include <omp.h>

#include "core/runtime/cores.h"
#include "core/runtime/thread_pool.h"
#include "core/support/error.h"

namespace lathe {
namespace {

/// A chain of `steps` dependent multiply-adds.
void compute(int64_t steps) {
  double x = 1;
  for (int64_t i = 0; i < steps; ++i) {
    x = x * 0.999 + 0.001;
    benchmark::DoNotOptimize(x);
  }
}

struct Loop {
  int64_t steps;
  static void body(void* closure, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) compute(static_cast<Loop*>(closure)->steps);
  }
};

void bench_serial(benchmark::State& state) {
  for (auto _ : state)
    for (int64_t i = 0; i < state.range(1); ++i) compute(state.range(0));
}

void bench_lathe(benchmark::State& state) {
  runtime::ThreadPool pool(runtime::available_cores(), /*pin=*/true);
  const LatheParallel* parallel = pool.parallel();
  Loop loop{state.range(0)};
  const int64_t iterations = state.range(1) * pool.threads();
  for (auto _ : state) parallel->launch(parallel->pool, Loop::body, &loop, iterations);
}

void bench_openmp(benchmark::State& state) {
  int threads = runtime::available_cores();
  const int64_t iterations = state.range(1) * threads;
  for (auto _ : state) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < iterations; ++i) compute(state.range(0));
  }
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  using namespace lathe;
  constexpr int64_t kWork = 700;
  constexpr std::pair<const char*, void (*)(benchmark::State&)> kSides[] = {
      {"serial", bench_serial}, {"lathe", bench_lathe}, {"openmp", bench_openmp}};
  struct Kind {
    const char* name;
    int64_t steps, iterations;  // of each thread
  };
  for (auto [kind, steps, iterations] : {Kind{"empty", 0, 1}, Kind{"work", kWork, 1}, Kind{"rows", kWork, 7}})
    for (auto [name, run] : kSides)
      benchmark::RegisterBenchmark(fmt::format("{}/{}", kind, name).c_str(), run)
          ->Args({steps, iterations})
          ->UseRealTime();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
