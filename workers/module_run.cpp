#include "workers/module_run.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"
#include "core/support/clock.h"
#include "core/support/unfit.h"
#include "jobs.pb.h"
#include "workers/child_reply.h"
#include "workers/instruction_counter.h"
#include "workers/stopwatch.h"

namespace lathe::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kLeastSamples = 3;
constexpr double kSampleSeconds = 20e-6;                // at least, of as many runs as that takes
constexpr double kWarmUpShare = 0.3;                    // of the time of the runs that count
constexpr double kWallSeconds = 120, kWallFactor = 10;  // a process may take so long, and its runs so often
constexpr double kSliceSeconds = 10e-3;                 // at least, from one reading of the clock to the next
constexpr int kMostSlices = 100, kMostSamples = 1000;
constexpr double kLeastSeconds = 1e-12, kMostSeconds = 1e6, kMostHz = 1e12;  // of what is believed
constexpr uint64_t kFileBytes = uint64_t{1} << 30;  // of the module's code, which is loaded from memory

void set_inputs(runtime::Executor& executor, const std::vector<int64_t>& dims) {
  if (!dims.empty()) executor.set_dims(dims);
  runtime::set_random_inputs(executor, /*seed=*/0);
}

/// On one thread, for how several share the work varies.
void count_instructions(const std::shared_ptr<const runtime::Module>& module, const ModuleRun& run,
                        ModuleTimes& times) {
  runtime::Executor executor(module, runtime::serial_parallel());
  set_inputs(executor, run.dims);
  executor.run();
  InstructionCounter counter;
  times.uncounted = counter.missing();
  if (times.uncounted.empty()) times.instructions = counter.count([&] { executor.run(); });
}

/// The clock of what computes, in hertz; 0 where nobody tells it.
std::function<double()> clock_of(const std::optional<GpuDriver>& driver) {
  if (!driver) return clock_hz;
  std::shared_ptr<GpuClock> clock = gpu_clock(*driver, "", kNvmlLibrary);
  if (!clock) return [] { return 0.0; };
  return [clock] { return clock->hz(); };
}

ModuleTimes time_module(const ModuleRun& run, Child& child) {
  const auto module = runtime::Module::open(run.module);
  ModuleTimes times;
  if (run.count) count_instructions(module, run, times);
  runtime::ThreadPool pool(run.threads);
  runtime::Executor executor(module, pool.parallel());
  set_inputs(executor, run.dims);
  const std::function<double()> clock = clock_of(run.clock);
  // After everything is loaded and filled: the window keeps all other measurements of the machine waiting.
  child.open_window();
  const auto begun = Clock::now();
  int64_t warm_ups = 0;
  // At least once, also for a model of minutes.
  do executor.run();
  while (++warm_ups, seconds_since(begun) < kWarmUpShare * run.seconds);
  // So many runs together that reading the clock costs nothing beside them.
  const auto batch =
      static_cast<int64_t>(std::ceil(kSampleSeconds * static_cast<double>(warm_ups) / seconds_since(begun)));
  const double slice_seconds = std::max(kSliceSeconds, run.seconds / kMostSlices);
  double hz = clock();
  for (const auto start = Clock::now();
       times.runs < kLeastSamples * batch || seconds_since(start) < run.seconds;) {
    double least = std::numeric_limits<double>::infinity();
    const auto slice = Clock::now();
    do {
      const auto before = Clock::now();
      for (int64_t i = 0; i < batch; ++i) executor.run();
      // A process is one observation of the gate: the least is what noise has added least to.
      least = std::min(least, seconds_since(before));
      times.runs += batch;
    } while (seconds_since(slice) < slice_seconds);
    const double after = clock();
    times.samples.push_back({least / static_cast<double>(batch), hz > 0 && after > 0 ? (hz + after) / 2 : 0});
    hz = after;
  }
  child.close_window();
  return times;
}

std::string encode(const ModuleRun& run) {
  pb::ModuleRun message;
  message.set_module(run.module);
  message.set_threads(static_cast<uint32_t>(run.threads));
  message.set_seconds(run.seconds);
  message.set_count(run.count);
  if (run.clock) message.set_clock(static_cast<uint32_t>(*run.clock));
  message.mutable_dims()->Add(run.dims.begin(), run.dims.end());
  return message.SerializeAsString();
}

ModuleRun decode_run(std::string_view bytes) {
  pb::ModuleRun message;
  CHECK(message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));  // our own
  ModuleRun run{message.module(), static_cast<int>(message.threads()), message.seconds(), message.count()};
  if (message.has_clock()) run.clock = static_cast<GpuDriver>(message.clock());
  run.dims.assign(message.dims().begin(), message.dims().end());
  return run;
}

std::string encode(const ModuleTimes& times) {
  pb::ModuleTimes message;
  for (const ClockedSample& sample : times.samples) {
    message.add_seconds(sample.seconds);
    message.add_hz(sample.hz);
  }
  message.set_runs(times.runs);
  message.set_instructions(times.instructions);
  message.set_uncounted(times.uncounted);
  return message.SerializeAsString();
}

/// Nothing when these are no times: the module's code may have written over them.
std::optional<ModuleTimes> decode_times(std::string_view bytes) {
  pb::ModuleTimes message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return std::nullopt;
  const int count = message.seconds_size();
  if (count < 1 || count > kMostSamples || message.hz_size() != count) return std::nullopt;
  ModuleTimes times{{}, message.runs(), message.instructions(), message.uncounted()};
  for (int i = 0; i < count; ++i) {
    const ClockedSample sample{message.seconds(i), message.hz(i)};
    if (!(sample.seconds >= kLeastSeconds && sample.seconds <= kMostSeconds)) return std::nullopt;
    if (!(sample.hz >= 0 && sample.hz <= kMostHz)) return std::nullopt;
    times.samples.push_back(sample);
  }
  return times;
}

/// The report, or nothing when `stop` said so first.
std::optional<Report> await(Sandbox& sandbox, const std::function<bool()>& stop) {
  for (;;) {
    pollfd ready{.fd = sandbox.descriptor(), .events = POLLIN};
    // Woken up now and then, for Ctrl-C.
    poll(&ready, 1, /*milliseconds=*/100);
    if (std::optional<Report> report = sandbox.finish()) return report;
    if (stop()) return std::nullopt;
  }
}

}  // namespace

std::string module_run_body(std::string_view request, Child& child) {
  return encode(time_module(decode_run(request), child));
}

std::optional<ModuleTimes> run_module(const std::vector<std::string>& command, const ModuleRun& run,
                                      const std::function<bool()>& stop) {
  Task task{.request = encode(run)};
  // Loading and warming up may take long; a module that hangs ends the gate all the same.
  task.limits.wall_seconds = kWallSeconds + kWallFactor * run.seconds;
  task.limits.file_bytes = kFileBytes;
  Sandbox sandbox(command);
  std::optional<Report> report;
  // Twice: it may have been the kernel, short of memory, and a blameless module.
  for (int attempt = 0; attempt < 2; ++attempt) {
    sandbox.start(task);
    report = await(sandbox, stop);
    if (!report) return std::nullopt;
    if (!killed_from_outside(*report)) break;
  }
  if (killed_from_outside(*report))
    throw Unfit(
        fmt::format("{}: its process was ended from outside, twice in a row: {}; is this machine short of "
                    "memory?",
                    run.module, describe(*report)));
  if (report->end == Report::End::kReplied) {
    if (std::optional<ModuleTimes> times = decode_times(report->reply)) return times;
    fail("{} does not run: its process gave no valid times", run.module);
  }
  const std::string said = report->stderr_tail.substr(0, report->stderr_tail.find('\n'));
  fail("{} does not run: {}{}", run.module, describe(*report), said.empty() ? "" : ": " + said);
}

}  // namespace lathe::worker
