#include "core/relay/open_shapes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/arith/only_unknown.h"
#include "core/arith/simplify.h"
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

/// The dimensions that some inputs tell, by name.
std::set<std::string> told_by(const std::vector<StatedInput>& inputs) {
  std::set<std::string> told;
  const auto for_each_dim = [&](FunctionRef<void(const StatedDim&)> f) {
    for (const StatedInput& input : inputs)
      if (input.dims) std::for_each(input.dims->begin(), input.dims->end(), f);
  };
  for_each_dim([&](const StatedDim& dim) {
    if (!dim.size) told.merge(dim.names());
  });
  const auto is_told = [&](const lathe::VarNode* dim) { return told.count(dim->name) != 0; };
  // Each may be what another one waits for.
  for (bool found = true; std::exchange(found, false);)
    for_each_dim([&](const StatedDim& dim) {
      if (const auto unknown = dim.size ? only_unknown(dim.size, is_told) : std::nullopt)
        found |= told.insert(unknown->variable->name).second;
    });
  return told;
}

/// The others of `all` settle all its dimensions.
bool follows_from(const StatedInput& input, const std::vector<StatedInput>& all) {
  std::vector<StatedInput> others;
  std::copy_if(all.begin(), all.end(), std::back_inserter(others),
               [&](const StatedInput& other) { return other.name != input.name; });
  const std::set<std::string> told = told_by(others);
  return input.dims && std::all_of(input.dims->begin(), input.dims->end(), [&](const StatedDim& dim) {
           const std::set<std::string> names = dim.names();
           return !dim.open() ||
                  (!names.empty() && std::includes(told.begin(), told.end(), names.begin(), names.end()));
         });
}

/// As a shell takes it for one word.
std::string quoted(const std::string& word) {
  bool plain =
      word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/=") ==
      std::string::npos;
  return plain ? word : "'" + word + "'";
}

/// Extents that fit together, of the inputs in order.
class ExampleExtents {
 public:
  explicit ExampleExtents(const std::vector<StatedInput>& inputs) {
    // Those that stand by themselves first: the others follow from them.
    for (const bool alone : {true, false})
      for (const StatedInput& input : inputs)
        for (size_t i = 0; input.dims && i < input.dims->size(); ++i)
          if (const StatedDim& dim = (*input.dims)[i]; dim.open() && !dim.size == alone)
            choose(dim, example_extent(i, input.dims->size()));
  }

  int64_t operator()(const StatedDim& dim, int64_t likely) const {
    if (!dim.open()) return dim.extent;
    if (dim.size) return size_of(dim.size);
    const auto found = chosen_.find(dim.text);
    return found == chosen_.end() ? likely : found->second;
  }

 private:
  int64_t size_of(const lathe::Expr& size) const { return std::max<int64_t>(value_of(size), 0); }

  int64_t value_of(const lathe::Expr& size) const {
    const lathe::Expr value = simplify(rewrite(size, [&](const NodeRef& node) {
                                         const lathe::VarNode* dim = node.as<lathe::VarNode>();
                                         return dim ? NodeRef(lathe::Expr(chosen_.at(dim->name))) : node;
                                       }).cast<ExprNode>());
    return as_int(value) ? int_value(value) : 1;
  }

  void choose(const StatedDim& dim, int64_t likely) {
    if (!dim.size) {
      if (dim.text != "?") chosen_.try_emplace(dim.text, likely);
      return;
    }
    const auto unknown = only_unknown(
        dim.size, [&](const lathe::VarNode* variable) { return chosen_.count(variable->name) != 0; });
    // As near to what is likely as it comes, and not nothing.
    if (unknown)
      chosen_[unknown->variable->name] =
          std::max<int64_t>(unknown->told_by(likely, value_of(unknown->rest)), 1);
    for (const std::string& name : dim.names()) chosen_.try_emplace(name, likely);
  }

  std::map<std::string, int64_t> chosen_;  // by the names of dimensions
};

/// " --shape x=1x128x4" for each.
std::string example_flags(const std::vector<StatedInput>& inputs) {
  const ExampleExtents extent_of(inputs);
  std::string flags;
  for (const StatedInput& input : inputs) {
    std::vector<std::string> extents;
    for (size_t i = 0; input.dims && i < input.dims->size(); ++i)
      extents.push_back(std::to_string(extent_of((*input.dims)[i], example_extent(i, input.dims->size()))));
    flags += " --shape " + quoted(input.name + "=" + (input.dims ? join_text(extents, "x") : "1x3x224x224"));
  }
  return flags;
}

}  // namespace

std::set<std::string> StatedDim::names() const {
  if (!open() || text == "?") return {};
  if (!size) return {text};
  std::set<std::string> names;
  post_order(size, [&](const NodeRef& node) {
    if (const lathe::VarNode* dim = node.as<lathe::VarNode>()) names.insert(dim->name);
  });
  return names;
}

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
