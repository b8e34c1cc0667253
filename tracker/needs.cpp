#include "tracker/needs.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/support/bounded_json.h"
#include "core/support/error.h"
#include "core/support/text.h"
#include "tracker/device_class.h"

namespace lathe::tracker {
namespace {

using nlohmann::json;
using Amount = std::vector<int64_t>;

constexpr size_t kMostParts = 4;          // of a version
constexpr const char* kUnreadable = "?";  // a property of no device: needs that cannot be read
constexpr int64_t kMostBytes = int64_t{1} << 60;

struct Unit {
  std::string_view name;
  int64_t bytes;
};
constexpr Unit kUnits[] = {{"TiB", int64_t{1} << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}};

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

/// "16GiB", "512 MiB".
std::optional<Amount> parse_bytes(std::string_view text) {
  for (const Unit& unit : kUnits) {
    if (!text.ends_with(unit.name)) continue;
    text.remove_suffix(unit.name.size());
    while (text.ends_with(' ')) text.remove_suffix(1);
    const std::optional<int64_t> number = whole_number(text);
    // Before it is multiplied.
    if (!number || *number > kMostBytes / unit.bytes) return std::nullopt;
    return Amount{*number * unit.bytes};
  }
  return std::nullopt;
}

std::string write_bytes(const Amount& amount) {
  for (const Unit& unit : kUnits)
    if (amount[0] % unit.bytes == 0) return fmt::format("{} {}", amount[0] / unit.bytes, unit.name);
  return fmt::format("{} bytes", amount[0]);
}

/// "550.54.14".
std::optional<Amount> parse_version(std::string_view text) {
  Amount version;
  for (const std::string& part : split_text(std::string(text), '.')) {
    const std::optional<int64_t> number = whole_number(part);
    if (!number || version.size() == kMostParts) return std::nullopt;
    version.push_back(*number);
  }
  if (version.empty() || text.starts_with('.') || text.ends_with('.')) return std::nullopt;
  // 6.1 is as new as 6.1.0.
  while (version.size() > 1 && version.back() == 0) version.pop_back();
  return version;
}

std::string write_version(const Amount& version) {
  std::string text;
  for (int64_t part : version) text += fmt::format("{}{}", text.empty() ? "" : ".", part);
  return text;
}

std::optional<Amount> number_of(const json& device, const char* member) {
  const auto found = device.find(member);
  if (found == device.end() || !found->is_number_integer()) return std::nullopt;
  return Amount{found->get<int64_t>()};
}
std::optional<Amount> memory_of(const json& device) { return number_of(device, "memory_bytes"); }
std::optional<Amount> cores_of(const json& device) { return number_of(device, "cores"); }

std::optional<Amount> parse_count(std::string_view text) {
  const std::optional<int64_t> number = whole_number(text);
  return number ? std::optional(Amount{*number}) : std::nullopt;
}
std::string write_count(const Amount& amount) { return fmt::format("{}", amount[0]); }

/// Of "Linux 6.1.0-13-amd64" the leading version; what a distribution appends is its own.
std::optional<Amount> driver_version_of(const json& device) {
  const std::string driver = driver_of(device);
  const size_t begin = driver.find_first_of("0123456789");
  if (begin == std::string::npos) return std::nullopt;
  std::string version = driver.substr(begin, driver.find_first_not_of("0123456789.", begin) - begin);
  while (version.ends_with('.')) version.pop_back();
  return parse_version(version);
}

struct Property {
  const char* name;
  const char* help;
  const char* form;  // of an amount
  std::optional<Amount> (*parse)(std::string_view);
  std::optional<Amount> (*of)(const json& device);
  std::string (*write)(const Amount&);
  const char* sentence;
};

// Those of which more is as good. What must be equal is the target's (back end, architecture, features) or
// the class of devices'.
constexpr Property kProperties[] = {
    {"memory", "of the device's system, 16GiB", "16GiB or 512MiB", parse_bytes, memory_of, write_bytes,
     "memory of {} or more"},
    {"cores", "8", "8", parse_count, cores_of, write_count, "{} cores or more"},
    {"driver", "6.1; of a CPU the kernel's release", "6.1 or 550.54.14", parse_version, driver_version_of,
     write_version, "driver {} or newer"},
};

const Property& property(const std::string& name) {
  std::vector<std::string> names;
  for (const Property& row : kProperties) {
    if (name == row.name) return row;
    names.emplace_back(row.name);
  }
  fail("devices have no property `{}` (there are {}){}", name, join_text(names, ", "),
       did_you_mean(name, names));
}

}  // namespace

Properties properties_of(std::string_view device_json) {
  // Bounded by HELLO's reader.
  const json device = json::parse(device_json, nullptr, /*allow_exceptions=*/false);
  Properties properties;
  if (!device.is_object()) return properties;
  for (const Property& row : kProperties)
    if (std::optional<Amount> amount = row.of(device)) properties[row.name] = *std::move(amount);
  return properties;
}

Properties parse_needs(const std::map<std::string, std::string>& needs) {
  Properties properties;
  for (const auto& [name, text] : needs) {
    const Property& row = property(name);
    std::optional<Amount> amount = row.parse(text);
    if (!amount) fail("`{}` is no amount of {}; say {}", text, name, row.form);
    properties[name] = *std::move(amount);
  }
  return properties;
}

std::map<std::string, std::string> split_needs(const std::vector<std::string>& texts) {
  std::map<std::string, std::string> needs;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) fail("--needs `{}`: write it as PROPERTY=AMOUNT", text);
    if (!needs.emplace(text.substr(0, equals), text.substr(equals + 1)).second)
      fail("--needs `{}`: `{}` is there twice", text, text.substr(0, equals));
  }
  return needs;
}

Properties needs_of_request(std::string_view request) {
  const json object = json::parse(request, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.contains("needs")) return {};
  std::map<std::string, std::string> needs;
  const json& members = object.at("needs");
  for (const auto& [name, amount] : members.items())
    needs[name] = amount.is_string() ? amount.get<std::string>() : "";
  try {
    if (members.is_object()) return parse_needs(needs);
  } catch (const Error&) {  // as below
  }
  return {{kUnreadable, {}}};
}

Properties with_cores_for(int64_t threads, Properties needs) {
  if (threads > 1) needs["cores"] = std::max(needs["cores"], {threads});
  return needs;
}

bool has_at_least(const Properties& device, const Properties& needs) {
  return std::all_of(needs.begin(), needs.end(), [&](const auto& need) {
    const auto has = device.find(need.first);
    return has != device.end() && has->second >= need.second;
  });
}

std::string describe_needs(const Properties& needs) {
  std::vector<std::string> sentences;
  for (const auto& [name, amount] : needs) {
    if (name == kUnreadable) return "what its job's request says, which this program cannot read";
    const Property& row = property(name);
    sentences.push_back(fmt::format(fmt::runtime(row.sentence), row.write(amount)));
  }
  return join_text(sentences, " and ");
}

std::string needs_help() {
  std::string help;
  for (const Property& row : kProperties)
    help += fmt::format("{}{} ({})", help.empty() ? "" : ", ", row.name, row.help);
  return help;
}

}  // namespace lathe::tracker
