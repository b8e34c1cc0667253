// How the tables of passes of both languages are looked up: rows with a name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/support/error.h"

namespace lathe {

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
