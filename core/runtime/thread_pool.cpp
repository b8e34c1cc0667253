#include "core/runtime/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <vector>

#include "core/runtime/cores.h"
#include "core/support/error.h"
#include "core/support/unfit.h"

namespace lathe::runtime {
namespace {

// How long a thread waits awake, for the next loop or the end of one. One that sleeps is woken by the system.
// Between two kernels of a model there are microseconds, between two requests of a server milliseconds
// (docs/decisions/007-memory-and-threads.md).
constexpr std::chrono::microseconds kSpin{200};
constexpr size_t kCacheLine = 64;

/// Tells the core that it waits: the other thread of the core gets more of it.
void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Sleeps if `word` is still `expected`, as the system sees it: a wake-up before that is not lost.
/// PRIVATE: threads of one process, which spares the system a look-up of the page.
void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

/// done() became true while spinning.
template <typename Done>
bool spin_until(Done done) {
  auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    // The clock is looked at now and then only.
    for (int i = 0; i < 64; ++i) {
      if (done()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

/// The calling thread, by the id 0: a sandbox allows no other.
void bind_to_core(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof set, &set);  // a refusal only costs speed
}

/// Sleeps until `word` is not `expected`; may return early. The other side stores the word, then looks at
/// `sleeps` (both sequentially consistent), so a wake-up can't be lost.
void sleep_while(std::atomic<uint32_t>& word, uint32_t expected, std::atomic<bool>& sleeps) {
  // Before the word is looked at again: either the other side sees `sleeps`, or this side sees the new word.
  sleeps.store(true);
  if (word.load() == expected) futex_wait(word, expected);
  sleeps.store(false);
}

/// Shares of fewer iterations are not divided: a piece costs 0.1 to 0.2 us (a compare-and-swap waits until
/// the thread's stores are done, and a body begins again), and there is little to give.
constexpr uint32_t kDivisible = 8;

/// The iterations of one thread. The first piece, three quarters, is its own; of the others it takes pieces
/// from the front, other threads from the back, always half of what is left: so a piece costs little and the
/// last one is small.
class Share {
 public:
  /// REQUIRES: nobody takes, and count > 0.
  void fill(int64_t first, uint32_t count) {
    first_ = first;
    own_ = count >= kDivisible ? count - count / 4 : count;
    left_.store(uint64_t{count} << 32 | own_, std::memory_order_relaxed);
  }

  int64_t first() const { return first_; }
  int64_t own_end() const { return first_ + own_; }

  bool take(bool owner, int64_t& begin, int64_t& end) {
    // Begin and end change together, in one word, so an iteration is taken once. Nothing else is published by
    // it: `offer` and `finish` order what the bodies read and write.
    // ABA is no danger: a share only shrinks between two fills, and nobody takes while it is filled.
    uint64_t seen = left_.load(std::memory_order_relaxed);
    for (;;) {
      auto from = static_cast<uint32_t>(seen), to = static_cast<uint32_t>(seen >> 32);
      // Whoever fails stays away: shares only shrink until the next `fill`.
      if (from >= to) return false;
      // At least one.
      uint32_t piece = (to - from + 1) / 2;
      uint32_t new_from = owner ? from + piece : from, new_to = owner ? to : to - piece;
      if (!left_.compare_exchange_weak(seen, uint64_t{new_to} << 32 | new_from, std::memory_order_relaxed))
        continue;
      begin = first_ + (owner ? from : new_to);
      end = begin + piece;
      return true;
    }
  }

 private:
  std::atomic<uint64_t> left_{0};  // end << 32 | begin, counted from first_
  int64_t first_ = 0;
  uint32_t own_ = 0;
};

struct Job {
  void (*body)(void*, int64_t, int64_t) = nullptr;
  void* closure = nullptr;
  uint32_t shares = 0;      // of the first seats
  bool worth_help = false;  // a share is divisible: a worker that is done looks at the others'
};

/// One thread's part of a launch, and what a worker is told, in one cache line: an offer costs one transfer.
/// The launching thread writes `job` while the worker has none, and may take an offer back that the worker
/// has not accepted: a join never waits for a thread that is slow to wake up.
struct alignas(kCacheLine) Seat {
  enum : uint32_t { kIdle, kOffered, kRunning, kStop };
  // A futex is a word of 32 bits.
  std::atomic<uint32_t> state{kIdle};
  Job job;
  Share share;
  // Looked at on each launch and seldom written, so in each core's cache.
  alignas(kCacheLine) std::atomic<bool> worker_sleeps{false};
  std::atomic<bool> launcher_sleeps{false};

  /// Does not wait until the offer has left the core. So a worker that falls asleep at this very moment may
  /// not be woken; the offer is taken back then, as from any worker that is slow.
  void offer(const Job& what) {
    job = what;
    state.store(kOffered, std::memory_order_release);
    if (worker_sleeps.load(std::memory_order_relaxed)) futex_wake(state);
  }

  void stop() {
    state.store(kStop);
    if (worker_sleeps.load()) futex_wake(state);
  }

  /// Waits for an offer and accepts it; false: stop.
  bool accept(bool spin) {
    uint32_t seen = kIdle;
    auto accepted = [&] {
      seen = state.load(std::memory_order_relaxed);
      if (seen != kOffered) return false;
      return state.compare_exchange_strong(seen, kRunning, std::memory_order_acquire);
    };
    auto called = [&] { return accepted() || seen == kStop; };
    // A worker that woke up for an offer that was withdrawn sleeps again.
    while (!called() && !(spin && spin_until(called))) sleep_while(state, seen, worker_sleeps);
    return seen != kStop;
  }

  void finish() {
    // Sequentially consistent, with the look at launcher_sleeps: see sleep_while.
    state.store(kIdle);
    if (launcher_sleeps.load()) futex_wake(state);
  }

  /// Takes the offer back, unless it is accepted.
  bool withdraw() {
    uint32_t seen = state.load(std::memory_order_relaxed);
    return seen == kOffered && state.compare_exchange_strong(seen, kIdle, std::memory_order_relaxed);
  }

  /// Returns when the worker does not run. REQUIRES: no offer.
  void join(bool spin) {
    auto done = [&] { return state.load(std::memory_order_acquire) == kIdle; };
    while (!done() && !(spin && spin_until(done))) sleep_while(state, kRunning, launcher_sleeps);
  }
};
static_assert(sizeof(Seat) == 2 * kCacheLine);

}  // namespace

class ThreadPool::Team {
 public:
  Team(int threads, bool pin) : seats_(threads) {
    std::vector<int> cores = allowed_cores();
    // With more threads than cores a thread that spins keeps one from working.
    spin_ = threads <= available_cores();
    pinned_ = pin && static_cast<size_t>(threads) <= cores.size() &&
              sched_getaffinity(0, sizeof(cpu_set_t), &caller_affinity_) == 0;
    workers_.reserve(threads - 1);
    try {
      for (int i = 0; i + 1 < threads; ++i) {
        workers_.emplace_back([this, i, core = pinned_ ? cores[i + 1] : 0] {
          if (pinned_) bind_to_core(core);
          // Until stop(): a worker lives as long as the pool.
          work(i + 1);
        });
      }
    } catch (const std::exception& error) {
      stop();
      throw OutOfResources(fmt::format("cannot start {} threads: {}", threads, error.what()));
    }
    if (pinned_) bind_to_core(cores[0]);
  }

  ~Team() {
    stop();
    // Who ends the pool need not be who made it. A thread that is gone has no affinity to give back.
    if (pinned_) sched_setaffinity(caller_, sizeof(cpu_set_t), &caller_affinity_);
  }

  void launch(void (*body)(void*, int64_t, int64_t), void* closure, int64_t iterations) {
    // A share counts in 32 bits.
    auto count = static_cast<uint64_t>(std::clamp<int64_t>(iterations, 0, int64_t{1} << 31));
    auto shares = static_cast<uint32_t>(std::min<uint64_t>(count, seats_.size()));
    // Also where a launch is running, from this thread or another: its caller does the loop alone.
    if (shares <= 1 || count != static_cast<uint64_t>(iterations) ||
        // Nested loops, and callers on other threads, run serially: they would wait for the workers of
        // the loop around them.
        busy_.exchange(true, std::memory_order_acquire)) {
      if (iterations > 0) body(closure, 0, iterations);
      return;
    }
    Job job{body, closure, shares, (count + shares - 1) / shares >= kDivisible};
    // All shares before the first offer: a worker that is done at once looks at the others'.
    for (uint64_t i = 0; i < shares; ++i) {
      uint64_t begin = count * i / shares, end = count * (i + 1) / shares;
      seats_[i].share.fill(static_cast<int64_t>(begin), static_cast<uint32_t>(end - begin));
    }
    for (uint32_t i = 1; i < shares; ++i) seats_[i].offer(job);
    take_part(job, 0);
    // Also of those that took no part: their seats are idle at once, or were withdrawn.
    for (uint32_t i = 1; i < shares; ++i) seats_[i].join(spin_);
    busy_.store(false, std::memory_order_release);
  }

 private:
  void stop() {
    for (size_t i = 1; i < seats_.size(); ++i) seats_[i].stop();
    for (std::thread& worker : workers_) worker.join();
  }

  void work(uint32_t index) {
    Seat& seat = seats_[index];
    while (seat.accept(spin_)) {
      take_part(seat.job, index);
      seat.finish();
    }
  }

  /// All of the share of seat `own`, then what is left of the others. The launcher (seat 0) also takes the
  /// own part of a worker that has not begun.
  void take_part(const Job& job, uint32_t own) {
    int64_t begin, end;
    Share& share = seats_[own].share;
    job.body(job.closure, share.first(), share.own_end());
    while (share.take(true, begin, end)) job.body(job.closure, begin, end);
    // The launcher looks at all, since an offer that nobody accepted is its to do.
    for (uint32_t i = 1; i < job.shares && (own == 0 || job.worth_help); ++i) {
      Seat& other = seats_[(own + i) % job.shares];
      while (other.share.take(false, begin, end)) job.body(job.closure, begin, end);
      if (own == 0 && other.withdraw()) job.body(job.closure, other.share.first(), other.share.own_end());
    }
  }

  std::vector<Seat> seats_;  // one a thread, the caller's first
  bool spin_ = true, pinned_ = false;
  const pid_t caller_ = gettid();
  cpu_set_t caller_affinity_{};
  std::vector<std::thread> workers_;
  // In a line that no worker reads.
  alignas(2 * kCacheLine) std::atomic<bool> busy_{false};  // a launch is running
};

ThreadPool::ThreadPool(int threads, bool pin)
    : threads_(threads),
      parallel_{[](void* pool, void (*body)(void*, int64_t, int64_t), void* closure, int64_t iterations) {
                  static_cast<Team*>(pool)->launch(body, closure, iterations);
                },
                nullptr} {
  CHECK(threads >= 1, "a thread pool of {} threads", threads);
  team_ = std::make_unique<Team>(threads, pin);
  parallel_.pool = team_.get();
}

ThreadPool::~ThreadPool() = default;

const LatheParallel* serial_parallel() {
  static constexpr LatheParallel kSerial{
      [](void*, void (*body)(void*, int64_t, int64_t), void* closure, int64_t iterations) {
        if (iterations > 0) body(closure, 0, iterations);
      },
      nullptr};
  return &kSerial;
}

}  // namespace lathe::runtime
