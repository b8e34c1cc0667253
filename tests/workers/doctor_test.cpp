#include "workers/doctor.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "core/support/error.h"
#include "core/support/temporary_folder.h"
#include "workers/instruction_counter.h"

namespace lathe::worker {
namespace {

// This machine's GPUs are none of a test's.
constexpr const char* kNoLibrary = "no-such-library.so.1";

/// A system of files as a test wants it.
class Doctor : public testing::Test {
 protected:
  void put(const std::string& path, const std::string& line) {
    const std::filesystem::path file = folder_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << line << "\n";
  }
  Finding finding(const std::string& check, const std::optional<ForeignLoad>& load = ForeignLoad{}) {
    for (const Finding& found : examine(folder_.path(), load, kNoLibrary))
      if (found.check == check) return found;
    fail("no check {}", check);
  }
  TemporaryFolder folder_;
};

TEST_F(Doctor, SaysWhatASystemDoesNotTell) {
  for (const Finding& found : examine(folder_.path(), {}, kNoLibrary)) {
    if (found.check == "counters") continue;  // what this process can open, of no file
    // Asked of the kernel, or of libraries, by no file.
    const bool is_told = found.check == "sandbox" || found.check == "GPU clocks";
    EXPECT_EQ(found.verdict, is_told ? Verdict::kGood : Verdict::kUnknown)
        << found.check << ": " << found.found;
    EXPECT_EQ(found.fix, "") << found.check;
  }
  EXPECT_EQ(finding("governor").found, "the system does not say");
  put("/sys/devices/system/cpu/isolated", "");
  EXPECT_EQ(finding("isolated cores").found, "none");
  EXPECT_EQ(finding("isolated cores").verdict, Verdict::kNote);
}

TEST_F(Doctor, KnowsClocksThatVary) {
  put("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance");
  put("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave");
  EXPECT_EQ(finding("governor").found, "performance, powersave");
  EXPECT_EQ(finding("governor").verdict, Verdict::kBad);
  EXPECT_EQ(finding("governor").fix, "cpupower frequency-set -g performance");
  put("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance");
  EXPECT_EQ(finding("governor").verdict, Verdict::kGood);
  EXPECT_EQ(finding("boost").found, "the system does not say");
  put("/sys/devices/system/cpu/intel_pstate/no_turbo", "0");
  EXPECT_EQ(finding("boost").verdict, Verdict::kNote);
  EXPECT_EQ(finding("boost").fix, "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo");
  put("/sys/devices/system/cpu/cpufreq/boost", "0");
  EXPECT_EQ(finding("boost").found, "off") << "of two files the first row's counts";
  put("/sys/devices/system/clocksource/clocksource0/current_clocksource", "acpi_pm");
  EXPECT_EQ(finding("clock").verdict, Verdict::kBad);
}

TEST_F(Doctor, KnowsWhatElseDisturbs) {
  put("/sys/devices/system/cpu/smt/active", "1");
  EXPECT_EQ(finding("threads of a core").found, "several");
  put("/proc/sys/kernel/randomize_va_space", "2");
  EXPECT_EQ(finding("random addresses").verdict, Verdict::kNote);
  put("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]");
  EXPECT_EQ(finding("huge pages").found, "never");
  put("/proc/self/cgroup", "0::/service/tune");
  put("/sys/fs/cgroup/service/cpu.max", "150000 100000");
  EXPECT_EQ(finding("quota").found, "1.50 cores: threads stand still when it is spent");
  EXPECT_EQ(finding("quota").verdict, Verdict::kBad);
  put("/sys/fs/cgroup/service/cpu.max", "max 100000");
  EXPECT_EQ(finding("quota").verdict, Verdict::kGood);
  EXPECT_EQ(finding("other programs", ForeignLoad{.busy = 0.5}).verdict, Verdict::kBad);
  EXPECT_EQ(finding("stolen by the host", ForeignLoad{.stolen = 0.25}).found, "25.0% of the cores");
}

TEST_F(Doctor, SaysOfCountersWhatAGateWillFind) {
  // What the system allows says nothing of a virtual machine that has none.
  put("/proc/sys/kernel/perf_event_paranoid", "1");
  const std::string missing = InstructionCounter().missing();
  EXPECT_EQ(finding("counters").found, missing.empty() ? "readable" : missing);
  EXPECT_EQ(finding("counters").verdict, missing.empty() ? Verdict::kGood : Verdict::kNote);
}

class DoctorOfGpus : public Doctor {
 protected:
  ~DoctorOfGpus() override { unsetenv("NVIDIA_FAKE_0"), unsetenv("NVIDIA_FAKE_2"); }
  std::vector<Finding> gpus(const char* library, const std::string& check = "GPU clocks") {
    std::vector<Finding> found = examine(folder_.path(), {}, library);
    std::erase_if(found, [&](const Finding& finding) { return finding.check != check; });
    return found;
  }
};

TEST_F(DoctorOfGpus, SaysThatThereAreNone) {
  const std::vector<Finding> found = gpus(kNoLibrary);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].found, "none: no GPU that its driver tells of");
  EXPECT_EQ(found[0].verdict, Verdict::kGood);
  EXPECT_EQ(found[0].fix, "");
}

TEST_F(DoctorOfGpus, AsksNvidiasLibrary) {
  setenv("NVIDIA_FAKE_0", "1410 1980 1", 1);  // idle
  setenv("NVIDIA_FAKE_2", "900 1980 64", 1);  // of power, and twice of heat
  std::vector<Finding> found = gpus(FAKE_NVML);
  ASSERT_EQ(found.size(), 2u) << "one that has failed is left out";
  EXPECT_EQ(found[0].found, "Fake 0: 1410 of 1980 MHz, not known to be held");
  EXPECT_EQ(found[0].verdict, Verdict::kNote);
  EXPECT_EQ(found[0].fix, "nvidia-smi -i 0 -lgc 1485");
  EXPECT_EQ(found[1].found, "Fake 2: 900 of 1980 MHz, slowed by its power limit, heat");
  EXPECT_EQ(found[1].verdict, Verdict::kBad);
  EXPECT_EQ(found[1].fix, "nvidia-smi -i 2 -lgc 810") << "its number on the board, not its place in the list";
  setenv("NVIDIA_FAKE_0", "1410 1980 2", 1);  // as somebody chose
  unsetenv("NVIDIA_FAKE_2");                  // a driver that tells no clock
  found = gpus(FAKE_NVML);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].found, "Fake 0: 1410 of 1980 MHz, held");
  EXPECT_EQ(found[0].verdict, Verdict::kGood);
  EXPECT_EQ(found[0].fix, "");
}

TEST_F(DoctorOfGpus, NoticesWhatElseComputesThere) {
  setenv("NVIDIA_FAKE_0", "1410 1980 1 0", 1);
  setenv("NVIDIA_FAKE_2", "1350 1980 4 99", 1);
  put("/sys/class/drm/card1/device/pp_dpm_sclk", "0: 300Mhz *");
  put("/sys/class/drm/card1/device/gpu_busy_percent", "40");
  std::vector<Finding> found = gpus(FAKE_NVML, "GPU load");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].found, "Fake 0: 0% of the time");
  EXPECT_EQ(found[0].verdict, Verdict::kGood);
  EXPECT_EQ(found[1].found, "Fake 2: 99% of the time");
  EXPECT_EQ(found[1].verdict, Verdict::kBad);
  EXPECT_EQ(found[1].fix, "stop what computes there, or measure when it is done");
  EXPECT_EQ(found[2].found, "card1: 40% of the time");
  setenv("NVIDIA_FAKE_0", "1410 1980 1", 1);
  unsetenv("NVIDIA_FAKE_2");
  found = gpus(FAKE_NVML, "GPU load");
  ASSERT_EQ(found.size(), 1u) << "of a driver that does not tell nothing is said";
  EXPECT_EQ(found[0].found, "card1: 40% of the time");
}

TEST_F(DoctorOfGpus, ReadsTheFilesOfAmdsDriver) {
  put("/sys/class/drm/card10/device/pp_dpm_sclk", "0: 500Mhz\n1: 1900Mhz *\n2: 2100Mhz");
  put("/sys/class/drm/card2/device/pp_dpm_sclk", "0: 300Mhz *\n1: 800Mhz");
  put("/sys/class/drm/card2/device/product_name", "Instinct");
  put("/sys/class/drm/card2/device/power_dpm_force_performance_level", "profile_standard");
  put("/sys/class/drm/card2-DP-1/device/pp_dpm_sclk", "0: 1Mhz *");
  put("/sys/class/drm/card3/device/vendor", "0x8086");
  const std::vector<Finding> found = gpus(kNoLibrary);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].found, "Instinct: 300 of 800 MHz, held");
  EXPECT_EQ(found[1].found, "card10: 1900 of 2100 MHz, not known to be held");
  EXPECT_EQ(found[1].fix,
            "echo profile_standard > /sys/class/drm/card10/device/power_dpm_force_performance_level");
}

class ClockOfAGpu : public DoctorOfGpus {
 protected:
  ~ClockOfAGpu() override { unsetenv("NVIDIA_FAKE_DIPS"); }
};

TEST_F(ClockOfAGpu, IsReadAgainAndAgain) {
  EXPECT_EQ(gpu_clock(GpuDriver::kNvidia, folder_.path(), kNoLibrary), nullptr);
  unsetenv("NVIDIA_FAKE_0");  // a driver that tells no clock: the next one's
  setenv("NVIDIA_FAKE_2", "1350 1980 0", 1);
  std::unique_ptr<GpuClock> clock = gpu_clock(GpuDriver::kNvidia, folder_.path(), FAKE_NVML);
  ASSERT_NE(clock, nullptr);
  EXPECT_EQ(clock->name(), "Fake 2");
  EXPECT_EQ(clock->hz(), 1350e6);
  setenv("NVIDIA_FAKE_DIPS", "900 1", 1);
  EXPECT_EQ(clock->hz(), 900e6);
  EXPECT_EQ(gpu_clock(GpuDriver::kAmd, folder_.path(), kNoLibrary), nullptr);
  put("/sys/class/drm/card10/device/pp_dpm_sclk", "0: 500Mhz\n1: 1900Mhz *");
  put("/sys/class/drm/card2/device/pp_dpm_sclk", "0: 300Mhz *\n1: 800Mhz");
  clock = gpu_clock(GpuDriver::kAmd, folder_.path(), kNoLibrary);
  ASSERT_NE(clock, nullptr);
  EXPECT_EQ(clock->name(), "card2");
  EXPECT_EQ(clock->hz(), 300e6);
  put("/sys/class/drm/card2/device/pp_dpm_sclk", "0: 300Mhz\n1: 800Mhz *");
  EXPECT_EQ(clock->hz(), 800e6);
}

TEST(ForeignLoad, IsTheTimeOfOthers) {
  const std::string before = "cpu  100 0 100 1000 0 0 0 0 0 0\ncpu0 1 2 3\n";
  const auto load = foreign_load(before, "cpu  150 0 120 1100 0 10 0 20 0 0\n", 0.3);
  ASSERT_TRUE(load);
  EXPECT_DOUBLE_EQ(load->busy, 50.0 / 200) << "of 80 busy ticks 30 are ours";
  EXPECT_DOUBLE_EQ(load->stolen, 20.0 / 200);
  for (const char* text : {"", "nonsense", "cpu 1 2", "cpu  100 0 100 1000 0 0 0 0 0 0"})
    EXPECT_FALSE(foreign_load(before, text, 0)) << text;
}

}  // namespace
}  // namespace lathe::worker
