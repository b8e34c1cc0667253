#include "tuner/open_dims.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "core/support/error.h"
#include "core/support/text.h"

namespace lathe::tuner {
namespace {

/// Beyond any memory, and a product of such a dimension and a type's bytes still fits 64 bits.
constexpr int64_t kLargest = int64_t{1} << 40;
constexpr const char* kForm = "NAME, NAME=1..2048 or NAME=1..2048,16,128:4";

template <typename Number>
std::optional<Number> whole(std::string_view text) {
  Number number = 0;
  auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<int64_t> dim(std::string_view text) {
  const std::optional<int64_t> number = whole<int64_t>(text);
  return number && *number >= 0 && *number <= kLargest ? number : std::nullopt;
}

void add_value(DimRange& range, const std::string& flag, std::string_view item) {
  const size_t colon = item.find(':');
  const std::optional<int64_t> value = dim(item.substr(0, colon));
  std::optional<double> weight = 1;
  if (colon != std::string_view::npos) weight = whole<double>(item.substr(colon + 1));
  if (!value || *value < 1 || !weight || !(*weight > 0) || !std::isfinite(*weight))
    fail("--open {}: `{}` is no value above 0 with a weight above 0; write {}", flag, item, kForm);
  for (const WeightedValue& known : range.values)
    if (known.value == *value) fail("--open {}: {} is given twice", flag, *value);
  range.values.push_back({*value, *weight});
}

/// What stands behind the equals sign.
DimRange parse_range(const std::string& flag, std::string_view text) {
  DimRange range;
  bool bounded = false;
  if (text.empty()) add_value(range, flag, text);  // which says what is missing
  for (const std::string& item : split_text(text, ',')) {
    const size_t dots = item.find("..");
    if (dots == std::string_view::npos) {
      add_value(range, flag, item);
      continue;
    }
    const std::string_view ends = item;
    const std::optional<int64_t> min = dim(ends.substr(0, dots)), max = dim(ends.substr(dots + 2));
    if (!min || !max || *min > *max) fail("--open {}: `{}` is no range; write {}", flag, item, kForm);
    if (std::exchange(bounded, true)) fail("--open {}: two ranges; write {}", flag, kForm);
    range.min = *min;
    range.max = *max;
  }
  std::sort(range.values.begin(), range.values.end(),
            [](const WeightedValue& a, const WeightedValue& b) { return a.value < b.value; });
  for (const WeightedValue& each : range.values)
    if (each.value < range.min || each.value > range.max)
      fail("--open {}: {} is not within {}..{}", flag, each.value, range.min, range.max);
  return range;
}

}  // namespace

OpenDims parse_open_dims(const std::vector<std::string>& flags) {
  OpenDims result;
  for (const std::string& flag : flags) {
    if (flag == "all") {
      result.all = true;
      continue;
    }
    // The last one: the names in a model's file may hold others.
    const size_t equals = flag.rfind('=');
    if (flag.empty() || equals == 0) fail("--open {}: must be all, {}", flag, kForm);
    DimRange range;
    if (equals != std::string::npos) range = parse_range(flag, std::string_view(flag).substr(equals + 1));
    if (!result.named.try_emplace(flag.substr(0, equals), range).second)
      fail("--open {}: the dimension is given twice", flag);
  }
  return result;
}

std::vector<WeightedValue> representative_values(const DimRange& range, int most_intervals) {
  if (!range.values.empty()) return range.values;
  constexpr double kRatio = 8, kFewer = 4;  // below `kFewer` the ends say what is between them
  const auto low = static_cast<double>(std::max<int64_t>(range.min, 1));
  const double high = range.is_bounded() ? std::max(static_cast<double>(range.max), low)
                                         : std::max(static_cast<double>(kFar), low);
  if (high == low) return {{static_cast<int64_t>(low)}};
  const int wanted = high / low < kFewer
                         ? 1
                         : std::max(2, static_cast<int>(std::ceil(std::log(high / low) / std::log(kRatio))));
  const int intervals = std::max(1, std::min(wanted, most_intervals));
  std::vector<WeightedValue> values = {{static_cast<int64_t>(low)}};
  for (int i = 1; i < intervals; ++i) {
    const double at = std::log2(low) + (std::log2(high) - std::log2(low)) * i / intervals;
    const auto value = static_cast<int64_t>(std::exp2(std::round(at)));
    if (value > values.back().value && static_cast<double>(value) < high) values.push_back({value});
  }
  values.push_back({static_cast<int64_t>(high)});
  return values;
}

void require_known(const OpenDims& open, const std::vector<std::string>& names) {
  for (const auto& [name, range] : open.named)
    if (std::find(names.begin(), names.end(), name) == names.end())
      fail("--open {}: no input has an open dimension of this name{}", name,
           names.empty() ? std::string() : "; those are " + join_text(names, ", "));
}

void set_ranges(runtime::Plan& plan, const OpenDims& open) {
  std::vector<std::string> names;
  for (runtime::Dimension& dim : plan.dims) {
    if (runtime::is_of_output(dim)) continue;
    names.push_back(dim.name);
    const DimRange range = open.range(dim.name);
    dim.min = range.min;
    dim.max = range.max;
  }
  require_known(open, names);
}

}  // namespace lathe::tuner
