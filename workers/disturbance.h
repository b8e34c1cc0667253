// Whether something else ran on the cores of a measurement while it was timed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "tracker/wire/wire.h"

namespace lathe::worker {

/// What can be read of a machine's load between two samples, in microseconds.
struct LoadReading {
  int64_t switches = 0;  // involuntary, of all threads of this process so far: another process took a core
  double canary = 0;     // seconds that a short loop of fixed arithmetic takes now
};

/// Reads the load: the system's (system_load), or a fake in tests.
class LoadProbe {
 public:
  virtual ~LoadProbe() = default;
  virtual LoadReading read() = 0;
};

/// The canary is the fastest of three loops of some 5 us each, so that a timer's interrupt is not taken for
/// load: it sees a clock that is lower, a core whose other hardware thread is busy, and a virtual core that
/// is not running.
std::unique_ptr<LoadProbe> system_load();

/// The least of its canaries in a third of a millisecond.
double best_load_canary();

/// Judges each sample by the readings around it: disturbed when a thread was switched out, or when a canary
/// took over 5% longer than the best known.
class LoadWatch {
 public:
  /// `best_canary`: of a process that ran no candidate (best_load_canary); 0: none known. REQUIRES: the probe
  /// outlives this.
  LoadWatch(LoadProbe& probe, double best_canary) : probe_(probe), best_(best_canary) {}

  /// Right before a sample, and right after it; the latter says whether it was disturbed.
  void begin();
  bool end();

  double best_canary() const { return best_; }
  wire::Disturbance seen() const;

 private:
  LoadReading read();

  LoadProbe& probe_;
  double best_, worst_ = 0;
  LoadReading before_;
  uint32_t taken_ = 0, disturbed_ = 0;
};

/// Seconds that the host of a virtual machine gave to others when these cpus were to run, since boot, from
/// the text of /proc/stat; 0 for cpus that it does not have.
double stolen_seconds(std::string_view proc_stat, std::span<const int> cpus);
/// Of this machine.
double stolen_seconds(std::span<const int> cpus);

}  // namespace lathe::worker
