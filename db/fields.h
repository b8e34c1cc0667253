// Reads the fields of a JSON object from strangers: each has its type and its bounds, or Error is thrown.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/support/record_limits.h"

namespace lathe::db {

class Fields {
 public:
  /// Parses one line. Throws Error when it is no JSON object, or nested deeper than any record.
  explicit Fields(const std::string& line);
  explicit Fields(nlohmann::json object);

  bool has(const char* key) const { return object_.contains(key); }
  /// At most `limit` bytes; of a name none that moves a terminal's cursor or colours it.
  std::string name(const char* key, size_t limit = limits::kName) const;
  std::string text(const char* key, size_t limit) const;
  /// 64 hexadecimal digits.
  std::string digest(const char* key) const;
  int64_t integer(const char* key, int64_t least, int64_t most) const;
  double number(const char* key, double least) const;  // finite
  /// Seconds: at least one, all finite and above 0.
  std::vector<float> samples(const char* key) const;
  std::vector<Fields> objects(const char* key) const;
  Fields object(const char* key) const;
  /// The names of all fields.
  std::vector<std::string> keys() const;

 private:
  const nlohmann::json& at(const char* key) const;
  nlohmann::json object_;
};

}  // namespace lathe::db
