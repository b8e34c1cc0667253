#include "workers/core_team.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <numeric>

#include "core/runtime/cores.h"
#include "core/support/error.h"
#include "workers/stopwatch.h"

namespace lathe::worker {
namespace {

using Clock = std::chrono::steady_clock;

/// Waits for another thread, which may wait for a core itself; false: for too long.
template <typename Done>
bool wait_for(Done done) {
  // Longer than a time slice: beyond it the other one has lost its core to somebody else.
  const auto patience = Clock::now() + std::chrono::milliseconds(20);
  while (!done())
    if (Clock::now() > patience) return false;
  return true;
}

double thread_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Runs a second of CPU time, for some milliseconds.
double rate_of(const std::function<void()>& work) {
  const auto stop = Clock::now() + std::chrono::milliseconds(3);
  const double start = thread_cpu_seconds();
  double runs = 0;
  // The clock is read once a run: a run is some microseconds at least.
  do {
    work();
    ++runs;
  } while (Clock::now() < stop);
  return runs / (thread_cpu_seconds() - start);
}

}  // namespace

CoreTeam::CoreTeam() : pool_(runtime::available_cores(), /*pin=*/true), ran_(static_cast<size_t>(cores())) {}

/// body(0), body(1), ... in one parallel loop; false when the pool gave a thread another one's part.
bool CoreTeam::each_on_its_own(int parts, FunctionRef<void(int part)> body) {
  struct Loop {
    FunctionRef<void(int)> body;
    std::vector<std::thread::id>& ran;
  } loop{body, ran_};
  const LatheParallel* parallel = pool_.parallel();
  parallel->launch(
      parallel->pool,
      [](void* closure, int64_t begin, int64_t end) {
        auto& [body, ran] = *static_cast<Loop*>(closure);
        for (int64_t part = begin; part < end; ++part) {
          body(static_cast<int>(part));
          // A pool may let a thread that is quick do two parts: then it was not the cores that were measured.
          ran[static_cast<size_t>(part)] = std::this_thread::get_id();
        }
      },
      &loop, parts);
  const auto end = ran_.begin() + parts;
  // Quadratic in the cores, of which there are few.
  for (auto part = ran_.begin(); part != end; ++part)
    if (std::find(part + 1, end, *part) != end) return false;
  return true;
}

std::optional<double> CoreTeam::launch() {
  auto work = [](int) {  // long enough for the others to wake up before the launcher is done
    uint64_t sum = 0;
    for (int i = 0; i < 32; ++i) add_in_a_chain(sum, 3, std::make_index_sequence<64>());
  };
  const double alone = seconds_of([&] { work(0); });
  bool counts = false;
  const double all = seconds_of([&] { counts = each_on_its_own(cores(), work); });
  // What is left of the time when the work itself is taken off.
  return counts ? std::optional(std::max(0.0, all - alone)) : std::nullopt;
}

std::optional<double> CoreTeam::exchange(std::span<uint64_t> words, FunctionRef<void()> read) {
  CHECK(cores() > 1);
  std::atomic<bool> written = false;
  std::optional<double> seconds;
  const bool counts = each_on_its_own(2, [&](int part) {
    if (part == 1) {
      // Now the lines are in the other core's cache, and changed: reading fetches them from there.
      for (uint64_t& word : words) ++word;
      written = true;
    } else if (wait_for([&] { return written.load(); })) {
      seconds = seconds_of(read);
    }
  });
  return counts ? seconds : std::nullopt;
}

std::optional<double> CoreTeam::slowdown(std::span<const std::function<void()>> work) {
  CHECK(work.size() == static_cast<size_t>(cores()));
  // By processor time, so that a thread that waits for its core is not slow.
  const double alone = rate_of(work[0]);
  std::vector<double> rates(work.size());
  std::atomic<size_t> arrived = 0;
  std::atomic<bool> late = false;
  const bool counts = each_on_its_own(cores(), [&](int part) {
    ++arrived;
    // All at once, or the first would run for a while without the others.
    if (!wait_for([&] { return arrived == work.size(); })) late = true;
    rates[static_cast<size_t>(part)] = rate_of(work[static_cast<size_t>(part)]);
  });
  if (!counts || late) return {};
  const double mean = std::accumulate(rates.begin(), rates.end(), 0.0) / cores();
  return std::max(1.0, alone / mean);
}

}  // namespace lathe::worker
