#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "core/support/error.h"
#include "core/support/node_impl.h"
#include "core/support/printable.h"

namespace lathe {
namespace {
/// The most nodes on a way from one to another: some walkers recurse.
constexpr int64_t kMaxDepth = 3000;

/// The most visits that comparing and hashing may take: to a node without an identity wherever it occurs.
constexpr int64_t kMaxVisits = 1 << 22;

/// Refuses what no walker can follow to its end: circles, ways that are too long, and children shared level
/// after level, of which there are exponentially many ways. `children`: the nodes that each one refers to.
void check_references(const std::vector<Node*>& nodes, const std::vector<std::vector<int64_t>>& children) {
  std::vector<int64_t> parents(nodes.size()), depth(nodes.size(), 1), visits(nodes.size()), ready;
  int64_t all_visits = 0;
  for (const std::vector<int64_t>& list : children)
    for (int64_t child : list) ++parents[child];
  for (size_t i = 0; i < children.size(); ++i)
    if (parents[i] == 0) ready.push_back(static_cast<int64_t>(i));
  // Each node after all that refer to it; those of a circle wait for each other.
  for (size_t next = 0; next < ready.size(); ++next) {
    const int64_t parent = ready[next];
    if (depth[parent] > kMaxDepth) fail("json: nodes nested more than {} deep", kMaxDepth);
    if (visits[parent] == 0 || nodes[parent]->type().identity != Identity::kTree) visits[parent] = 1;
    all_visits += visits[parent];
    if (all_visits > kMaxVisits) fail("json: nodes that occur more than {} times", kMaxVisits);
    for (int64_t child : children[parent]) {
      visits[child] += visits[parent];
      depth[child] = std::max(depth[child], depth[parent] + 1);
      if (--parents[child] == 0) ready.push_back(child);
    }
  }
  if (ready.size() != children.size()) fail("json: nodes refer to each other in a circle");
}
}  // namespace

namespace reflect {

double not_finite(std::string_view text) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == "inf") return kInfinity;
  if (text == "-inf") return -kInfinity;
  if (text == "nan" || text == "-nan") return std::numeric_limits<double>::quiet_NaN();
  fail("json: `{}` is no number", printable(text.substr(0, 20)));
}

void read_hex(std::string_view digits, uint8_t* bytes) {
  for (; !digits.empty(); digits.remove_prefix(2)) {
    const std::string_view byte = digits.substr(0, 2);
    const auto read = std::from_chars(byte.begin(), byte.end(), *bytes++, 16);
    if (byte.size() < 2 || read.ec != std::errc() || read.ptr != byte.end())
      fail("json: `{}` is no byte of a tensor", printable(byte));
  }
}

}  // namespace reflect

std::string save_json(const NodeRef& root) {
  std::unordered_map<const Node*, int64_t> ids;
  std::vector<const Node*> order;
  auto id = [&](const Node* node) {
    auto [found, is_new] = ids.emplace(node, static_cast<int64_t>(order.size()));
    if (is_new) order.push_back(node);
    return found->second;
  };
  // The root gets number 0.
  if (root) id(root.get());
  nlohmann::json nodes = nlohmann::json::array();
  for (size_t next = 0; next < order.size();
       ++next) {  // writing a node's fields appends its children to `order`
    nlohmann::json fields = order[next]->write_fields(id);
    fields["type"] = order[next]->type().name;
    nodes.push_back(std::move(fields));
  }
  return nlohmann::json{{"root", root ? 0 : -1}, {"nodes", std::move(nodes)}}.dump();
}

NodeRef load_json(std::string_view text, const NodeTable& types) {
  std::unordered_map<std::string, const NodeType*> by_name;
  for (const NodeType* type : types) by_name[type->name] = type;
  try {
    nlohmann::json json = nlohmann::json::parse(text);
    const nlohmann::json& fields = json.at("nodes");
    std::vector<Node*> nodes;
    // All nodes are made first and filled then, so that fields may refer to any of them.
    std::vector<NodeRef> owners;
    for (const nlohmann::json& each : fields) {
      auto found = by_name.find(each.at("type").get<std::string>());
      if (found == by_name.end()) fail("json: unknown node type `{}`", each.at("type").get<std::string>());
      nodes.push_back(found->second->create());
      owners.emplace_back(nodes.back());
    }
    auto node = [&](int64_t id) -> NodeRef {
      if (id < 0 || id >= static_cast<int64_t>(nodes.size())) fail("json: node {} of {}", id, nodes.size());
      return owners[id];
    };
    // First into nodes that are dropped, for the references alone: nodes that refer to each other in a circle
    // would never be freed.
    std::vector<std::vector<int64_t>> children(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      NodeRef dropped(nodes[i]->type().create());
      const_cast<Node*>(dropped.get())->read_fields(fields[i], [&](int64_t id) {
        children[i].push_back(id);
        return node(id);
      });
    }
    check_references(nodes, children);
    for (size_t i = 0; i < nodes.size(); ++i) nodes[i]->read_fields(fields[i], node);
    int64_t root = json.at("root").get<int64_t>();
    return root < 0 ? NodeRef() : node(root);
  } catch (const nlohmann::json::exception& e) {
    fail("json: {}", e.what());
  }
}

}  // namespace lathe
