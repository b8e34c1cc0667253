#include "tuner/forest.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/support/bounded_json.h"
#include "core/support/error.h"

namespace lathe::tuner {
namespace {

/// Far beyond what is learnt (80 trees of depth 5, at most 63 nodes each): bounds what a damaged text can ask
/// for.
constexpr size_t kMostTrees = 4096, kMostNodes = 1 << 16;

/// The numbers of a field of a tree, as many as it has nodes.
template <typename T>
std::vector<T> numbers(const nlohmann::json& tree, const char* field, size_t nodes) {
  const auto found = tree.is_object() ? tree.find(field) : tree.end();
  if (!tree.is_object() || found == tree.end() || !found->is_array() || found->size() != nodes)
    fail("cost model: a tree without {} numbers of `{}`", nodes, field);
  std::vector<T> result;
  for (const nlohmann::json& number : *found) {
    bool fits = std::is_integral_v<T> ? number.is_number_integer() : number.is_number();
    if (!fits) fail("cost model: `{}` holds what is no number", field);
    result.push_back(number.get<T>());
  }
  return result;
}

}  // namespace

Forest Forest::of_xgboost(const std::string& json) {
  Forest forest;
  const nlohmann::json model = nlohmann::json::parse(json);
  // XGBoost keeps a tree as arrays with one number for each node; a left child of -1 marks a leaf, whose
  // value then stands among the split conditions. Written by XGBoost a moment ago, so nothing is checked.
  for (const nlohmann::json& tree : model["learner"]["gradient_booster"]["model"]["trees"]) {
    std::vector<Node>& nodes = forest.trees_.emplace_back(tree["left_children"].size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      const auto left = tree["left_children"][i].get<int32_t>();
      nodes[i].value = tree["split_conditions"][i].get<float>();
      if (left < 0) continue;
      nodes[i].feature = tree["split_indices"][i].get<int32_t>();
      nodes[i].left = left;
      nodes[i].right = tree["right_children"][i].get<int32_t>();
      nodes[i].missing_left = tree["default_left"][i].get<int32_t>() != 0;
    }
  }
  return forest;
}

std::string Forest::save() const {
  nlohmann::json trees = nlohmann::json::array();
  for (const std::vector<Node>& nodes : trees_) {
    nlohmann::json tree;
    for (const char* field : {"feature", "value", "left", "right", "missing_left"})
      tree[field] = nlohmann::json::array();
    for (const Node& node : nodes) {
      tree["feature"].push_back(node.feature);
      tree["value"].push_back(node.value);
      tree["left"].push_back(node.left);
      tree["right"].push_back(node.right);
      tree["missing_left"].push_back(static_cast<int>(node.missing_left));
    }
    trees.push_back(std::move(tree));
  }
  return trees.dump();
}

Forest Forest::load(const std::string& text, size_t width) {
  const nlohmann::json trees = parse_bounded_json(text, /*depth=*/4, "cost model");
  if (!trees.is_array() || trees.empty() || trees.size() > kMostTrees) fail("cost model: no list of trees");
  Forest forest;
  for (const nlohmann::json& tree : trees) {
    const size_t size = tree.is_object() && tree.contains("feature") ? tree["feature"].size() : 0;
    if (size == 0 || size > kMostNodes) fail("cost model: a tree of {} nodes", size);
    // Read as wide numbers, so that what does not fit 32 bits is refused and not cut.
    const auto features = numbers<int64_t>(tree, "feature", size),
               left = numbers<int64_t>(tree, "left", size), right = numbers<int64_t>(tree, "right", size),
               missing_left = numbers<int64_t>(tree, "missing_left", size);
    const auto values = numbers<double>(tree, "value", size);
    std::vector<Node>& nodes = forest.trees_.emplace_back(size);
    for (size_t i = 0; i < size; ++i) {
      // Infinity would make every sum infinite, and all candidates equal.
      // A double may be finite and overflow as a float.
      if (!std::isfinite(static_cast<float>(values[i]))) fail("cost model: a value of {}", values[i]);
      nodes[i].value = static_cast<float>(values[i]);
      // A leaf: its other fields are not looked at.
      if (features[i] < 0) continue;
      // Branches lead forwards, so that every path ends.
      const auto at = static_cast<int64_t>(i), end = static_cast<int64_t>(size);
      if (features[i] >= static_cast<int64_t>(width) || left[i] <= at || left[i] >= end || right[i] <= at ||
          right[i] >= end)
        fail("cost model: node {} of {} asks for feature {} of {} and leads to {} and {}", i, size,
             features[i], width, left[i], right[i]);
      nodes[i] = {static_cast<int32_t>(features[i]), nodes[i].value, static_cast<int32_t>(left[i]),
                  static_cast<int32_t>(right[i]), missing_left[i] != 0};
    }
  }
  return forest;
}

float Forest::at(const float* row) const {
  // In the order in which they grew: floats added in another order would give other scores than the trees
  // they were learnt as.
  float sum = 0;
  for (const std::vector<Node>& nodes : trees_) {
    const Node* node = nodes.data();
    while (node->feature >= 0) {
      const float value = row[node->feature];
      const bool goes_left = std::isnan(value) ? node->missing_left : value < node->value;
      node = &nodes[static_cast<size_t>(goes_left ? node->left : node->right)];
    }
    sum += node->value;
  }
  return sum;
}

}  // namespace lathe::tuner
