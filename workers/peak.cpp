#include "workers/peak.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "core/runtime/pages.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace lathe::worker {
namespace {

using Clock = std::chrono::steady_clock;

// Twelve chains of multiply-adds that do not wait for each other keep two units of latency four to six busy.
// Each function runs `rounds` of them and returns the operations done; `sink` keeps the compiler from
// dropping the work.
constexpr int kChains = 12;
constexpr int64_t kRounds = 20000;
std::atomic<float> sink;

/// 12 accumulators of type Vector; Step does a = a * b + c. A macro, for a target attribute does not reach
/// into a template's lambda.
#define LATHE_PEAK_BODY(Vector, set, fma, store, lanes)                               \
  Vector a[kChains];                                                                  \
  for (int i = 0; i < kChains; ++i) a[i] = set(1.0f + 0.01f * static_cast<float>(i)); \
  const Vector b = set(0.999f), c = set(0.001f);                                      \
  for (int64_t round = 0; round < kRounds; ++round)                                   \
    for (int i = 0; i < kChains; ++i) a[i] = fma(a[i], b, c);                         \
  float out[16] = {};                                                                 \
  float sum = 0;                                                                      \
  for (int i = 0; i < kChains; ++i) {                                                 \
    store(out, a[i]);                                                                 \
    sum += out[0];                                                                    \
  }                                                                                   \
  sink = sum;                                                                         \
  return kRounds * kChains * 2 * (lanes);

#if defined(__x86_64__)
__attribute__((target("avx512f"), optimize("unroll-loops"))) int64_t flops_avx512() {
  LATHE_PEAK_BODY(__m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_storeu_ps, 16)
}
__attribute__((target("avx2,fma"), optimize("unroll-loops"))) int64_t flops_avx2(){
    LATHE_PEAK_BODY(__m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_storeu_ps, 8)} __m128
    multiply_add_sse(__m128 a, __m128 b, __m128 c) {
  return _mm_add_ps(_mm_mul_ps(a, b), c);
}
int64_t flops_sse(){LATHE_PEAK_BODY(__m128, _mm_set1_ps, multiply_add_sse, _mm_storeu_ps, 4)}

int64_t (*widest())() {
  if (__builtin_cpu_supports("avx512f")) return flops_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return flops_avx2;
  return flops_sse;
}
#elif defined(__aarch64__)
float32x4_t multiply_add_neon(float32x4_t a, float32x4_t b, float32x4_t c) { return vfmaq_f32(c, a, b); }
int64_t flops_neon(){
    LATHE_PEAK_BODY(float32x4_t, vdupq_n_f32, multiply_add_neon, vst1q_f32, 4)} int64_t (*widest())() {
  return flops_neon;
}
#else
float set_scalar(float x) { return x; }
float multiply_add_scalar(float a, float b, float c) { return a * b + c; }
void store_scalar(float* out, float x) { *out = x; }
int64_t flops_scalar(){
    LATHE_PEAK_BODY(float, set_scalar, multiply_add_scalar, store_scalar, 1)} int64_t (*widest())() {
  return flops_scalar;
}
#endif

#undef LATHE_PEAK_BODY

double thread_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// The best of a few rates of all threads together: each does `work` over and over for a while and counts.
/// Per second of its own CPU time, so that what else the machine does just now takes little from it.
template <typename Work>
double best_rate(int threads, Work work) {
  double best = 0;
  for (int attempt = 0; attempt < 4; ++attempt) {
    std::vector<double> rates(static_cast<size_t>(threads));
    std::vector<std::thread> team;
    for (int i = 0; i < threads; ++i)
      team.emplace_back([&, i] {
        const auto stop = Clock::now() + std::chrono::milliseconds(12);
        const double start = thread_cpu_seconds();
        int64_t done = 0;
        do done += work(i);
        while (Clock::now() < stop);
        rates[static_cast<size_t>(i)] = static_cast<double>(done) / (thread_cpu_seconds() - start);
      });
    for (std::thread& thread : team) thread.join();
    best = std::max(best, std::accumulate(rates.begin(), rates.end(), 0.0));
  }
  return best;
}

}  // namespace

double measure_peak_flops(int threads) {
  int64_t (*const kernel)() = widest();
  return best_rate(threads, [kernel](int) { return kernel(); });
}

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

double measure_memory_bandwidth(int threads) {
  // Larger than most caches and small enough to fill quickly; a last-level cache beyond it counts as memory.
  constexpr size_t kBytes = size_t{64} << 20;
  constexpr size_t kPiece = size_t{1} << 20;
  const size_t words = kBytes / sizeof(uint64_t) / static_cast<size_t>(threads);
  std::vector<std::shared_ptr<void>> memory(static_cast<size_t>(threads));
  for (std::shared_ptr<void>& each : memory) {
    each = runtime::allocate_pages(words * sizeof(uint64_t));
    std::memset(each.get(), 1, words * sizeof(uint64_t));
  }
  std::vector<size_t> at(static_cast<size_t>(threads), 0);
  return best_rate(threads, [&](int i) {
    const size_t piece = kPiece / sizeof(uint64_t);
    size_t& from = at[static_cast<size_t>(i)];
    if (from + piece > words) from = 0;
    const auto* data = static_cast<const uint64_t*>(memory[static_cast<size_t>(i)].get());
    sink = static_cast<float>(sum_words({data + from, piece}));
    from += piece;
    return static_cast<int64_t>(kPiece);
  });
}

MachineLimits measure_limits(int threads) {
  return {measure_peak_flops(threads), measure_memory_bandwidth(threads)};
}

}  // namespace lathe::worker
