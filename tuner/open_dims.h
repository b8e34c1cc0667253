// The dimensions of a model that are to stay open when it is compiled.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/runtime/plan.h"

namespace lathe::tuner {

/// A value that a dimension has in practice, and how often beside the others.
struct WeightedValue {
  int64_t value = 0;
  double weight = 1;
  bool operator==(const WeightedValue&) const = default;
};

/// What an open dimension may be, both included.
struct DimRange {
  int64_t min = 1, max = runtime::kMostBytes;
  std::vector<WeightedValue> values = {};  // that it is tuned for, in order; empty: representative_values()
  bool is_bounded() const { return max < runtime::kMostBytes; }
};

/// By the names that the model gives them; one without a name is called INPUT.AXIS, as in "x.0".
struct OpenDims {
  bool all = false;  // those not named too
  std::map<std::string, DimRange> named;

  bool none() const { return !all && named.empty(); }
  bool keeps(const std::string& name) const { return all || named.count(name) != 0; }
  DimRange range(const std::string& name) const {
    auto found = named.find(name);
    return found == named.end() ? DimRange{} : found->second;
  }
};

/// all, NAME or NAME=ITEM,..., each. An item is the range (1..2048), a value to tune for, or one with its
/// weight (128:4). Throws Error on anything else, a value outside the range, and a dimension given twice.
OpenDims parse_open_dims(const std::vector<std::string>& flags);

/// The range's values or, where it has none: its ends (of one without an upper bound, kFar), and between them
/// at most so many intervals of equal ratios, of a factor of 8 or less where that many are enough. Those
/// between are powers of two, whole numbers of the tiles that schedules are made of.
std::vector<WeightedValue> representative_values(const DimRange& range, int most_intervals);
inline constexpr int64_t kFar = 512;

/// Throws Error when a dimension that is named is not among these.
void require_known(const OpenDims& open, const std::vector<std::string>& names);
/// Sets the ranges of the plan's dimensions. Throws Error when one that is named is not among them.
void set_ranges(runtime::Plan& plan, const OpenDims& open);

}  // namespace lathe::tuner
