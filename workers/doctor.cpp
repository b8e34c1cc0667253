#include "workers/doctor.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>

#include "core/runtime/cores.h"
#include "core/support/error.h"
#include "core/support/text.h"
#include "workers/confine.h"
#include "workers/instruction_counter.h"
#include "workers/system_files.h"

namespace lathe::worker {
namespace {

constexpr const char* kUntold = "the system does not say";

constexpr Verdict note_if(bool is_so) { return is_so ? Verdict::kNote : Verdict::kGood; }
constexpr Verdict bad_if(bool is_so) { return is_so ? Verdict::kBad : Verdict::kGood; }

struct Judgement {
  std::string found;
  Verdict verdict = Verdict::kGood;
};

/// A line of one file and what it means; of several rows of one check the first whose file exists counts.
struct Check {
  const char *name, *path;
  Judgement (*judge)(const std::string& line);
  const char* fix;
};

Judgement boost(bool on) {
  return {on ? "on: the clock varies with heat and other cores" : "off", note_if(on)};
}

/// The choice in brackets: "always [madvise] never".
std::string chosen(const std::string& choices) {
  const size_t open = choices.find('['), close = choices.find(']');
  return open == std::string::npos || close < open ? choices : choices.substr(open + 1, close - open - 1);
}

constexpr Check kChecks[] = {
    {"boost", "/sys/devices/system/cpu/cpufreq/boost",
     [](const std::string& line) { return boost(line == "1"); },
     "echo 0 > /sys/devices/system/cpu/cpufreq/boost"},
    {"boost", "/sys/devices/system/cpu/intel_pstate/no_turbo",
     [](const std::string& line) { return boost(line == "0"); },
     "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo"},
    {"threads of a core", "/sys/devices/system/cpu/smt/active",
     [](const std::string& line) {
       return Judgement{line == "1" ? "several" : "one", note_if(line == "1")};
     },
     "echo off > /sys/devices/system/cpu/smt/control"},
    {"random addresses", "/proc/sys/kernel/randomize_va_space",
     [](const std::string& line) {
       const bool on = line != "0";
       return Judgement{on ? "on: each process lies elsewhere in the caches" : "off", note_if(on)};
     },
     "setarch -R tune ..."},
    {"huge pages", "/sys/kernel/mm/transparent_hugepage/enabled",
     [](const std::string& line) {
       return Judgement{chosen(line), note_if(chosen(line) == "never")};
     },
     "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"},
    {"clock", "/sys/devices/system/clocksource/clocksource0/current_clocksource",
     [](const std::string& line) {
       // Read by a call of the system from a slow device, in a microsecond; jiffies count milliseconds.
       return Judgement{line, bad_if(line == "hpet" || line == "acpi_pm" || line == "jiffies")};
     },
     "boot with clocksource=tsc tsc=reliable"},
};

class Examination {
 public:
  Examination(std::string root, std::string nvml_library)
      : root_(std::move(root)), nvml_library_(std::move(nvml_library)) {}

  std::vector<Finding> run(const std::optional<ForeignLoad>& load) {
    governor();
    for (const Check& check : kChecks) judge(check);
    isolated();
    quota();
    of_gpus();
    counters();
    const std::string missing = missing_confinement();
    add("sandbox", {missing.empty() ? "complete" : "lacks " + missing, bad_if(!missing.empty())},
        "a newer kernel, or one built with it");
    load_of("other programs", load, &ForeignLoad::busy, 0.1, "stop them, or measure when they are done");
    load_of("stolen by the host", load, &ForeignLoad::stolen, 0.02, "a machine, or cores, of one's own");
    return std::move(findings_);
  }

 private:
  static std::string share(double of_the_cores) {
    return fmt::format("{:.1f}% of the cores", 100 * of_the_cores);
  }

  void add(const char* check, Judgement judgement, const std::string& fix) {
    findings_.push_back({check, std::move(judgement.found), judgement.verdict,
                         judgement.verdict == Verdict::kGood ? "" : fix});
  }
  void add_untold(const char* check) { add(check, {kUntold, Verdict::kUnknown}, ""); }

  void judge(const Check& check) {
    // The row before was of the same check: its file was there, or the system has not that one.
    const bool again = !findings_.empty() && findings_.back().check == check.name;
    if (again && findings_.back().found != kUntold) return;
    const std::string line = first_line(root_ + check.path);
    if (line.empty()) {
      if (!again) add_untold(check.name);
      return;
    }
    if (again) findings_.pop_back();
    add(check.name, check.judge(line), check.fix);
  }

  void governor() {
    std::map<std::string, int> governors;
    // Cores that are switched off have a folder, too, but no governor.
    for (int cpu = 0;; ++cpu) {
      const std::string folder = fmt::format("{}/sys/devices/system/cpu/cpu{}", root_, cpu);
      if (!std::filesystem::exists(folder)) break;
      if (std::string name = first_line(folder + "/cpufreq/scaling_governor"); !name.empty())
        ++governors[name];
    }
    if (governors.empty()) return add_untold("governor");
    std::vector<std::string> names;
    for (const auto& [name, count] : governors) names.push_back(name);
    add("governor", {join_text(names, ", "), bad_if(names != std::vector<std::string>{"performance"})},
        "cpupower frequency-set -g performance");
  }

  void load_of(const char* check, const std::optional<ForeignLoad>& load, double ForeignLoad::*part,
               double most, const char* fix) {
    if (!load) return add_untold(check);
    add(check, {share((*load).*part), bad_if((*load).*part > most)}, fix);
  }

  /// No line means that there are none.
  void isolated() {
    const std::string file = root_ + "/sys/devices/system/cpu/isolated";
    if (!std::filesystem::exists(file)) return add_untold("isolated cores");
    const std::string cpus = first_line(file);
    add("isolated cores", {cpus.empty() ? "none" : cpus, note_if(cpus.empty())},
        "boot with isolcpus=LIST and run with taskset -c LIST");
  }

  void quota() {
    // Empty where the kernel knows no control groups: such a file has no line, and no process a quota.
    const std::string file = root_ + "/proc/self/cgroup";
    if (!std::filesystem::exists(file)) return add_untold("quota");
    const double cores = runtime::cgroup_core_limit(whole_text(file), root_ + "/sys/fs/cgroup");
    add("quota",
        {cores > 0 ? fmt::format("{:.2f} cores: threads stand still when it is spent", cores) : "none",
         bad_if(cores > 0)},
        "run outside the control group, or with cpuset instead of a quota");
  }

  /// One is opened, as a gate will: a virtual machine may have none whatever the system would allow.
  void counters() {
    const std::string missing = InstructionCounter().missing();
    add("counters", {missing.empty() ? "readable" : missing, note_if(!missing.empty())}, "");
  }

  /// A line each of the clocks, and of the load.
  void of_gpus() {
    constexpr const char *kClocks = "GPU clocks", *kLoad = "GPU load";
    const std::vector<Gpu> all = gpus(root_, nvml_library_);
    if (all.empty()) add(kClocks, {"none: no GPU that its driver tells of"}, "");
    for (const Gpu& gpu : all) {
      const std::string slowed = gpu.slowed.empty() ? "" : ", slowed by " + gpu.slowed;
      const std::string held = gpu.held ? ", held" : ", not known to be held";
      add(kClocks,
          {fmt::format("{}: {:.0f} of {:.0f} MHz{}", gpu.name, gpu.now_mhz, gpu.most_mhz,
                       slowed.empty() ? held : slowed),
           slowed.empty() ? note_if(!gpu.held) : Verdict::kBad},
          gpu.fix);
    }
    for (const Gpu& gpu : all)
      if (gpu.busy)
        add(kLoad,
            {fmt::format("{}: {:.0f}% of the time", gpu.name, 100 * *gpu.busy), bad_if(*gpu.busy > 0.05)},
            "stop what computes there, or measure when it is done");
  }

  const std::string root_, nvml_library_;
  std::vector<Finding> findings_;
};

/// The first line of /proc/stat: ticks of user, nice, system, idle, iowait, irq, softirq, steal. The two of
/// guests that follow are in user and nice already (proc(5)).
std::vector<double> ticks(const std::string& text) {
  std::istringstream stream(text);
  std::string name;
  stream >> name;
  std::vector<double> numbers;
  for (double number; numbers.size() < 8 && stream >> number;) numbers.push_back(number);
  return name == "cpu" && numbers.size() == 8 ? numbers : std::vector<double>();
}

}  // namespace

std::optional<ForeignLoad> foreign_load(const std::string& before, const std::string& after,
                                        double own_seconds) {
  std::vector<double> first = ticks(before), last = ticks(after);
  if (first.empty() || last.empty()) return std::nullopt;
  double all = 0;
  for (size_t i = 0; i < last.size(); ++i) all += last[i] -= first[i];
  // The clock of the ticks stood still, or was set back.
  if (all <= 0) return std::nullopt;
  enum { kUser, kNice, kSystem, kIdle, kWait, kInterrupt, kSoft, kSteal };
  const double own = own_seconds * static_cast<double>(sysconf(_SC_CLK_TCK));
  // Waiting for a disk leaves the core free; what the host took is told apart.
  const double busy = all - last[kIdle] - last[kWait] - last[kSteal] - own;
  return ForeignLoad{std::clamp(busy / all, 0.0, 1.0), std::clamp(last[kSteal] / all, 0.0, 1.0)};
}

std::optional<ForeignLoad> watch_load(double seconds) {
  const std::string before = whole_text("/proc/stat");
  // What this process does itself is nobody else's load.
  const std::clock_t own = std::clock();  // of the processor's time of this process
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  return foreign_load(before, whole_text("/proc/stat"),
                      static_cast<double>(std::clock() - own) / CLOCKS_PER_SEC);
}

std::vector<Finding> examine(const std::string& root, const std::optional<ForeignLoad>& load,
                             const std::string& nvml_library) {
  return Examination(root, nvml_library).run(load);
}

}  // namespace lathe::worker
