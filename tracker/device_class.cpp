#include "tracker/device_class.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "core/support/bounded_json.h"

namespace lathe::tracker {

DeviceClass device_class_of(std::string_view device_json) {
  // Bounded by HELLO's reader.
  const auto json = nlohmann::json::parse(device_json, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return {};
  const std::string model = string_member(json, "model");
  const auto cores = json.find("cores");
  // Without both it is of no class, and is given nothing that wants one.
  if (model.empty() || cores == json.end() || !cores->is_number_integer()) return {};
  return {.name = class_name(model, cores->get<int64_t>()),
          .architecture = string_member(json, "architecture"),
          .target = string_member(json, "target"),
          .machine = string_member(json, "machine")};
}

// F11: exactly. As many cores, for kernels are shared out among them.
std::string class_name(std::string_view model, int64_t cores) {
  return fmt::format("{}, {} {}", model, cores, cores == 1 ? "core" : "cores");
}

std::string driver_of(const nlohmann::json& device) {
  std::string driver = string_member(device, "driver");
  return driver.empty() ? string_member(device, "kernel") : driver;
}

}  // namespace lathe::tracker
