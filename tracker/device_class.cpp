#include "tracker/device_class.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

namespace lathe::tracker {

DeviceClass device_class_of(std::string_view device_json) {
  const auto json = nlohmann::json::parse(device_json, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return {};
  const auto word = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const auto cores = json.find("cores");
  if (word("model").empty() || cores == json.end() || !cores->is_number_integer()) return {};
  const auto count = cores->get<int64_t>();
  return {.name = fmt::format("{}, {} {}", word("model"), count, count == 1 ? "core" : "cores"),
          .architecture = word("architecture"),
          .target = word("target"),
          .machine = word("machine")};
}

}  // namespace lathe::tracker
