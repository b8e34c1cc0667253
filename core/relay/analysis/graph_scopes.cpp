#include "core/relay/analysis/graph_scopes.h"

#include <algorithm>

#include "core/relay/functor.h"

namespace lathe::relay {
namespace {

/// Every expression under `root` but leaves, operands first.
std::vector<Expr> operands_first(const Expr& root) {
  std::vector<Expr> order;
  NodeMap<bool> finished;
  std::vector<Expr> stack{root};
  while (!stack.empty()) {
    // A node is met twice: first it puts its operands above itself, then, when they are done, it is next in
    // order.
    Expr top = stack.back();
    auto [state, is_new] = finished.insert(top.get());
    if (!is_new || is_leaf(top)) {
      stack.pop_back();
      if (!is_leaf(top) && !std::exchange(*state, true)) order.push_back(top);
      continue;
    }
    size_t first = stack.size();
    for_each_operand(top, [&](const Expr& operand, bool) {
      if (!is_leaf(operand) && !finished.count(operand.get())) stack.push_back(operand);
    });
    std::reverse(stack.begin() + static_cast<long>(first), stack.end());
  }
  return order;
}

/// The tree of scopes, with jump pointers: the nearest common ancestor is found in O(log depth).
class ScopeTree {
 public:
  int add(int parent) {
    int id = static_cast<int>(nodes_.size());
    if (parent < 0) {
      nodes_.push_back({0, 0, 0});
      return id;
    }
    const Scope& p = nodes_[parent];
    const Scope& jump = nodes_[p.jump];
    // Two jumps of the same length above the parent become one of both and the step to it, as carries do in
    // skew binary numbers (Myers 1983, "An applicative random-access stack").
    bool doubles = p.depth - jump.depth == jump.depth - nodes_[jump.jump].depth;
    nodes_.push_back({parent, doubles ? jump.jump : parent, p.depth + 1});
    return id;
  }
  /// First to the same depth, then up together: jumps of nodes of one depth are equally long, so a jump is
  /// safe as long as it leads to different scopes.
  int common(int a, int b) const {
    if (nodes_[a].depth < nodes_[b].depth) std::swap(a, b);
    while (nodes_[a].depth > nodes_[b].depth)
      a = nodes_[nodes_[a].jump].depth >= nodes_[b].depth ? nodes_[a].jump : nodes_[a].parent;
    while (a != b) {
      bool far = nodes_[a].jump != nodes_[b].jump;
      a = far ? nodes_[a].jump : nodes_[a].parent;
      b = far ? nodes_[b].jump : nodes_[b].parent;
    }
    return a;
  }
  std::vector<int> parents() const {
    std::vector<int> result;
    for (const Scope& each : nodes_) result.push_back(each.parent);
    return result;
  }

 private:
  struct Scope {
    int parent, jump, depth;
  };
  std::vector<Scope> nodes_;
};

}  // namespace

bool is_leaf(const Expr& e) {
  switch (e->kind()) {
    case ExprKind::kConstant:
    case ExprKind::kVar:
    case ExprKind::kGlobalVar:
    case ExprKind::kOp:
    case ExprKind::kConstructor:
    case ExprKind::kPrimFunc:
    case ExprKind::kExternFunc:
      return true;
    default:
      return false;
  }
}

GraphScopes graph_scopes(const Expr& root) {
  GraphScopes result;
  ScopeTree tree;
  tree.add(-1);
  std::vector<Expr> order = operands_first(root);
  // Users come before what they use, so a place is final when its turn comes.
  if (!is_leaf(root)) result.places[root.get()].uses = 1;
  for (auto e = order.rbegin(); e != order.rend(); ++e) {
    int scope = result.places[e->get()].scope;
    std::vector<int> bodies;
    for_each_operand(*e, [&](const Expr& operand, bool in_scope) {
      int used_in = scope;
      if (!in_scope) bodies.push_back(used_in = tree.add(scope));
      if (is_leaf(operand)) return;
      // The innermost scope that holds all uses is the nearest common ancestor of theirs.
      auto [place, is_new] = result.places.insert(operand.get());
      place->scope = is_new ? used_in : tree.common(place->scope, used_in);
      place->uses += 1;
    });
    result.places[e->get()].bodies = std::move(bodies);
  }
  result.parents = tree.parents();
  result.members.resize(result.parents.size());
  for (const Expr& e : order) result.members[result.places.at(e.get()).scope].push_back(e);
  return result;
}

}  // namespace lathe::relay
