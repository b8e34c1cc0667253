// The state of this machine's GPUs, as their drivers tell it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lathe::worker {

struct Gpu {
  std::string name;
  double now_mhz = 0, most_mhz = 0;  // of the processors, not of memory
  bool held = false;           // at a clock that somebody chose; false also where the driver does not tell
  std::string slowed;          // by what, beside idleness and what was chosen; "": nothing
  std::string fix;             // the command that holds them
  std::optional<double> busy;  // share of about the last second in which it computed; not told by all drivers
};

/// Of NVIDIA's GPUs by NVML, which comes with their driver, and of AMD's by the files of theirs below `root`.
/// Empty where there is neither. Never fails: a GPU that its driver cannot ask is left out.
std::vector<Gpu> gpus(const std::string& root, const std::string& nvml_library);

/// The clock of one GPU's processors, for whoever asks again and again.
class GpuClock {
 public:
  explicit GpuClock(std::string name) : name_(std::move(name)) {}
  virtual ~GpuClock() = default;
  /// Now; 0 when the driver does not tell.
  virtual double hz() const = 0;
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

enum class GpuDriver : uint8_t { kNvidia, kAmd };

/// Of the first GPU whose clock this driver tells; nullptr where there is none.
std::unique_ptr<GpuClock> gpu_clock(GpuDriver driver, const std::string& root,
                                    const std::string& nvml_library);

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

}  // namespace lathe::worker
