#include "workers/temperature.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/support/temporary_folder.h"
#include "workers/stopwatch.h"

namespace lathe::worker {
namespace {

/// A system with the sensors that a test gives it.
class Temperature : public testing::Test {
 protected:
  void put(const std::string& path, const std::string& line) {
    const std::filesystem::path file = folder_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << line << "\n";
  }
  std::optional<double> celsius() const { return ProcessorSensors(folder_.path()).celsius(); }

  TemporaryFolder folder_;
};

TEST_F(Temperature, IsNotInvented) {
  EXPECT_EQ(celsius(), std::nullopt);
  put("/sys/class/hwmon/hwmon0/name", "nvme");
  put("/sys/class/hwmon/hwmon0/temp1_label", "Composite");
  put("/sys/class/hwmon/hwmon0/temp1_input", "41000");
  put("/sys/class/thermal/thermal_zone0/type", "acpitz");
  put("/sys/class/thermal/thermal_zone0/temp", "27800");
  EXPECT_EQ(celsius(), std::nullopt) << "neither a disk nor the board is a processor";
}

TEST_F(Temperature, IsThatOfTheHottestPackage) {
  put("/sys/class/hwmon/hwmon1/name", "coretemp");
  put("/sys/class/hwmon/hwmon1/temp1_label", "Package id 0");
  put("/sys/class/hwmon/hwmon1/temp1_input", "52000");
  put("/sys/class/hwmon/hwmon1/temp2_label", "Core 0");
  put("/sys/class/hwmon/hwmon1/temp2_input", "99000");
  put("/sys/class/hwmon/hwmon2/name", "coretemp");
  put("/sys/class/hwmon/hwmon2/temp1_label", "Package id 1");
  put("/sys/class/hwmon/hwmon2/temp1_input", "61500");
  put("/sys/class/thermal/thermal_zone0/type", "x86_pkg_temp");
  put("/sys/class/thermal/thermal_zone0/temp", "70000");
  EXPECT_EQ(celsius(), 61.5);
}

TEST_F(Temperature, OfAmdIsWhatItsFansGoBy) {
  put("/sys/class/hwmon/hwmon0/name", "k10temp");
  put("/sys/class/hwmon/hwmon0/temp1_label", "Tctl");
  put("/sys/class/hwmon/hwmon0/temp1_input", "48250");
  put("/sys/class/hwmon/hwmon0/temp3_label", "Tccd1");
  put("/sys/class/hwmon/hwmon0/temp3_input", "60000");
  EXPECT_EQ(celsius(), 48.25);
}

TEST_F(Temperature, OfABoardIsThatOfItsZone) {
  put("/sys/class/thermal/thermal_zone0/type", "gpu-thermal");
  put("/sys/class/thermal/thermal_zone0/temp", "80000");
  put("/sys/class/thermal/thermal_zone1/type", "cpu-thermal");
  put("/sys/class/thermal/thermal_zone1/temp", "45000");
  const ProcessorSensors sensors(folder_.path());
  EXPECT_EQ(sensors.celsius(), 45.0);
  // Asleep, not wired, damaged.
  for (const char* line : {"", "0", "-128000", "nonsense", "45000 and more", "999999999999"}) {
    put("/sys/class/thermal/thermal_zone1/temp", line);
    EXPECT_EQ(sensors.celsius(), std::nullopt) << line;
  }
}

TEST(Timer, TakesSomeNanoseconds) {
  const double seconds = timer_seconds();
  EXPECT_GT(seconds, 1e-9);
  EXPECT_LT(seconds, 1e-5);
}

}  // namespace
}  // namespace lathe::worker
