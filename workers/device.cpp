#include "workers/device.h"

#include <sched.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/support/bounded_json.h"
#include "core/support/error.h"
#include "core/support/text.h"
#include "workers/system_files.h"

namespace lathe::worker {
namespace {

/// The value of the first line "key : value" of /proc/cpuinfo with one of these keys.
std::string cpuinfo(const std::set<std::string>& keys) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    if (keys.contains(key)) return colon + 2 <= line.size() ? line.substr(colon + 2) : "";
  }
  return "";
}

/// "2048K" in bytes.
int64_t parse_size(const std::string& text) {
  std::istringstream stream(text);
  int64_t number = 0;
  char unit = 0;
  stream >> number >> unit;
  // Sizes in /sys end with K on all machines so far; the others cost nothing.
  return number << (unit == 'K' ? 10 : unit == 'M' ? 20 : unit == 'G' ? 30 : 0);
}

std::vector<CacheLevel> probe_caches() {
  std::vector<CacheLevel> caches;
  for (int i = 0;; ++i) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i);
    const std::string type = first_line(folder + "type");
    // The first number without a folder ends the list.
    if (type.empty()) return caches;
    if (type == "Instruction") continue;
    caches.push_back({.level = atoi(first_line(folder + "level").c_str()),
                      .bytes = parse_size(first_line(folder + "size")),
                      .line_bytes = atoi(first_line(folder + "coherency_line_size").c_str())});
  }
}

int usable_cores() {
  // Those that this process may use, not those that there are: it may be one of several in a machine.
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace

DeviceInfo probe_device() {
  DeviceInfo device;
  utsname system{};
  uname(&system);
  device.host = system.nodename;
  device.architecture = system.machine;
  device.kernel = fmt::format("{} {}", system.sysname, system.release);
  // x86, boards, RISC-V and other ARM machines say it under different keys.
  device.model = cpuinfo({"model name", "Model", "uarch", "CPU part"});
  device.features = split_text(cpuinfo({"flags", "Features", "isa"}), ' ');
  std::sort(device.features.begin(), device.features.end());
  device.cores = usable_cores();
  struct sysinfo memory {};
  if (sysinfo(&memory) == 0) device.memory_bytes = static_cast<int64_t>(memory.totalram) * memory.mem_unit;
  device.caches = probe_caches();
  device.governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  device.simultaneous_threads = first_line("/sys/devices/system/cpu/smt/active") == "1";
  return device;
}

std::string to_json(const DeviceInfo& device) {
  nlohmann::json json = {{"host", device.host},
                         {"model", device.model},
                         {"architecture", device.architecture},
                         {"features", device.features},
                         {"cores", device.cores},
                         {"memory_bytes", device.memory_bytes},
                         {"kernel", device.kernel},
                         {"governor", device.governor},
                         {"simultaneous_threads", device.simultaneous_threads},
                         {"revision", device.revision},
                         {"caches", nlohmann::json::array()}};
  for (const CacheLevel& cache : device.caches)
    json["caches"].push_back(
        {{"level", cache.level}, {"bytes", cache.bytes}, {"line_bytes", cache.line_bytes}});
  // Nothing is better than zeros, which a reader would divide by.
  if (device.limits.flops > 0) {
    json["target"] = device.target;
    json["machine"] = device.machine;
    json["peak_flops_core"] = device.limits_core.flops;
    json["peak_flops"] = device.limits.flops;
    json["memory_bandwidth_core"] = device.limits_core.bandwidth;
    json["memory_bandwidth"] = device.limits.bandwidth;
  }
  return json_line(json);
}

std::optional<MachineLimits> limits_of(std::string_view device_json, int threads) {
  const auto json = nlohmann::json::parse(device_json, nullptr, /*allow_exceptions=*/false);
  const auto number = [&](const char* key) {
    return json.is_object() && json.contains(key) && json[key].is_number() ? json[key].get<double>() : 0;
  };
  const MachineLimits core{number("peak_flops_core"), number("memory_bandwidth_core")},
      all{number("peak_flops"), number("memory_bandwidth")};
  if (!(core.flops > 0 && core.bandwidth > 0 && all.flops > 0 && all.bandwidth > 0) || threads < 1) return {};
  // Of memory some cores together take all there is.
  return MachineLimits{std::min(threads * core.flops, all.flops),
                       std::min(threads * core.bandwidth, all.bandwidth)};
}

}  // namespace lathe::worker
