// Tasks that stay far below the machine's limit, and why, as far as their programs and their search tell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/tir/stmt.h"

namespace lathe::tuner {

/// Below this share of its own limit (core/tir/roofline.h) a task has a row among those far below.
inline constexpr double kFarBelow = 0.3;

struct SearchFacts {
  int64_t trials = 0;
  std::optional<int64_t> since_best;  // trials in vain after the best; nothing when it is not known
  bool exhausted = false;             // there was no other candidate
};

/// For people, a few phrases: "62% of its work on single elements; all 24 candidates tried". `seconds` are of
/// one call. REQUIRES: constant shapes.
std::string shortfall_text(const tir::Func& scheduled, double seconds, const SearchFacts& search);

}  // namespace lathe::tuner
