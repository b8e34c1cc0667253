// The columns of Conditions, which measurements and confirmations have alike; in packs they are fields under
// the same names, left out where nothing is known.
#pragma once

#include <fmt/core.h>

#include <limits>
#include <string>
#include <vector>

#include "core/support/record_limits.h"
#include "db/database.h"
#include "db/records.h"

namespace lathe::db {

struct ConditionColumn {
  const char* name;
  std::optional<double> Conditions::*value;
  double least, most;  // what the tables' CHECKs take
};

// Text, the driver, comes after them in statements.
inline constexpr ConditionColumn kConditions[] = {
    {"clock_hz", &Conditions::clock_hz, std::numeric_limits<double>::min(),
     std::numeric_limits<double>::max()},
    {"disturbed", &Conditions::disturbed, 0, 1},
    {"canary", &Conditions::canary, 0, std::numeric_limits<double>::max()},
    {"celsius", &Conditions::celsius, limits::kColdest, limits::kHottest},
    {"timer_seconds", &Conditions::timer_seconds, 0, 1},
};

/// For a list of a statement's columns, each after `of` ("m.").
inline std::string condition_columns(std::string_view of = "") {
  std::string columns;
  for (const ConditionColumn& column : kConditions) columns += fmt::format("{}{}, ", of, column.name);
  return columns + fmt::format("{}driver", of);
}

inline bool is_possible(const ConditionColumn& column, double value) {
  return value >= column.least && value <= column.most;  // false of NaN
}

/// Adds the values in the order of the columns; what is not possible is not known.
inline void append_conditions(std::vector<Value>& values, const Conditions& conditions) {
  for (const ConditionColumn& column : kConditions) {
    const std::optional<double>& value = conditions.*column.value;
    values.push_back(value && is_possible(column, *value) ? Value(*value) : Value(nullptr));
  }
  values.emplace_back(conditions.driver);
}

/// From the next columns of the row.
inline Conditions read_conditions(Query& row) {
  Conditions conditions;
  for (const ConditionColumn& column : kConditions) conditions.*column.value = row.maybe_real();
  conditions.driver = row.text();
  return conditions;
}

}  // namespace lathe::db
