// What the tables of passes of both languages have in common: rows with an id and a name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/support/error.h"
#include "core/support/text.h"

namespace lathe {

/// Whether each row stands where its id says.
template <typename Pass, size_t kSize>
constexpr bool in_order(const Pass (&rows)[kSize]) {
  for (size_t i = 0; i < kSize; ++i)
    if (static_cast<size_t>(rows[i].id) != i) return false;
  return true;
}

/// Throws Error when there is none of that name.
template <typename Pass>
const Pass& pass_named(std::string_view name, std::span<const Pass> rows) {
  std::vector<std::string> names;
  for (const Pass& each : rows) {
    if (each.name == name) return each;
    names.push_back(each.name);
  }
  fail("unknown pass `{}`{}", name, did_you_mean(name, names));
}

}  // namespace lathe
