#include "core/support/node.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "core/support/error.h"
#include "core/support/node_map.h"

namespace lathe {

namespace detail {
/// The last reference to a node is gone. Deleting it may take the last references to its children: they wait
/// in the list of the outermost call, so that a chain of 100,000 nodes needs no deeper stack than one. One
/// list a thread.
/// Each thread may drop the last reference to another's nodes: counts are atomic, lists are not shared.
void destroy(const Node* node) {
  thread_local std::vector<const Node*>* draining = nullptr;
  if (draining) {
    draining->push_back(node);
    return;
  }
  std::vector<const Node*> pending{node};
  draining = &pending;
  while (!pending.empty()) {
    const Node* next = pending.back();
    pending.pop_back();
    delete next;
  }
  draining = nullptr;
}
}  // namespace detail

uint32_t Node::next_serial() {
  static std::atomic<uint32_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

namespace {
/// A 1:1 correspondence of the nodes of two graphs.
class Correspondence {
 public:
  /// 1: a stands for b; -1: one of them stands for another; 0: neither is known.
  int holds(const Node* a, const Node* b) const {
    // Both ways, for two names on one side must not stand for one on the other.
    auto forward = forward_.find(a);
    if (forward != forward_.end()) return forward->second == b ? 1 : -1;
    return backward_.count(b) ? -1 : 0;
  }
  void add(const Node* a, const Node* b) {
    forward_[a] = b;
    backward_.insert(b);
  }
  bool empty() const { return forward_.empty(); }

 private:
  std::unordered_map<const Node*, const Node*> forward_;
  std::unordered_set<const Node*> backward_;
};

/// Compares pairs of fields from a list instead of by recursion. Nodes with an identity are equal when they
/// stand for each other everywhere; those without are compared anew wherever they occur.
/// A list, since a program or a graph may be 100,000 nodes deep.
class Equality {
 public:
  explicit Equality(bool map_free) : map_free_(map_free) {}

  bool equal(const Node* a, const Node* b) {
    push(a, b, FieldRole::kValue);
    while (!stack_.empty()) {
      auto [x, y] = stack_.back();
      stack_.pop_back();
      if (!(x.tag == Cell::Tag::kNode ? nodes_equal(x, y) : leaves_equal(x, y))) return false;
    }
    return true;
  }

 private:
  void push(const Node* a, const Node* b, FieldRole role) {
    Cell x{.tag = Cell::Tag::kNode, .role = role, .node = a}, y = x;
    y.node = b;
    stack_.emplace_back(x, y);
  }

  static bool leaves_equal(const Cell& x, const Cell& y) {
    // By bits: a NaN is equal to itself here, and 0.0 is not -0.0.
    return x.integer == y.integer && x.text == y.text && std::memcmp(&x.real, &y.real, sizeof(double)) == 0;
  }

  bool nodes_equal(const Cell& x, const Cell& y) {
    const Node *a = x.node, *b = y.node;
    if (!a || !b) return a == b;
    if (&a->type() != &b->type()) return false;
    Identity identity = a->type().identity;
    // One node on both sides is equal to itself only while nothing in it can stand for something else.
    // A tree may hold names that have been mapped to others by now.
    if (identity == Identity::kTree) return (a == b && known_.empty()) || push_fields(*a, *b);
    if (int holds = known_.holds(a, b)) return holds > 0;
    // A free name: defined outside, so only itself.
    if (identity == Identity::kName && x.role != FieldRole::kDef && !map_free_ && a != b) return false;
    // Before the fields, in which the two may occur again.
    known_.add(a, b);
    return push_fields(*a, *b);
  }

  bool push_fields(const Node& a, const Node& b) {
    std::vector<Cell> x, y;
    a.append_cells(x);
    b.append_cells(y);
    size_t mark = stack_.size();
    size_t i = 0, j = 0;
    for (;; ++i, ++j) {
      // A kInfo container may differ in size, so the two sides skip on their own.
      // kInfo is spans, cached types and the like: two programs are equal whatever is known about them.
      while (i < x.size() && x[i].role == FieldRole::kInfo) ++i;
      while (j < y.size() && y[j].role == FieldRole::kInfo) ++j;
      if (i == x.size() || j == y.size()) break;
      if (x[i].tag != y[j].tag) return false;
      stack_.emplace_back(x[i], y[j]);
    }
    if (i != x.size() || j != y.size()) return false;
    // The first field on top: fields are compared in the order in which they are declared.
    std::reverse(stack_.begin() + static_cast<long>(mark), stack_.end());
    return true;
  }

  bool map_free_;
  Correspondence known_;
  std::vector<std::pair<Cell, Cell>> stack_;
};

/// Combines as Boost does, and spreads by a step of MurmurHash3's finalizer.
/// The values are kept in databases (fingerprints of programs), so these constants are for good.
uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccdull;
  return hash ^ (hash >> 33);
}

/// FNV-1a: std::hash may differ between libraries.
uint64_t hash_text(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (unsigned char byte : text) hash = (hash ^ byte) * 0x100000001b3ull;
  return hash;
}
}  // namespace

void post_order(const NodeRef& root, FunctionRef<void(const NodeRef&)> f) {
  if (!root) return;
  struct Pending {
    const Node* node;  // alive: the root holds it
    bool entered;
  };
  // A node stays on the stack while its children are visited, and is called when it is met again.
  std::vector<Pending> stack{{root.get(), false}};
  NodeSet seen;
  // Every node once, however often it is shared; O(nodes + edges).
  while (!stack.empty()) {
    auto [node, entered] = stack.back();
    if (entered || !seen.insert(node)) {
      stack.pop_back();
      if (entered) f(NodeRef(node));
      continue;
    }
    stack.back().entered = true;
    size_t mark = stack.size();
    // Reversed below, so that the first child comes off the stack first.
    node->for_each_child([&](const NodeRef& child) { stack.push_back({child.get(), false}); });
    std::reverse(stack.begin() + static_cast<long>(mark), stack.end());
  }
}

NodeRef rewrite(const NodeRef& root, FunctionRef<NodeRef(const NodeRef&)> f) {
  // By the old node's address, which the root keeps alive; a shared node is rewritten once, and stays shared.
  NodeMap<NodeRef> done;
  auto replaced = [&](const NodeRef& child) { return done.at(child.get()); };
  post_order(root, [&](const NodeRef& node) { done[node.get()] = f(node->map_children(replaced)); });
  return root ? done.at(root.get()) : root;
}

bool structural_equal(const NodeRef& a, const NodeRef& b, bool map_free) {
  return Equality(map_free).equal(a.get(), b.get());
}

uint64_t structural_hash(const NodeRef& root) {
  // Nodes with an identity count as their number, in order of first occurrence: names and addresses have no
  // say.
  std::unordered_map<const Node*, uint64_t> ordinals;
  std::vector<Cell> stack{{.tag = Cell::Tag::kNode, .role = FieldRole::kValue, .node = root.get()}};
  uint64_t hash = 0;
  std::vector<Cell> cells;
  while (!stack.empty()) {
    Cell cell = stack.back();
    stack.pop_back();
    // Roles other than kInfo hash alike: equality tells a definition from a use where the two would differ.
    switch (cell.tag) {
      case Cell::Tag::kInt:
        hash = mix(hash, static_cast<uint64_t>(cell.integer));
        continue;
      case Cell::Tag::kText:
        hash = mix(hash, hash_text(cell.text));
        continue;
      case Cell::Tag::kFloat: {
        uint64_t bits;
        std::memcpy(&bits, &cell.real, sizeof bits);
        hash = mix(hash, bits);
        continue;
      }
      case Cell::Tag::kNode:
        break;
    }
    // Null hashes as 1 and a known name as 2 and more, so that neither looks like the other.
    if (!cell.node) {
      hash = mix(hash, 1);
      continue;
    }
    if (cell.node->type().identity != Identity::kTree) {
      auto [found, is_new] = ordinals.emplace(cell.node, ordinals.size());
      if (!is_new) {
        hash = mix(hash, 2 + found->second);
        continue;
      }
    }
    hash = mix(hash, hash_text(cell.node->type().name));
    cells.clear();
    cell.node->append_cells(cells);
    for (size_t i = cells.size(); i-- > 0;)
      if (cells[i].role != FieldRole::kInfo) stack.push_back(cells[i]);
  }
  return hash;
}

}  // namespace lathe
