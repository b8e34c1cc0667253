#include "workers/machine_probe.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "core/codegen/compile.h"
#include "core/runtime/cores.h"
#include "core/runtime/pages.h"
#include "core/runtime/shared_object.h"
#include "core/runtime/thread_pool.h"
#include "core/support/error.h"
#include "workers/core_team.h"
#include "workers/probe_kernels.h"
#include "workers/stopwatch.h"

namespace lathe::worker {
namespace {

using Clock = std::chrono::steady_clock;
// In bits. A processor may have several, at different rates.
constexpr int kWidths[] = {128, 256, 512};
/// Beyond most caches; where one is larger, it is this machine's memory.
constexpr int64_t kFarBytes = int64_t{128} << 20;
constexpr int kStreams = 24;  // more than processors are known to follow, fewer than tiles may have
constexpr int64_t kChunk = int64_t{1} << 20;  // of a buffer beyond the second-level cache: read in one sample

/// Pages full of a byte that is a small number in any type.
/// As the runtime allocates them, so that huge pages are the same.
std::shared_ptr<void> filled(int64_t bytes) {
  std::shared_ptr<void> pages = runtime::allocate_pages(static_cast<uint64_t>(bytes));
  // Zeros would do for arithmetic, but pages that were never written are all the same one.
  memset(pages.get(), 0x3c, static_cast<size_t>(bytes));
  return pages;
}

/// A probe's code with buffers of its own.
class Runner {
 public:
  Runner(LatheKernel kernel, const tir::Func& func) : kernel_(kernel) {
    for (const tir::Buffer& param : func->params) {
      owned_.push_back(filled(tir::byte_size(param)));
      buffers_.push_back(owned_.back().get());
    }
  }
  void operator()() const { kernel_(buffers_.data(), nullptr, runtime::serial_parallel(), nullptr); }
  /// With another first buffer: what a reading probe reads.
  void on(void* data) const {
    std::vector<void*> buffers = buffers_;
    buffers[0] = data;
    kernel_(buffers.data(), nullptr, runtime::serial_parallel(), nullptr);
  }

 private:
  LatheKernel kernel_;
  std::vector<std::shared_ptr<void>> owned_;
  std::vector<void*> buffers_;
};

/// A part of a buffer read chunk by chunk, from the beginning again after its end.
/// Chunks are more than the second-level cache holds before one comes again.
class Walk {
 public:
  Walk(const std::shared_ptr<void>& memory, int64_t begin, int64_t bytes)
      : part_(memory, static_cast<char*>(memory.get()) + begin),
        chunks_(std::max<int64_t>(1, bytes / kChunk)) {}
  void* next() {
    at_ = (at_ + 1) % chunks_;
    return static_cast<char*>(part_.get()) + at_ * kChunk;
  }

 private:
  std::shared_ptr<void> part_;
  int64_t chunks_, at_ = 0;
};

/// What something costs, and the number that says so.
/// What is stored is rounded, so that two runs on one machine give one text: schedules are chosen by it.
struct Form {
  double tolerance;  // two rounds are equal within it
  bool rate;         // the number is the cost's inverse
  bool snaps;        // to wholes and halves
  int digits;

  double number(double cost) const {
    const double number = rate ? 1 / cost : cost;
    return snaps ? snapped(number, digits) : rounded(number, digits);
  }
};
constexpr Form kInstructions{0.03, true, true, 3}, kLatency{0.03, false, true, 3},
    kClock{0.03, true, false, 3}, kBandwidth{0.1, true, false, 2}, kFollowed{0.25, true, false, 2},
    kBetweenCores{0.25, true, false, 2}, kLaunch{0.25, false, false, 2};

/// One number of the machine. A round says what it costs, less being better, unless it was disturbed.
struct Probe {
  std::string name;
  Form form;
  std::function<std::optional<double>(Stopwatch&)> round;
  std::vector<double> rounds = {};

  std::optional<double> cost() const { return settled(rounds, form.tolerance); }
};

/// The probes of one target, with all that they run on.
class Laboratory {
 public:
  explicit Laboratory(const Target& target) : target_(target) {
    // A target may forbid what the processor has.
    for (int bits : kWidths)
      if (bits <= target.vector_bits) widths_.push_back(bits);
    compile();
    add_arithmetic();
    add_memory();
    if (runtime::available_cores() > 1) add_cores();
  }

  std::vector<Probe>& probes() { return probes_; }
  int widest() const { return widths_.back(); }

 private:
  static constexpr auto kLeast = Stopwatch::Take::kLeast, kMedian = Stopwatch::Take::kMedian;

  std::string name_of(const char* what, int bits) const { return fmt::format("{}_{}", what, bits); }

  void compile() {
    for (int bits : widths_) {
      for (const ProductKind& kind : kProductKinds)
        kernels_.push_back(products_probe(name_of(kind.name, bits), kind, bits, target_.vector_registers));
      kernels_.push_back(loads_probe(name_of("loads", bits), bits));
    }
    kernels_.push_back(latency_probe("latency", widest()));
    // Half: the whole of it would share the cache with code, stack and the operating system.
    kernels_.push_back(reading_probe("half_l2", widest(), target_.l2_bytes / 2));
    kernels_.push_back(reading_probe("chunk", widest(), kChunk));
    kernels_.push_back(streams_probe("streams", widest(), kChunk, kStreams));
    std::vector<tir::Func> funcs;
    for (const ProbeKernel& kernel : kernels_) funcs.push_back(kernel.func);
    // In one object: a linker is started once.
    object_.emplace(codegen::compile(funcs, target_).bytes);
  }

  const ProbeKernel& kernel(const std::string& name) const {
    return *std::find_if(kernels_.begin(), kernels_.end(),
                         [&](const ProbeKernel& kernel) { return kernel.func->name == name; });
  }
  Runner runner(const std::string& name) const {
    auto code = reinterpret_cast<LatheKernel>(object_->find(name.c_str()));
    CHECK(code, "the probes have no kernel {}", name);
    return {code, kernel(name).func};
  }

  void add_arithmetic() {
    probes_.push_back({"clock", kClock, [](Stopwatch& watch) -> std::optional<double> {
                         // Undisturbed samples of the clock against itself, in nanoseconds.
                         double least = cycle_seconds();
                         auto cycles = watch.cycles(kLeast, [&] {
                           const double cycle = cycle_seconds();
                           least = std::min(least, cycle);
                           return cycle;
                         });
                         return cycles ? std::optional(least * 1e9) : std::nullopt;
                       }});
    auto add = [&](const std::string& name, const Form& form) {
      probes_.push_back(
          {name, form, [run = runner(name), count = kernel(name).instructions](Stopwatch& watch) {
             // Noise only adds to what a loop takes.
             auto cycles = watch.cycles(kLeast, [&] { return seconds_of(run); });
             if (cycles) *cycles /= count;
             return cycles;
           }});
    };
    for (int bits : widths_) {
      for (const ProductKind& kind : kProductKinds) add(name_of(kind.name, bits), kInstructions);
      add(name_of("loads", bits), kInstructions);
    }
    add("latency", kLatency);
  }

  void add_reading(const char* name, const std::string& kernel_name, Stopwatch::Take take,
                   std::function<void()> read) {
    probes_.push_back(
        {name, kBandwidth,
         [take, read = std::move(read), bytes = kernel(kernel_name).bytes_read](Stopwatch& watch) {
           auto cycles = watch.cycles(take, [&] { return seconds_of(read); });
           if (cycles) *cycles /= bytes;
           return cycles;
         }});
  }

  /// Reads a chunk of these bytes each time.
  std::function<void()> walk(const std::shared_ptr<void>& memory, int64_t begin, int64_t bytes,
                             const char* kernel = "chunk") const {
    return [run = runner(kernel), walk = Walk(memory, begin, bytes)]() mutable { run.on(walk.next()); };
  }

  void add_memory() {
    add_reading("l2_bandwidth", "half_l2", kLeast, runner("half_l2"));
    // So much that the second-level cache has nothing of it when it comes round again.
    // Half of the third-level cache at most, for others use it too.
    const int64_t in_l3 = std::min(8 * target_.l2_bytes, target_.l3_bytes / 2);
    if (in_l3 >= std::max(3 * target_.l2_bytes, kChunk))
      add_reading("l3_bandwidth", "chunk", kLeast, walk(filled(in_l3), 0, in_l3));
    // The least would be that of a chunk which another probe has left in a cache.
    add_reading("memory_bandwidth", "chunk", kMedian, walk(far_, 0, kFarBytes));
    add_streams();
  }

  /// Many streams take as many times longer than one as they are more than the processor fetches ahead for.
  void add_streams() {
    // The answer is the number of streams that are followed: 24 streams that take 3 times as long
    // were served 8 at a time.
    probes_.push_back({"streams", kFollowed,
                       [one = walk(far_, 0, kFarBytes), many = walk(far_, 0, kFarBytes, "streams"),
                        chunk = kernel("chunk").bytes_read,
                        streams = kernel("streams").bytes_read](Stopwatch& watch) -> std::optional<double> {
                         auto alone = watch.cycles(kMedian, [&] { return seconds_of(one); });
                         auto together = watch.cycles(kMedian, [&] { return seconds_of(many); });
                         if (!alone || !together) return {};
                         constexpr double kAsFast = 1.1;
                         const double longer = *together / streams / (*alone / chunk);
                         return longer < kAsFast ? 1 / MachineModel{}.streams : longer / kStreams;
                       }});
  }

  void add_cores() {
    team_.emplace();
    probes_.push_back({"launch_cycles", kLaunch, [this](Stopwatch& watch) {
                         return watch.cycles(kMedian, [&] { return team_->launch(); });
                       }});
    add_exchange();
    add_shared("shared_arithmetic",
               [&](int) -> std::function<void()> { return runner(name_of("multiply_adds", widest())); });
    add_shared("shared_memory", [&](int core) {
      // Each core reads pages of its own, all of them in memory.
      const int64_t part = kFarBytes / team_->cores() / kChunk * kChunk;
      return walk(far_, core * part, part);
    });
  }

  /// Of as many bytes as a second-level cache has of an operator's results when the next one reads them.
  void add_exchange() {
    const double bytes = kernel("half_l2").bytes_read;
    probes_.push_back({"core_bandwidth", kBetweenCores,
                       [this, bytes, memory = filled(static_cast<int64_t>(bytes)),
                        run = runner("half_l2")](Stopwatch& watch) {
                         std::span words(static_cast<uint64_t*>(memory.get()),
                                         static_cast<size_t>(bytes) / sizeof(uint64_t));
                         auto cycles = watch.cycles(
                             kMedian, [&] { return team_->exchange(words, [&] { run.on(memory.get()); }); });
                         if (cycles) *cycles /= bytes;
                         return cycles;
                       }});
  }

  /// Work for each core by its number.
  void add_shared(const char* name, const std::function<std::function<void()>(int core)>& make) {
    std::vector<std::function<void()>> work;
    for (int core = 0; core < team_->cores(); ++core) work.push_back(make(core));
    probes_.push_back({name, kBandwidth, [this, work](Stopwatch&) { return team_->slowdown(work); }});
  }

  const Target& target_;
  std::vector<int> widths_;
  std::vector<ProbeKernel> kernels_;
  std::optional<runtime::SharedObject> object_;
  std::shared_ptr<void> far_ = filled(kFarBytes);
  std::optional<CoreTeam> team_;
  std::vector<Probe> probes_;
};

}  // namespace

std::optional<double> settled(std::vector<double> rounds, double tolerance) {
  if (rounds.size() < 2) return {};
  // Two rounds that agree and are the best: a third that was slower was disturbed, which the others were not.
  // Costs: less is better.
  std::sort(rounds.begin(), rounds.end());
  return rounds[1] <= rounds[0] * (1 + tolerance) ? std::optional(rounds[0]) : std::nullopt;
}

double rounded(double value, int digits) {
  return std::stod(fmt::format("{:.{}g}", value, digits));  // the number that its text means
}

double snapped(double rate, int digits) {
  constexpr double kNear = 0.1;
  const double half = std::round(rate * 2) / 2;
  return half > 0 && std::abs(rate - half) <= kNear * half ? half : rounded(rate, digits);
}

MachineReading measure_machine(const Target& target) {
  constexpr int kLeastRounds = 3;
  constexpr double kMostSeconds = 10;
  const auto start = Clock::now();
  auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  Laboratory laboratory(target);
  Stopwatch watch;
  for (int round = 0;; ++round) {
    bool open = false;
    for (Probe& probe : laboratory.probes()) {
      if (round >= kLeastRounds && probe.cost()) continue;
      if (std::optional<double> cost = probe.round(watch)) probe.rounds.push_back(*cost);
      open |= !probe.cost();
    }
    // On a machine that never comes to rest some numbers stay open; the table's row has them.
    // Ten seconds, since a job waits for this on its first run.
    if (round + 1 >= kLeastRounds && (!open || seconds() > kMostSeconds)) break;
  }
  MachineReading reading{.seconds = seconds(), .disturbed = watch.disturbed()};
  for (const Probe& probe : laboratory.probes()) {
    if (std::optional<double> cost = probe.cost())
      reading.numbers[probe.name] = probe.form.number(*cost);
    else
      reading.unsettled.push_back(probe.name);
  }
  // Not measured by a probe of its own: it is loads a cycle times their width.
  if (auto loads = reading.numbers.find(fmt::format("loads_{}", laboratory.widest()));
      loads != reading.numbers.end())
    reading.numbers["l1_bandwidth"] = loads->second * laboratory.widest() / 8;
  if (const long ways = sysconf(_SC_LEVEL1_DCACHE_ASSOC); ways > 0)
    reading.numbers["l1_ways"] = static_cast<double>(ways);
  return reading;
}

}  // namespace lathe::worker
