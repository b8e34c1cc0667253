#include "workers/doctor.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "core/support/error.h"
#include "core/support/text.h"
#include "workers/confine.h"

namespace lathe::worker {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

class Examination {
 public:
  explicit Examination(std::string root) : root_(std::move(root)) {}

  std::vector<Finding> run(const ForeignLoad& load) {
    governor();
    boost();
    threads_of_cores();
    isolated();
    addresses();
    huge_pages();
    clock();
    quota();
    counters();
    confinement();
    note("other programs", percent(load.busy) + " of the cores",
         load.busy > 0.1 ? Verdict::kBad : Verdict::kGood, "stop them, or measure when they are done");
    note("stolen by the host", percent(load.stolen) + " of the cores",
         load.stolen > 0.02 ? Verdict::kBad : Verdict::kGood, "a machine, or cores, of one's own");
    return std::move(findings_);
  }

 private:
  std::string read(const std::string& path) const { return first_line(root_ + path); }

  void note(const char* check, std::string found, Verdict verdict, std::string fix) {
    if (verdict == Verdict::kGood) fix.clear();
    findings_.push_back({check, std::move(found), verdict, std::move(fix)});
  }
  void untold(const char* check) { note(check, "the system does not say", Verdict::kGood, ""); }

  void governor() {
    std::map<std::string, int> governors;
    for (int cpu = 0;; ++cpu) {
      const std::string folder = fmt::format("/sys/devices/system/cpu/cpu{}", cpu);
      if (!std::filesystem::exists(root_ + folder)) break;
      if (std::string name = read(folder + "/cpufreq/scaling_governor"); !name.empty()) ++governors[name];
    }
    if (governors.empty()) return untold("governor");
    std::vector<std::string> names;
    for (const auto& [name, count] : governors) names.push_back(name);
    const bool fixed = names == std::vector<std::string>{"performance"};
    note("governor", join_text(names, ", "), fixed ? Verdict::kGood : Verdict::kBad,
         "cpupower frequency-set -g performance");
  }

  void boost() {
    const std::string boost = read("/sys/devices/system/cpu/cpufreq/boost"),
                      no_turbo = read("/sys/devices/system/cpu/intel_pstate/no_turbo");
    if (boost.empty() && no_turbo.empty()) return untold("boost");
    const bool on = boost == "1" || no_turbo == "0";
    note("boost", on ? "on: the clock varies with heat and other cores" : "off",
         on ? Verdict::kNote : Verdict::kGood,
         no_turbo.empty() ? "echo 0 > /sys/devices/system/cpu/cpufreq/boost"
                          : "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo");
  }

  void threads_of_cores() {
    const std::string active = read("/sys/devices/system/cpu/smt/active");
    if (active.empty()) return untold("threads of a core");
    note("threads of a core", active == "1" ? "several" : "one",
         active == "1" ? Verdict::kNote : Verdict::kGood, "echo off > /sys/devices/system/cpu/smt/control");
  }

  void isolated() {
    const std::string cpus = read("/sys/devices/system/cpu/isolated");
    note("isolated cores", cpus.empty() ? "none" : cpus, cpus.empty() ? Verdict::kNote : Verdict::kGood,
         "boot with isolcpus=LIST and run with taskset -c LIST");
  }

  void addresses() {
    const std::string random = read("/proc/sys/kernel/randomize_va_space");
    if (random.empty()) return untold("random addresses");
    note("random addresses", random == "0" ? "off" : "on: each process lies elsewhere in the caches",
         random == "0" ? Verdict::kGood : Verdict::kNote, "setarch -R tune ...");
  }

  void huge_pages() {
    const std::string choices = read("/sys/kernel/mm/transparent_hugepage/enabled");
    const size_t open = choices.find('['), close = choices.find(']');
    if (open == std::string::npos || close == std::string::npos) return untold("huge pages");
    const std::string chosen = choices.substr(open + 1, close - open - 1);
    note("huge pages", chosen, chosen == "never" ? Verdict::kNote : Verdict::kGood,
         "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
  }

  void clock() {
    const std::string source = read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    if (source.empty()) return untold("clock");
    const bool slow = source == "hpet" || source == "acpi_pm" || source == "jiffies";
    note("clock", source, slow ? Verdict::kBad : Verdict::kGood, "boot with clocksource=tsc tsc=reliable");
  }

  void quota() {
    std::istringstream limit(read("/sys/fs/cgroup/cpu.max"));
    std::string quota;
    double period = 0;
    limit >> quota >> period;
    if (quota.empty()) return untold("quota");
    const bool none = quota == "max" || period <= 0;
    note("quota",
         none ? "none"
              : fmt::format("{:.2f} cores: threads stand still when it is spent",
                            std::strtod(quota.c_str(), nullptr) / period),
         none ? Verdict::kGood : Verdict::kBad,
         "run outside the control group, or with cpuset instead of a quota");
  }

  void counters() {
    const std::string level = read("/proc/sys/kernel/perf_event_paranoid");
    if (level.empty()) return untold("counters");
    const bool open = std::atoi(level.c_str()) <= 2;
    note("counters", open ? "readable" : "kept from users", open ? Verdict::kGood : Verdict::kNote,
         "sysctl kernel.perf_event_paranoid=2");
  }

  void confinement() {
    const std::string missing = missing_confinement();
    note("sandbox", missing.empty() ? "complete" : "lacks " + missing,
         missing.empty() ? Verdict::kGood : Verdict::kBad, "a newer kernel, or one built with it");
  }

  const std::string root_;
  std::vector<Finding> findings_;
};

/// The first line of /proc/stat: ticks of user, nice, system, idle, iowait, irq, softirq, steal.
std::vector<double> ticks(const std::string& text) {
  std::istringstream stream(text);
  std::string name;
  stream >> name;
  std::vector<double> numbers;
  for (double number; numbers.size() < 8 && stream >> number;) numbers.push_back(number);
  return name == "cpu" && numbers.size() == 8 ? numbers : std::vector<double>();
}

std::string whole(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

double own_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

ForeignLoad foreign_load(const std::string& before, const std::string& after, double own_seconds) {
  std::vector<double> first = ticks(before), last = ticks(after);
  if (first.empty() || last.empty()) return {};
  double all = 0;
  for (size_t i = 0; i < last.size(); ++i) all += last[i] -= first[i];
  if (all <= 0) return {};
  enum { kUser, kNice, kSystem, kIdle, kWait, kInterrupt, kSoft, kSteal };
  const double own = own_seconds * static_cast<double>(sysconf(_SC_CLK_TCK));
  const double busy = all - last[kIdle] - last[kWait] - last[kSteal] - own;
  return {std::clamp(busy / all, 0.0, 1.0), std::clamp(last[kSteal] / all, 0.0, 1.0)};
}

ForeignLoad watch_load(double seconds) {
  const std::string before = whole("/proc/stat");
  const double own = own_seconds();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  return foreign_load(before, whole("/proc/stat"), own_seconds() - own);
}

std::vector<Finding> examine(const std::string& root, const ForeignLoad& load) {
  return Examination(root).run(load);
}

}  // namespace lathe::worker
