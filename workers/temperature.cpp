#include "workers/temperature.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "core/support/error.h"
#include "workers/system_files.h"

namespace lathe::worker {
namespace {

namespace fs = std::filesystem;

/// A driver of processors' sensors (hwmon), and what it calls the one of the whole package.
struct Driver {
  const char *name, *package;  // how the label begins
};
constexpr Driver kDrivers[] = {
    {"coretemp", "Package id"},  // of Intel
    {"k10temp", "Tctl"},         // of AMD: what its fans go by
    {"zenpower", "Tdie"},
};

/// Types of thermal zones that are processors: of Intel, and of boards' device trees.
bool is_processor(const std::string& type) {
  return type == "x86_pkg_temp" || type.starts_with("cpu-thermal") || type.starts_with("cpu_thermal") ||
         type.starts_with("cpu0-thermal") || type.starts_with("soc-thermal") ||
         type.starts_with("soc_thermal");
}

std::vector<fs::path> entries(const std::string& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> package_files(const std::string& root) {
  std::vector<std::string> files;
  for (const fs::path& monitor : entries(root + "/sys/class/hwmon")) {
    const std::string name = first_line(monitor / "name");
    const auto* driver = std::find_if(std::begin(kDrivers), std::end(kDrivers),
                                      [&](const Driver& d) { return name == d.name; });
    if (driver == std::end(kDrivers)) continue;
    for (const fs::path& file : entries(monitor)) {
      const std::string label = file.filename();
      if (label.starts_with("temp") && label.ends_with("_label") &&
          first_line(file).starts_with(driver->package))
        files.push_back(monitor / (label.substr(0, label.size() - 5) + "input"));
    }
  }
  return files;
}

std::vector<std::string> zone_files(const std::string& root) {
  std::vector<std::string> files;
  for (const fs::path& zone : entries(root + "/sys/class/thermal"))
    if (is_processor(first_line(zone / "type"))) files.push_back(zone / "temp");
  return files;
}

}  // namespace

ProcessorSensors::ProcessorSensors(const std::string& root) : files_(package_files(root)) {
  if (files_.empty()) files_ = zone_files(root);
}

std::optional<double> ProcessorSensors::celsius() const {
  std::optional<double> hottest;
  for (const std::string& file : files_) {
    const std::string line = first_line(file);
    int thousandths = 0;
    // A sensor that has gone to sleep answers with an error, which reads as nothing.
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), thousandths);
    // Those that are not wired say 0 or far below; no processor at work is that cold.
    if (error == std::errc() && end == line.data() + line.size() && thousandths > 0 && thousandths < 200'000)
      hottest = std::max(hottest.value_or(0), thousandths / 1000.0);
  }
  return hottest;
}

}  // namespace lathe::worker
