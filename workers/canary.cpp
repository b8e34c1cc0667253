#include "workers/canary.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "core/runtime/pages.h"

namespace lathe::worker {
namespace {

constexpr int kPieces = 64, kSteps = 40'000;
constexpr size_t kPieceWords = size_t{64} << 10;  // 512 KiB of each piece: 32 MiB in all
constexpr size_t kLineWords = 8;                  // of a cache's line

template <typename Work>
double seconds_of(Work&& work) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void multiply() {
  uint64_t x = 1;
  for (int i = 0; i < kSteps; ++i) {
    // Knuth's generator: a multiplication and an addition that no processor can begin before the last have
    // ended, so that the time is a number of cycles.
    x = x * 6364136223846793005u + 1442695040888963407u;
    asm volatile("" : "+r"(x));  // each step, one after the other
  }
}

void read(const uint64_t* words) {
  uint64_t sums[4] = {};  // none waits for another
  for (size_t i = 0; i < kPieceWords; i += 4 * kLineWords)
    for (size_t line = 0; line < 4; ++line) sums[line] += words[i + line * kLineWords];
  asm volatile("" ::"r"(sums[0] + sums[1] + sums[2] + sums[3]));
}

}  // namespace

wire::Canary run_canaries() {
  const auto memory = runtime::allocate_pages(kPieces * kPieceWords * sizeof(uint64_t));
  auto* words = static_cast<uint64_t*>(memory.get());
  std::fill_n(words, kPieces * kPieceWords, 1);  // pages that were never written are all the same one
  constexpr double kNever = std::numeric_limits<double>::infinity();
  wire::Canary canary{.kernels = kCanaryKernels, .compute_seconds = kNever, .memory_seconds = kNever};
  // Many short pieces, of which the least counts: an interruption spoils one or two. A piece of memory comes
  // round only after all others, which most caches do not hold.
  for (int piece = 0; piece < kPieces; ++piece) {
    canary.compute_seconds = std::min(canary.compute_seconds, seconds_of(multiply));
    canary.memory_seconds =
        std::min(canary.memory_seconds, seconds_of([&] { read(words + piece * kPieceWords); }));
  }
  return canary;
}

}  // namespace lathe::worker
