// How warm the processor is, by the sensors that the kernel tells of.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lathe::worker {

class ProcessorSensors {
 public:
  /// Looks for them below `root`: of a package where there is a sensor of one, else of a thermal zone.
  explicit ProcessorSensors(const std::string& root);

  /// Degrees Celsius now, of several processors the hottest; none where there is no sensor, or none answers.
  std::optional<double> celsius() const;

 private:
  std::vector<std::string> files_;
};

}  // namespace lathe::worker
