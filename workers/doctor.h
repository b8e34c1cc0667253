// Whether this machine is fit to measure on, and what to do where it is not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workers/gpus.h"

namespace lathe::worker {

enum class Verdict : uint8_t {
  kGood,
  kNote,     // measurements vary more than they have to
  kBad,      // they say little
  kUnknown,  // the system does not say
};
constexpr const char* to_string(Verdict verdict) {
  constexpr const char* kNames[] = {"good", "note", "bad", "unknown"};  // by Verdict
  return kNames[static_cast<size_t>(verdict)];
}

struct Finding {
  std::string check, found;
  Verdict verdict = Verdict::kGood;
  std::string fix;  // a command or what else to do; "" when there is nothing to
};

/// Shares of the time of all cores, 0 to 1.
struct ForeignLoad {
  double busy = 0;    // with other programs
  double stolen = 0;  // the host of a virtual machine ran others
};

/// Of two texts of /proc/stat, and the seconds of CPU that this process used in between. Nothing when they
/// are no such texts, or no time passed.
std::optional<ForeignLoad> foreign_load(const std::string& before, const std::string& after,
                                        double own_seconds);

/// Watches this machine for so long. Nothing where it does not tell.
std::optional<ForeignLoad> watch_load(double seconds);

/// What the system tells of itself below `root`: clocks and load of GPUs, threads of cores, interrupts of
/// others. Never fails: what it does not tell is said to be unknown.
std::vector<Finding> examine(const std::string& root, const std::optional<ForeignLoad>& load,
                             const std::string& nvml_library = kNvmlLibrary);

}  // namespace lathe::worker
