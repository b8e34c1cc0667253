// Where the time of more threads goes: each parallel loop of a model on 1 thread and on several.
//
//   ./run bench scaling --model mobilenet_v2.lathe [--threads 2] [--all]
//
// A loop that scaled perfectly would take 1/N of its time on one thread. What it takes beyond that is more
// work (the sum of the times that the threads spend in its body grows: data from another core's cache,
// operands that each core reads whole) or waiting (for the start, for the last piece, for the end). In other
// runs each loop is launched twice in a row, and the second launch is timed: what cores take from one another
// and from memory has arrived then, so what is lost no more was that. Runs of the whole model are timed apart
// from those whose loops are: reading clocks takes time.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "bench/flags.h"
#include "core/runtime/cores.h"
#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"
#include "core/support/error.h"
#include "core/support/statistics.h"

namespace lathe::bench {
namespace {

constexpr int kRounds = 8, kRunsPerRound = 60, kWarmUp = 20;

using Body = void (*)(void* closure, int64_t begin, int64_t end);

double now() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Microseconds of one parallel loop, of each run.
struct Loop {
  size_t step = 0;  // of the plan
  int64_t iterations = 0;
  std::vector<double> wall, work;  // from launch to return; in the body, of all threads together
};

/// Runs parallel loops by another launcher and writes down how long each took.
class Recorder {
 public:
  /// `threads`: all that run parts of loops, its own and those of other recorders; `spent`: what run_timed()
  /// fills, from which it sees which step runs; `times`: how often each loop is launched, of which the last
  /// counts (an addition in place adds as often: the outputs are not the model's then).
  Recorder(const LatheParallel* launcher, int threads, const std::vector<int64_t>& spent, int times)
      : launcher_(launcher), spent_(spent), times_(times), shares_(static_cast<size_t>(threads)) {}

  const LatheParallel* parallel() const { return &parallel_; }
  void begin_run(bool counts) { next_ = 0, counts_ = counts; }
  const std::vector<Loop>& loops() const { return loops_; }

 private:
  // Two cache lines, which processors fetch in pairs: threads that write their own times do not slow each
  // other down.
  struct alignas(128) Share {
    double work = 0;
  };
  struct Launch {
    Body body;
    void* closure;
    std::vector<Share>& shares;
  };

  /// Of the calling thread: there are no others than the pool's.
  static size_t slot() {
    static std::atomic<size_t> threads = 0;
    thread_local const size_t mine = threads++;
    return mine;
  }

  static void part(void* closure, int64_t begin, int64_t end) {
    auto& launch = *static_cast<Launch*>(closure);
    double before = now();
    launch.body(launch.closure, begin, end);
    launch.shares.at(slot()).work += now() - before;
  }

  /// Called by one thread at a time, in the order of the plan: the number of a launch within a run names its
  /// loop.
  void launch(Body body, void* closure, int64_t iterations) {
    for (int time = 1; time < times_; ++time) launcher_->launch(launcher_->pool, body, closure, iterations);
    for (Share& share : shares_) share.work = 0;
    Launch launch{body, closure, shares_};
    double before = now();
    launcher_->launch(launcher_->pool, part, &launch, iterations);
    double wall = now() - before, work = 0;
    for (const Share& share : shares_) work += share.work;
    // The first run makes the list. The executor writes a step's time when the step has ended, so the first 0
    // is the step that runs.
    if (next_ == loops_.size()) {
      auto step = static_cast<size_t>(std::find(spent_.begin(), spent_.end(), 0) - spent_.begin());
      loops_.push_back({.step = step, .iterations = iterations});
    }
    Loop& loop = loops_[next_++];
    if (!counts_) return;
    loop.wall.push_back(wall);
    loop.work.push_back(work);
  }

  const LatheParallel* launcher_;
  const std::vector<int64_t>& spent_;
  int times_;
  LatheParallel parallel_{[](void* recorder, Body body, void* closure, int64_t iterations) {
                            static_cast<Recorder*>(recorder)->launch(body, closure, iterations);
                          },
                          this};
  std::vector<Share> shares_;
  std::vector<Loop> loops_;
  size_t next_ = 0;
  bool counts_ = false;
};

/// The model on one launcher.
class Side {
 public:
  Side(const std::shared_ptr<const runtime::Module>& module, const LatheParallel* launcher, int threads)
      : spent_(module->plan().steps.size()),
        once_(launcher, threads, spent_, 1),
        twice_(launcher, threads, spent_, 2),
        executor_(module, launcher),
        recorded_(module, once_.parallel()),
        repeated_(module, twice_.parallel()) {
    for (runtime::Executor* each : {&executor_, &recorded_, &repeated_})
      runtime::set_random_inputs(*each, /*seed=*/0);
    // The run that makes the list of loops.
    recorded_.run_timed(spent_);
  }

  void run_round() {
    for (int run = -kWarmUp; run < kRunsPerRound; ++run) {
      double before = now();
      executor_.run();
      if (run >= 0) times_.push_back(now() - before);
    }
    record(once_, recorded_);
    record(twice_, repeated_);
  }

  double time() const { return median(times_); }
  const std::string& kernel(const Loop& loop) const { return executor_.plan().steps.at(loop.step).kernel; }
  const std::vector<Loop>& loops() const { return once_.loops(); }
  const std::vector<Loop>& again() const { return twice_.loops(); }

 private:
  static void record(Recorder& recorder, runtime::Executor& executor) {
    for (int run = -kWarmUp; run < kRunsPerRound; ++run) {
      recorder.begin_run(run >= 0);
      executor.run();
    }
  }

  std::vector<int64_t> spent_;
  Recorder once_, twice_;
  runtime::Executor executor_, recorded_, repeated_;
  std::vector<double> times_;
};

struct Row {
  const Loop* loop = nullptr;
  double alone = 0, together = 0, work = 0, wait = 0, alone_again = 0, together_again = 0;
};

void report(const std::string& model, int threads, const Side& alone, const Side& together, bool all) {
  std::vector<Row> rows;
  Row sum;
  for (size_t i = 0; i < alone.loops().size(); ++i) {
    const Loop &one = alone.loops()[i], &many = together.loops()[i];
    double wall = median(many.wall), work = median(many.work), before = median(one.wall);
    // More work: what all threads together take beyond one alone, a thread's share of it. Waiting: wall time
    // in which a thread on the average does not run the body.
    rows.push_back({&one, before, wall, (work - before) / threads, wall - work / threads,
                    median(alone.again()[i].wall), median(together.again()[i].wall)});
    for (double Row::*part :
         {&Row::alone, &Row::together, &Row::work, &Row::wait, &Row::alone_again, &Row::together_again})
      sum.*part += rows.back().*part;
  }
  fmt::print("{}: {:.0f} us on 1 thread, {:.0f} us on {}: {:.3f} times as fast\n", model, alone.time(),
             together.time(), threads, alone.time() / together.time());
  fmt::print("{} parallel loops: {:.0f} us, {:.0f} us: {:.3f}\n", rows.size(), sum.alone, sum.together,
             sum.alone / sum.together);
  fmt::print("beyond 1/{} of the loops' time: {:.0f} us more work, {:.0f} us waiting\n", threads, sum.work,
             sum.wait);
  fmt::print("each launched a second time: {:.0f} us, {:.0f} us: {:.3f}, {:.0f} us beyond 1/{}\n\n",
             sum.alone_again, sum.together_again, sum.alone_again / sum.together_again,
             sum.together_again - sum.alone_again / threads, threads);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.work + a.wait > b.work + b.wait; });
  if (!all) rows.resize(std::min<size_t>(rows.size(), 15));
  fmt::print("{:>9} {:>9} {:>10} {:>9} {:>11} {:>10}  kernel\n", "1 thread",
             fmt::format("{} threads", threads), "more work", "waiting", "both, again", "iterations");
  for (const Row& row : rows)
    fmt::print("{:>9.1f} {:>9.1f} {:>10.1f} {:>9.1f} {:>11.1f} {:>10}  {}\n", row.alone, row.together,
               row.work, row.wait, row.together_again - row.alone_again / threads, row.loop->iterations,
               alone.kernel(*row.loop));
}

int run(int argc, char** argv) {
  std::string model;
  int threads = runtime::available_cores();
  bool all = false;
  Flags flags("Each parallel loop of a compiled model on 1 thread and on several; microseconds, medians");
  flags.add("--model", model, "a .lathe file (tune compile)", Flags::Need::kRequired);
  flags.add("--threads", threads, 1, 1024, "at least 2");
  flags.add("--all", all, "print all loops, not only those that lose most");
  flags.parse(argc, argv);
  if (threads < 2 || threads > runtime::available_cores())
    fail("{} threads on {} cores: must be at least 2, and no more than cores", threads,
         runtime::available_cores());
  auto module = runtime::Module::open(model);
  runtime::ThreadPool pool(threads, /*pin=*/true);
  Side alone(module, runtime::serial_parallel(), threads), together(module, pool.parallel(), threads);
  // In turn, so that both sides meet the same machine.
  for (int round = 0; round < kRounds; ++round) {
    alone.run_round();
    together.run_round();
  }
  report(model, threads, alone, together, all);
  return 0;
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) { return lathe::bench::guarded_main(lathe::bench::run, argc, argv); }
