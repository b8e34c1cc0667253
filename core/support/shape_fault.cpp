#include "core/support/shape_fault.h"

#include <fmt/format.h>

#include <algorithm>

namespace lathe {
namespace {

std::string text_of(std::span<const int64_t> shape) {
  std::string text;
  for (int64_t dim : shape)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", dim < 0 ? "?" : std::to_string(dim));
  return "(" + text + ")";
}

}  // namespace

std::string shape_fault(std::span<const int64_t> shape, std::span<const int64_t> wanted) {
  const bool fits = std::equal(shape.begin(), shape.end(), wanted.begin(), wanted.end(),
                               [](int64_t have, int64_t want) { return want < 0 || have == want; });
  if (fits) return "";
  return fmt::format("the shape is {}, {} is expected", text_of(shape), text_of(wanted));
}

}  // namespace lathe
