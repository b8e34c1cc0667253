#include "cli/shapes.h"

#include <algorithm>
#include <charconv>

#include "core/support/error.h"

namespace lathe::cli {
namespace {

/// Elements of one input: beyond any memory, and their bytes still fit 64 bits.
constexpr int64_t kLargest = int64_t{1} << 40;

int64_t parse_dim(const std::string& flag, std::string_view text) {
  int64_t dim = 0;
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, dim);
  if (error == std::errc::invalid_argument || stop != end)
    fail("--shape {}: `{}` is not a dimension; write NAME=1x3x224x224", flag, text);
  if (error == std::errc::result_out_of_range) fail("--shape {}: dimension {} is out of range", flag, text);
  if (dim < 0) fail("--shape {}: dimension {} must not be negative", flag, text);
  return dim;
}

}  // namespace

void add_open_flag(Flags& flags, std::vector<std::string>& open) {
  flags.add(
      "--open DIM", open,
      "a dimension that stays open, or all: NAME, NAME=1..2048, NAME=1..2048,16,128:4 with values to tune "
      "for and their weights");
}

void add_shape_flag(Flags& flags, std::vector<std::string>& shapes) {
  flags.add("--shape NAME=1x3x224x224", shapes,
            "the shape of an input with dynamic dimensions; once for each");
}

Shapes parse_shapes(const std::vector<std::string>& shapes) {
  Shapes result;
  for (const std::string& flag : shapes) {
    // The last one: the names in a model's file may hold others.
    size_t equals = flag.rfind('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == flag.size())
      fail("--shape {}: must be NAME=1x3x224x224", flag);
    auto [place, fresh] = result.try_emplace(flag.substr(0, equals));
    if (!fresh) fail("--shape {}: the input is given twice", flag);
    int64_t elements = 1;
    std::string dims = flag.substr(equals + 1);
    for (size_t start = 0; start <= dims.size();) {
      size_t end = std::min(dims.find('x', start), dims.size());
      place->second.push_back(parse_dim(flag, std::string_view(dims).substr(start, end - start)));
      // A dimension of 0 must not hide that the others are too large.
      if (__builtin_mul_overflow(elements, std::max<int64_t>(place->second.back(), 1), &elements) ||
          elements > kLargest)
        fail("--shape {}: the tensor is too large", flag);
      start = end + 1;
    }
  }
  return result;
}

}  // namespace lathe::cli
