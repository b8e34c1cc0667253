#include "db/fields.h"

#include <cmath>

#include "core/support/bounded_json.h"
#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/support/printable.h"

namespace lathe::db {
namespace {
constexpr int kDepth = 6;  // of a line: its confirmations' samples are in the fourth level
}  // namespace

Fields::Fields(const std::string& line) : Fields(parse_bounded_json(line, kDepth, "the line")) {}

Fields::Fields(nlohmann::json object) : object_(std::move(object)) {
  if (!object_.is_object()) fail("must be a JSON object");
}

const nlohmann::json& Fields::at(const char* key) const {
  const auto found = object_.find(key);
  if (found == object_.end()) fail("`{}` is missing", key);
  return *found;
}

std::string Fields::text(const char* key, size_t limit) const {
  const nlohmann::json& value = at(key);
  if (!value.is_string()) fail("`{}` must be a string", key);
  const auto& text = value.get_ref<const std::string&>();
  // Each field has its own: what goes into an index or on a page is to be short.
  if (text.size() > limit) fail("`{}` has {} bytes, more than the limit of {}", key, text.size(), limit);
  return text;
}

std::string Fields::name(const char* key, size_t limit) const {
  std::string name = text(key, limit);
  if (has_control_characters(name)) fail("`{}` has characters that cannot be shown", key);
  return name;
}

std::string Fields::digest(const char* key) const {
  std::string digest = text(key, 64);
  if (!is_digest(digest)) fail("`{}` must be 64 hexadecimal digits", key);
  return digest;
}

int64_t Fields::integer(const char* key, int64_t least, int64_t most) const {
  const nlohmann::json& value = at(key);
  // A number above what int64 holds is an unsigned one here.
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX));
  const int64_t number = fits ? value.get<int64_t>() : 0;
  if (!fits || number < least || number > most) fail("`{}` must be an integer in {} .. {}", key, least, most);
  return number;
}

double Fields::number(const char* key, double least) const {
  const nlohmann::json& value = at(key);
  // JSON has numbers that no double holds.
  const double number = value.is_number() ? value.get<double>() : NAN;
  if (!std::isfinite(number) || number < least) fail("`{}` must be a number, {} or more", key, least);
  return number;
}

std::vector<float> Fields::samples(const char* key) const {
  const nlohmann::json& list = at(key);
  if (!list.is_array() || list.empty() || list.size() > limits::kSamples)
    fail("`{}` must be 1 .. {} numbers", key, limits::kSamples);
  std::vector<float> samples;
  for (const nlohmann::json& value : list) {
    // As float, which is what is stored: a double that rounds to 0 or infinity is refused here.
    const float seconds = value.is_number() ? value.get<float>() : NAN;
    if (!(std::isfinite(seconds) && seconds > 0)) fail("`{}` must be seconds above 0", key);
    samples.push_back(seconds);
  }
  return samples;
}

std::vector<Fields> Fields::objects(const char* key) const {
  const nlohmann::json& list = at(key);
  if (!list.is_array()) fail("`{}` must be a list", key);
  return {list.begin(), list.end()};
}

Fields Fields::object(const char* key) const { return Fields(at(key)); }

std::vector<std::string> Fields::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object_.items()) keys.push_back(key);
  return keys;
}

}  // namespace lathe::db
