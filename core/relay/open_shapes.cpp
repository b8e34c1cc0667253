#include "core/relay/open_shapes.h"

#include <algorithm>
#include <map>

#include "core/support/error.h"
#include "core/support/text.h"

namespace lathe::relay {
namespace {

/// [n, 3, ?]
std::string stated_shape(const StatedInput& input) {
  if (!input.dims) return "of no stated rank";
  std::vector<std::string> dims;
  for (const StatedDim& dim : *input.dims) dims.push_back(dim.text);
  return "[" + join_text(dims, ", ") + "]";
}

/// A likely extent, for the example: one item of a batch, an image's side, a sequence's length.
int64_t example_extent(size_t axis, size_t rank) { return axis == 0 ? 1 : rank >= 4 ? 224 : 128; }

bool has_name(const StatedInput& input, const std::string& name) {
  return input.dims && std::any_of(input.dims->begin(), input.dims->end(),
                                   [&](const StatedDim& dim) { return dim.named() && dim.text == name; });
}

/// The others settle all its dimensions.
bool follows_from(const StatedInput& input, const std::vector<StatedInput>& others) {
  return input.dims && std::all_of(input.dims->begin(), input.dims->end(), [&](const StatedDim& dim) {
           return !dim.open() ||
                  (dim.named() && std::any_of(others.begin(), others.end(), [&](const auto& other) {
                     return other.name != input.name && has_name(other, dim.text);
                   }));
         });
}

/// As a shell takes it for one word.
std::string quoted(const std::string& word) {
  bool plain =
      word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/=") ==
      std::string::npos;
  return plain ? word : "'" + word + "'";
}

/// " --shape x=1x128x4" for each.
std::string example_flags(const std::vector<StatedInput>& inputs) {
  std::map<std::string, int64_t> chosen;  // extents of named dimensions
  std::string flags;
  for (const StatedInput& input : inputs) {
    std::vector<std::string> extents;
    for (size_t i = 0; input.dims && i < input.dims->size(); ++i) {
      const StatedDim& dim = (*input.dims)[i];
      int64_t extent = dim.open() ? example_extent(i, input.dims->size()) : dim.extent;
      if (dim.named()) extent = chosen.try_emplace(dim.text, extent).first->second;
      extents.push_back(std::to_string(extent));
    }
    flags += " --shape " + quoted(input.name + "=" + (input.dims ? join_text(extents, "x") : "1x3x224x224"));
  }
  return flags;
}

}  // namespace

bool StatedInput::open() const {
  return !dims || std::any_of(dims->begin(), dims->end(), [](const StatedDim& dim) { return dim.open(); });
}

std::string open_shapes_message(const std::vector<StatedInput>& inputs) {
  std::vector<StatedInput> open;
  std::copy_if(inputs.begin(), inputs.end(), std::back_inserter(open),
               [](const StatedInput& input) { return input.open(); });
  if (open.empty()) return "";
  std::vector<std::string> stated;
  for (const StatedInput& input : open)
    stated.push_back(fmt::format("`{}` is {}", input.name, stated_shape(input)));
  // From the last, so that of two inputs that settle each other the first is the one to be told.
  std::vector<StatedInput> needed = open;
  for (size_t i = needed.size(); i-- > 0;)
    if (follows_from(needed[i], needed)) needed.erase(needed.begin() + static_cast<std::ptrdiff_t>(i));
  return fmt::format("the model leaves dimensions of its inputs open: {}; say what they are, as in{}",
                     join_text(stated, ", "), example_flags(needed));
}

}  // namespace lathe::relay
