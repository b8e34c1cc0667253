#include "workers/disturbance.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <set>
#include <sstream>
#include <string>

#include "workers/system_files.h"

namespace lathe::worker {
namespace {

constexpr double kSlow = 1.05;  // times the best canary

// Some 5 us at 3 GHz: a multiplication and an addition are 4 cycles, and each waits for the last.
double canary_loop() {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  uint64_t x = 1;
  for (int i = 0; i < 4000; ++i) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    asm volatile("" : "+r"(x));  // each step, one after the other
  }
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class SystemLoad final : public LoadProbe {
 public:
  LoadReading read() override {
    LoadReading reading{.canary = std::numeric_limits<double>::infinity()};
    // The best of three: what one interrupt delays is not the load that is looked for.
    for (int i = 0; i < 3; ++i) reading.canary = std::min(reading.canary, canary_loop());
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);  // the process has no threads but the measurement's
    reading.switches = usage.ru_nivcsw;
    return reading;
  }
};

}  // namespace

std::unique_ptr<LoadProbe> system_load() { return std::make_unique<SystemLoad>(); }

double best_load_canary() {
  const std::unique_ptr<LoadProbe> load = system_load();
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 20; ++i) best = std::min(best, load->read().canary);
  return best;
}

LoadReading LoadWatch::read() {
  const LoadReading reading = probe_.read();
  // The best ever is what an idle core at this clock takes.
  if (best_ == 0 || reading.canary < best_) best_ = reading.canary;
  worst_ = std::max(worst_, reading.canary);
  return reading;
}

void LoadWatch::begin() { before_ = read(); }

bool LoadWatch::end() {
  const LoadReading after = read();
  const bool disturbed =
      // Somebody else had the core meanwhile; or had it, or its clock, just before or after.
      after.switches > before_.switches || std::max(before_.canary, after.canary) > kSlow * best_;
  ++taken_;
  disturbed_ += disturbed;
  return disturbed;
}

wire::Disturbance LoadWatch::seen() const {
  return {.taken = taken_, .disturbed = disturbed_, .canary = best_ > 0 ? worst_ / best_ : 0};
}

double stolen_seconds(std::string_view proc_stat, std::span<const int> cpus) {
  std::set<std::string> names;
  for (int cpu : cpus) names.insert("cpu" + std::to_string(cpu));
  std::istringstream lines{std::string(proc_stat)};
  double ticks = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    // "cpu" alone is the sum over all.
    if (!names.contains(name)) continue;
    double value = 0;
    // user nice system idle iowait irq softirq steal
    for (int column = 0; column < 8; ++column)
      if (!(words >> value)) value = 0;
    ticks += value;
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double stolen_seconds(std::span<const int> cpus) { return stolen_seconds(whole_text("/proc/stat"), cpus); }

}  // namespace lathe::worker
