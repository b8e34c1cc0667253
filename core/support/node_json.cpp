#include <nlohmann/json.hpp>
#include <unordered_map>

#include "core/support/error.h"
#include "core/support/node.h"

namespace lathe {

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
    for (size_t i = 0; i < nodes.size(); ++i) nodes[i]->read_fields(fields[i], node);
    int64_t root = json.at("root").get<int64_t>();
    return root < 0 ? NodeRef() : node(root);
  } catch (const nlohmann::json::exception& e) {
    fail("json: {}", e.what());
  } catch (const std::logic_error& e) {  // std::stod, std::stoi
    fail("json: malformed number ({})", e.what());
  }
}

}  // namespace lathe
