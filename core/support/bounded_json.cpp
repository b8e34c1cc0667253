#include "core/support/bounded_json.h"

#include <nlohmann/json.hpp>

#include "core/support/error.h"

namespace lathe {

nlohmann::json parse_bounded_json(std::string_view text, int depth, std::string_view what, size_t most) {
  using nlohmann::json;
  size_t values = 0;
  // While parsing, so that a value too deep to be walked by recursion never exists.
  auto bounded = [&](int at, json::parse_event_t event, json&) {
    // nlohmann's parser itself keeps a list and does not recurse, but its values' destructor,
    // dump() and copies do.
    bool opens = event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
    if (opens && at >= depth) fail("{} is nested more than {} deep", what, depth);
    if ((opens || event == json::parse_event_t::value) && ++values > most)
      fail("{} has more than {} values", what, most);
    return true;
  };
  // What is no JSON is a discarded value; whether that is an error is for the caller to say.
  return json::parse(text, bounded, /*allow_exceptions=*/false);
}

std::string string_member(const nlohmann::json& json, const char* key) {
  if (!json.is_object()) return "";
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string json_line(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace lathe
