#include "core/runtime/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "core/support/error.h"

namespace lathe::runtime {
namespace {

constexpr std::chrono::microseconds kSpin{100};
constexpr size_t kCacheLine = 64;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

/// A word that one thread waits on. The waiter says that it sleeps before the kernel compares the word, and
/// the writer changes the word before it looks for a sleeper, so a wake-up can't be lost (both sequentially
/// consistent).
struct alignas(kCacheLine) Signal {
  std::atomic<uint32_t> word{0};
  std::atomic<bool> sleeping{false};

  void wake() {
    if (sleeping.load()) futex_wake(word);
  }

  /// Returns when done(word) holds.
  template <typename Done>
  void wait(bool spin, Done done) {
    if (done(word.load(std::memory_order_acquire))) return;
    if (spin) {
      auto end = std::chrono::steady_clock::now() + kSpin;
      do {
        for (int i = 0; i < 64; ++i) {
          if (done(word.load(std::memory_order_acquire))) return;
          pause();
        }
      } while (std::chrono::steady_clock::now() < end);
    }
    sleeping.store(true);
    for (uint32_t seen = word.load(); !done(seen); seen = word.load()) futex_wait(word, seen);
    sleeping.store(false);
  }
};

std::vector<int> allowed_cores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &set)) cores.push_back(core);
  if (cores.empty()) cores.push_back(0);
  return cores;
}

void bind_to_core(pthread_t thread, int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  pthread_setaffinity_np(thread, sizeof set, &set);  // a refusal only costs speed
}

}  // namespace

struct ThreadPool::Team {
  struct Job {
    void (*body)(void*, int64_t, int64_t);
    void* closure;
    int64_t iterations;
    int64_t chunks;

    void run(int64_t chunk) const {
      body(closure, iterations * chunk / chunks, iterations * (chunk + 1) / chunks);
    }
  };

  // `job` is written by the launching thread while no worker has work, and read by workers between their
  // signal and their decrement of `pending`.
  Job job{};
  std::atomic<bool> busy{false};  // a launch is running
  std::atomic<bool> stop{false};
  bool spin = true;
  Signal pending;               // workers that have not finished; the launching thread waits for 0
  std::vector<Signal> mailbox;  // one a worker: counts the jobs it was given
  std::vector<std::thread> workers;
  cpu_set_t caller_affinity{};
  bool pinned = false;

  explicit Team(int threads) : mailbox(threads - 1) {}

  void work(int index) {
    Signal& mail = mailbox[index];
    for (uint32_t taken = 0;;) {
      mail.wait(spin, [&](uint32_t posted) { return posted != taken; });
      ++taken;
      if (stop.load(std::memory_order_relaxed)) return;
      job.run(index + 1);
      if (pending.word.fetch_sub(1) == 1) pending.wake();
    }
  }

  void launch(const Job& request) {
    if (request.chunks <= 1 || busy.exchange(true, std::memory_order_acquire)) {
      if (request.iterations > 0) request.body(request.closure, 0, request.iterations);
      return;
    }
    job = request;
    int helpers = static_cast<int>(request.chunks) - 1;
    pending.word.store(static_cast<uint32_t>(helpers), std::memory_order_relaxed);
    for (int i = 0; i < helpers; ++i) {
      mailbox[i].word.fetch_add(1);
      mailbox[i].wake();
    }
    request.run(0);
    pending.wait(spin, [](uint32_t left) { return left == 0; });
    busy.store(false, std::memory_order_release);
  }
};

ThreadPool::ThreadPool(int threads, bool pin)
    : threads_(threads),
      parallel_{[](void* pool, void (*body)(void*, int64_t, int64_t), void* closure, int64_t iterations) {
                  Team* team = static_cast<Team*>(pool);
                  int64_t team_size = static_cast<int64_t>(team->workers.size()) + 1;
                  team->launch({body, closure, iterations, std::min(iterations, team_size)});
                },
                nullptr} {
  CHECK(threads >= 1, "a thread pool of {} threads", threads);
  team_ = std::make_unique<Team>(threads);
  parallel_.pool = team_.get();
  std::vector<int> cores = allowed_cores();
  team_->spin = static_cast<size_t>(threads) <= cores.size();
  team_->pinned = pin && team_->spin &&
                  pthread_getaffinity_np(pthread_self(), sizeof(cpu_set_t), &team_->caller_affinity) == 0;
  team_->workers.reserve(threads - 1);
  for (int i = 0; i + 1 < threads; ++i) {
    team_->workers.emplace_back([team = team_.get(), i] { team->work(i); });
    if (team_->pinned) bind_to_core(team_->workers.back().native_handle(), cores[i + 1]);
  }
  if (team_->pinned) bind_to_core(pthread_self(), cores[0]);
}

ThreadPool::~ThreadPool() {
  team_->stop.store(true, std::memory_order_relaxed);
  for (Signal& mail : team_->mailbox) {
    mail.word.fetch_add(1);
    mail.wake();
  }
  for (std::thread& worker : team_->workers) worker.join();
  if (team_->pinned) pthread_setaffinity_np(pthread_self(), sizeof(cpu_set_t), &team_->caller_affinity);
}

const LatheParallel* serial_parallel() {
  static constexpr LatheParallel kSerial{
      [](void*, void (*body)(void*, int64_t, int64_t), void* closure, int64_t iterations) {
        if (iterations > 0) body(closure, 0, iterations);
      },
      nullptr};
  return &kSerial;
}

int available_cores() { return static_cast<int>(allowed_cores().size()); }

}  // namespace lathe::runtime
