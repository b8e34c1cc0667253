#include "workers/gpus.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>

#include "core/support/error.h"
#include "core/support/text.h"
#include "workers/system_files.h"

namespace lathe::worker {
namespace {

namespace fs = std::filesystem;

// ---- NVIDIA

/// What of NVML is called; its headers are not needed to build, nor is it to run. Names and numbers are those
/// of its API reference, where a result of 0 is success.
class Nvml {
 public:
  struct Device {
    unsigned number;  // nvidia-smi's as well
    std::string name;
    void* handle;
  };

  explicit Nvml(const std::string& library)
      : library_(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL), [](void* handle) {
          if (handle) dlclose(handle);
        }) {
    started_ = call<int()>("nvmlInit_v2");
  }
  ~Nvml() {
    if (started_) call<int()>("nvmlShutdown");
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::vector<Device> devices() const {
    std::vector<Device> devices;
    unsigned count = 0;
    if (!started_ || !call<int(unsigned*)>("nvmlDeviceGetCount_v2", &count)) return devices;
    for (unsigned i = 0; i < count; ++i) {
      void* handle = nullptr;
      char name[96] = "";  // NVML_DEVICE_NAME_V2_BUFFER_SIZE
      if (!call<int(unsigned, void**)>("nvmlDeviceGetHandleByIndex_v2", i, &handle)) continue;
      call<int(void*, char*, unsigned)>("nvmlDeviceGetName", handle, name, unsigned{sizeof name});
      devices.push_back({i, name, handle});
    }
    return devices;
  }
  double clock(const char* function, const Device& device) const {
    constexpr int kProcessors = 1;  // NVML_CLOCK_SM
    unsigned megahertz = 0;
    return call<int(void*, int, unsigned*)>(function, device.handle, kProcessors, &megahertz) ? megahertz : 0;
  }
  std::optional<double> busy(const Device& device) const {
    // nvmlUtilization_t, in percent
    struct {
      unsigned processors, memory;
    } used{};
    if (!call<int(void*, void*)>("nvmlDeviceGetUtilizationRates", device.handle, static_cast<void*>(&used)))
      return std::nullopt;
    return used.processors / 100.0;
  }
  unsigned long long reasons(const Device& device) const {
    unsigned long long reasons = 0;
    call<int(void*, unsigned long long*)>("nvmlDeviceGetCurrentClocksThrottleReasons", device.handle,
                                          &reasons);
    return reasons;
  }

 private:
  /// Whether the library has the function, and it succeeded.
  template <typename Function, typename... Arguments>
  bool call(const char* function, Arguments... arguments) const {
    auto* found = library_ ? reinterpret_cast<Function*>(dlsym(library_.get(), function)) : nullptr;
    return found && found(arguments...) == 0;
  }

  std::unique_ptr<void, void (*)(void*)> library_;
  bool started_ = false;
};

class NvidiaClock final : public GpuClock {
 public:
  NvidiaClock(std::unique_ptr<const Nvml> nvml, Nvml::Device device)
      : GpuClock(device.name), nvml_(std::move(nvml)), device_(std::move(device)) {}
  double hz() const override { return 1e6 * nvml_->clock("nvmlDeviceGetClockInfo", device_); }

 private:
  std::unique_ptr<const Nvml> nvml_;
  Nvml::Device device_;
};

std::unique_ptr<GpuClock> nvidia_clock(const std::string& library) {
  auto nvml = std::make_unique<const Nvml>(library);
  for (const Nvml::Device& device : nvml->devices())
    if (nvml->clock("nvmlDeviceGetClockInfo", device) > 0)
      return std::make_unique<NvidiaClock>(std::move(nvml), device);
  return nullptr;
}

constexpr unsigned long long kChosen = 0x2;  // nvmlClocksThrottleReasonApplicationsClocksSetting
struct Reason {
  unsigned long long bit;
  const char* text;
};
// Idleness (0x1) is none: whoever measures is not idle.
constexpr Reason kReasons[] = {
    {0x4, "its power limit"}, {0x8, "its hardware"}, {0x10, "the slowest of a group"},
    {0x20, "heat"},           {0x40, "heat"},        {0x80, "the power supply"},
    {0x100, "a display"}};

std::vector<Gpu> nvidia_gpus(const std::string& library) {
  std::vector<Gpu> all;
  const Nvml nvml(library);
  for (const Nvml::Device& device : nvml.devices()) {
    Gpu gpu{device.name, nvml.clock("nvmlDeviceGetClockInfo", device),
            nvml.clock("nvmlDeviceGetMaxClockInfo", device)};
    if (gpu.now_mhz <= 0 || gpu.most_mhz <= 0) continue;
    const unsigned long long reasons = nvml.reasons(device);
    gpu.held = (reasons & kChosen) != 0;
    std::vector<std::string> slowed;
    for (const Reason& reason : kReasons)
      if ((reasons & reason.bit) && std::find(slowed.begin(), slowed.end(), reason.text) == slowed.end())
        slowed.emplace_back(reason.text);
    gpu.slowed = join_text(slowed, ", ");
    // The driver rounds to a clock that there is. Below the most, which a warm board does not keep, and below
    // what it has come down to: products of bfloat16 at its power limit held an H100 at two thirds.
    double kept = 0.75 * gpu.most_mhz;
    if (!gpu.slowed.empty()) kept = std::min(kept, 0.9 * gpu.now_mhz);
    gpu.fix = fmt::format("nvidia-smi -i {} -lgc {:.0f}", device.number, kept);
    gpu.busy = nvml.busy(device);
    all.push_back(std::move(gpu));
  }
  return all;
}

// ---- AMD

/// Of lines such as "1: 1900Mhz *", where the star is at the level that is in force.
void read_levels(const std::string& text, Gpu& gpu) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    const double megahertz = colon == std::string::npos ? 0 : std::atof(line.c_str() + colon + 1);
    gpu.most_mhz = std::max(gpu.most_mhz, megahertz);
    if (line.find('*') != std::string::npos) gpu.now_mhz = megahertz;
  }
}

/// The folders of AMD's cards, in the order of their numbers.
std::vector<std::string> amd_folders(const std::string& root) {
  std::vector<std::pair<int, std::string>> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(root + "/sys/class/drm", error)) {
    const std::string card = entry.path().filename();
    // "card0-HDMI-A-1" is a connector.
    if (!card.starts_with("card") || card.find_first_not_of("0123456789", 4) != std::string::npos) continue;
    found.emplace_back(std::atoi(card.c_str() + 4), fmt::format("/sys/class/drm/{}/device", card));
  }
  // A folder lists its files in any order.
  std::sort(found.begin(), found.end());
  std::vector<std::string> folders;
  for (auto& [number, folder] : found) folders.push_back(std::move(folder));
  return folders;
}

constexpr const char* kAmdClock = "/pp_dpm_sclk";

/// Without a clock where the driver tells none.
Gpu amd_gpu(const std::string& root, const std::string& folder) {
  Gpu gpu{.name = first_line(root + folder + "/product_name")};
  if (gpu.name.empty()) gpu.name = fs::path(folder).parent_path().filename();
  read_levels(whole_text(root + folder + kAmdClock), gpu);
  return gpu;
}

std::vector<Gpu> amd_gpus(const std::string& root) {
  std::vector<Gpu> all;
  for (const std::string& folder : amd_folders(root)) {
    Gpu gpu = amd_gpu(root, folder);
    if (gpu.now_mhz <= 0) continue;
    const std::string level = first_line(root + folder + "/power_dpm_force_performance_level");
    gpu.held = !level.empty() && level != "auto";
    if (const std::string busy = first_line(root + folder + "/gpu_busy_percent"); !busy.empty())
      gpu.busy = std::atof(busy.c_str()) / 100;
    gpu.fix = fmt::format("echo profile_standard > {}/power_dpm_force_performance_level", folder);
    all.push_back(std::move(gpu));
  }
  return all;
}

class AmdClock final : public GpuClock {
 public:
  AmdClock(std::string name, std::string file) : GpuClock(std::move(name)), file_(std::move(file)) {}
  double hz() const override {
    Gpu gpu;
    read_levels(whole_text(file_), gpu);
    return 1e6 * gpu.now_mhz;
  }

 private:
  std::string file_;
};

std::unique_ptr<GpuClock> amd_clock(const std::string& root) {
  for (const std::string& folder : amd_folders(root))
    if (const Gpu gpu = amd_gpu(root, folder); gpu.now_mhz > 0)
      return std::make_unique<AmdClock>(gpu.name, root + folder + kAmdClock);
  return nullptr;
}

}  // namespace

std::vector<Gpu> gpus(const std::string& root, const std::string& nvml_library) {
  std::vector<Gpu> all = nvidia_gpus(nvml_library);
  for (Gpu& gpu : amd_gpus(root)) all.push_back(std::move(gpu));
  return all;
}

std::unique_ptr<GpuClock> gpu_clock(GpuDriver driver, const std::string& root,
                                    const std::string& nvml_library) {
  return driver == GpuDriver::kNvidia ? nvidia_clock(nvml_library) : amd_clock(root);
}

}  // namespace lathe::worker
