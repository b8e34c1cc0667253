// How fast one thread reads memory, by how much of it and by what kind of pages: small ones, huge ones, and a
// mapped file; what it, or another core, has just written; and how fast it writes again what another core has
// read; and how fast in one stream or eight. What the decisions about constants, about cuts between cores and
// about panels of weights rest on (docs/decisions/007-memory-and-threads.md, 013-window-chains.md,
// 127-panels-of-weights.md).
//
//   ./run bench bandwidth [--benchmark_filter=...]
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "core/runtime/cores.h"
#include "core/runtime/pages.h"
#include "core/runtime/thread_pool.h"
#include "core/support/error.h"

namespace lathe {
namespace {

/// The sum of the words, read with the widest vectors this processor has: as fast as one thread can.
// Instrumented resolvers of clones run before the thread sanitizer does.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
uint64_t
sum_words(std::span<const uint64_t> words) {
  using Vector = uint64_t __attribute__((vector_size(64), aligned(8)));
  constexpr size_t kLanes = 8;
  const uint64_t* data = words.data();

  Vector a{}, b{}, c{}, d{};
  size_t i = 0;
  for (; i + 4 * kLanes <= words.size(); i += 4 * kLanes) {
    a += *reinterpret_cast<const Vector*>(data + i);
    b += *reinterpret_cast<const Vector*>(data + i + kLanes);
    c += *reinterpret_cast<const Vector*>(data + i + 2 * kLanes);
    d += *reinterpret_cast<const Vector*>(data + i + 3 * kLanes);
  }
  a += b + c + d;
  uint64_t total = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) total += a[lane];
  for (; i < words.size(); ++i) total += words[i];
  return total;
}

/// Sums panels of eight vectors for each of some rows, as a product of one row reads its weights: in one
/// stream, or each vector in a stream of its own, one behind the other.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
uint64_t
sum_panels(std::span<const uint64_t> words, size_t rows, bool in_one) {
  using Vector = uint64_t __attribute__((vector_size(64), aligned(8)));
  constexpr size_t kVectors = 8, kLanes = 8;
  const size_t panel = rows * kVectors * kLanes, step = in_one ? kVectors * kLanes : kLanes;
  Vector sums[kVectors] = {};
  for (size_t begin = 0; begin + panel <= words.size(); begin += panel)
    for (size_t row = 0; row < rows; ++row)
#pragma GCC unroll 8
      for (size_t v = 0; v < kVectors; ++v)
        sums[v] += *reinterpret_cast<const Vector*>(words.data() + begin + row * step +
                                                    v * (in_one ? kLanes : rows * kLanes));
  for (size_t v = 1; v < kVectors; ++v) sums[0] += sums[v];
  uint64_t total = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) total += sums[0][lane];
  return total;
}

enum class Pages { kSmall, kHuge, kFile };

std::shared_ptr<void> small_pages(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("cannot allocate {} bytes", bytes);
  madvise(memory, bytes, MADV_NOHUGEPAGE);
  return {memory, [bytes](void* pages) { munmap(pages, bytes); }};
}

/// A fresh file of zeros, written in large pieces, in the page cache.
std::shared_ptr<void> file_pages(size_t bytes) {
  char path[] = "/var/tmp/lathe-bandwidth-XXXXXX";
  int descriptor = mkstemp(path);
  if (descriptor < 0) fail("cannot make a file in /var/tmp");
  unlink(path);
  const std::vector<char> piece(size_t{4} << 20);
  for (size_t written = 0; written < bytes; written += piece.size())
    if (write(descriptor, piece.data(), std::min(piece.size(), bytes - written)) < 0)
      fail("cannot write to /var/tmp");
  std::shared_ptr<void> memory = runtime::map_file(descriptor, bytes);
  close(descriptor);
  return memory;
}

std::shared_ptr<void> filled(Pages pages, size_t bytes) {
  if (pages == Pages::kFile) return file_pages(bytes);
  std::shared_ptr<void> memory = pages == Pages::kHuge ? runtime::allocate_pages(bytes) : small_pages(bytes);
  std::memset(memory.get(), 1, bytes);
  return memory;
}

void bench_read(benchmark::State& state, Pages pages) {
  const size_t bytes = static_cast<size_t>(state.range(0)) << 20;
  std::shared_ptr<void> memory = filled(pages, bytes);
  for (auto _ : state)
    benchmark::DoNotOptimize(
        sum_words({static_cast<const uint64_t*>(memory.get()), bytes / sizeof(uint64_t)}));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
}

void bench_panels(benchmark::State& state, bool in_one) {
  const size_t bytes = static_cast<size_t>(state.range(0)) << 20;
  std::shared_ptr<void> memory = filled(Pages::kHuge, bytes);
  const std::span words(static_cast<const uint64_t*>(memory.get()), bytes / sizeof(uint64_t));
  for (auto _ : state)
    benchmark::DoNotOptimize(sum_panels(words, static_cast<size_t>(state.range(1)), in_one));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
}

enum class Exchange { kRead, kWriteAgain };

/// Reads what the pool's thread number `other` has just written, or writes again what it has just read.
void bench_exchange(benchmark::State& state, Exchange exchange, int other) {
  struct Turn {
    std::span<uint64_t> words;
    Exchange exchange;
    int64_t other;
    std::atomic<bool> over = false;
  };
  const size_t bytes = static_cast<size_t>(state.range(0)) << 10;
  runtime::ThreadPool pool(2, /*pin=*/true);
  std::shared_ptr<void> memory = runtime::allocate_pages(bytes);
  Turn turn{{static_cast<uint64_t*>(memory.get()), bytes / sizeof(uint64_t)}, exchange, other};
  auto write = [&turn] {
    for (uint64_t& word : turn.words) ++word;
    std::atomic_thread_fence(std::memory_order_seq_cst);  // all lines are the core's own
  };
  auto part = [](void* closure, int64_t begin, int64_t) {
    auto& t = *static_cast<Turn*>(closure);
    if (begin == t.other) {
      if (t.exchange == Exchange::kRead)
        for (uint64_t& word : t.words) ++word;
      else
        benchmark::DoNotOptimize(sum_words(t.words));
      t.over = true;
    }
    while (!t.over) {
    }
  };
  for (auto _ : state) {
    if (exchange == Exchange::kWriteAgain) write();
    turn.over = false;
    pool.parallel()->launch(pool.parallel()->pool, part, &turn, 2);
    auto before = std::chrono::steady_clock::now();
    if (exchange == Exchange::kRead)
      benchmark::DoNotOptimize(sum_words(turn.words));
    else
      write();
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  using lathe::Pages;
  constexpr std::pair<const char*, Pages> kKinds[] = {
      {"small_pages", Pages::kSmall}, {"huge_pages", Pages::kHuge}, {"file", Pages::kFile}};
  for (auto [name, pages] : kKinds)
    for (int64_t megabytes : {1, 8, 64, 400})
      benchmark::RegisterBenchmark(fmt::format("read/{}", name).c_str(), lathe::bench_read, pages)
          ->Arg(megabytes)
          ->Unit(benchmark::kMillisecond)
          ->UseRealTime();
  for (auto [name, in_one] : {std::pair("one_stream", true), std::pair("eight_streams", false)})
    for (int64_t megabytes : {1, 4, 128})
      for (int64_t rows : {512, 768})
        benchmark::RegisterBenchmark(fmt::format("panels/{}", name).c_str(), lathe::bench_panels, in_one)
            ->Args({megabytes, rows})
            ->Unit(benchmark::kMillisecond)
            ->UseRealTime();
  if (lathe::runtime::available_cores() > 1)
    for (auto [name, exchange] : {std::pair("written_by", lathe::Exchange::kRead),
                                  std::pair("written_again_after_reads_by", lathe::Exchange::kWriteAgain)})
      for (auto [core, other] : {std::pair("own_core", 0), std::pair("other_core", 1)})
        for (int64_t kilobytes : {16, 96, 224})
          benchmark::RegisterBenchmark(fmt::format("{}/{}", name, core).c_str(), lathe::bench_exchange,
                                       exchange, other)
              ->Arg(kilobytes)
              ->Unit(benchmark::kMicrosecond)
              ->UseManualTime();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
