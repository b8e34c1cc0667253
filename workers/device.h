// What machine this is, and what it can do at most.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tir/machine.h"

namespace lathe::worker {

struct CacheLevel {
  int level = 1;
  int64_t bytes = 0;
  int64_t line_bytes = 64;
};

/// What a measurement depends on. `host`, `model`, `architecture`, `features` and `cores` make a device the
/// same device; the rest is as found now.
struct DeviceInfo {
  std::string host, model, architecture;
  std::vector<std::string> features;  // sorted
  int cores = 1;                      // that this process may use
  int64_t memory_bytes = 0;
  std::vector<CacheLevel> caches;  // data and unified ones of the first core
  std::string kernel;              // the system's name and release
  std::string governor;  // of the first core; "" when the machine does not say (virtual ones do not)
  bool simultaneous_threads = false;
  std::string target, machine;  // what it compiles for, and the numbers measured of it (core/tir/machine.h)
  MachineLimits limits_core, limits;  // by these, of one core and of all; 0 when nothing was measured
  std::string revision;  // of this program, which builds what is measured; filled in by whoever knows
};

/// Never fails: what the system does not tell stays empty, and nothing is measured.
DeviceInfo probe_device();

/// One JSON object, the form on the wire and in the database.
std::string to_json(const DeviceInfo& device);

/// What `threads` threads of the device of such JSON can do at most: measured for one and for all of its
/// cores, in proportion between. Nothing when the device was not measured or the text is none of ours.
std::optional<MachineLimits> limits_of(std::string_view device_json, int threads);

}  // namespace lathe::worker
