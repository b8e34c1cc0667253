#include "tracker/device_class.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
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

std::optional<db::DeviceKind> kind_of_class(std::string_view name) {
  if (name.empty()) return std::nullopt;
  // Models may have commas themselves.
  const size_t comma = name.rfind(", ");
  int64_t cores = 0;
  if (comma != name.npos) std::from_chars(name.data() + comma + 2, name.data() + name.size(), cores);
  // What is no class has no devices: no number of cores is 0 in the database (store_journal.cpp).
  return db::DeviceKind{.model = std::string(name.substr(0, comma)),
                        .cores = static_cast<int>(std::min<int64_t>(cores, 1 << 20))};
}

std::string driver_of(const nlohmann::json& device) {
  std::string driver = string_member(device, "driver");
  return driver.empty() ? string_member(device, "kernel") : driver;
}

}  // namespace lathe::tracker
