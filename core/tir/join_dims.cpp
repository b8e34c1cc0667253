#include "core/tir/join_dims.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/arith/simplify.h"
#include "core/tir/dims.h"
#include "core/tir/regions.h"

namespace lathe::tir {
namespace {

/// A dimension of a buffer and the one behind it.
using Place = std::pair<const BufferNode*, size_t>;
/// Two variables of a block.
using Pair = std::pair<const VarNode*, const VarNode*>;

/// Places and pairs that are joined all or not at all: a pair of variables indexes the places.
struct Group {
  std::set<Place> places;
  std::set<Pair> pairs;
  bool joins = true;
};

/// Windows of one element: their variables are 0.
Func without_single_variables(const Func& func) {
  NodeRef result = rewrite(func, [](const NodeRef& node) -> NodeRef {
    const Block* block = node.as<Block>();
    if (!block) return node;
    VarMap zeros;
    for (const BlockIter& iter : block->iters)
      if (is_int(iter.extent, 1)) zeros[iter.var.get()] = Expr(0);
    if (zeros.empty()) return node;
    NodeRef body = rewrite(substitute(block->body, zeros), [](const NodeRef& inner) -> NodeRef {
      const Load* load = inner.as<Load>();
      if (!load) return inner;
      auto copy = mutate(*load);
      for (Expr& index : copy->indices) index = simplify(index);
      return seal(std::move(copy));
    });
    auto copy = mutate(*block);
    copy->body = body.cast<StmtNode>();
    if (copy->init) copy->init = substitute(copy->init, zeros);
    return seal(std::move(copy));
  });
  return result.cast<FuncNode>();
}

class Grouping {
 public:
  explicit Grouping(const Func& func) {
    post_order(func->body, [&](const NodeRef& node) {
      if (const Block* block = node.as<Block>()) add(*block);
    });
  }

  /// One that joins, or null.
  const Group* found() const {
    for (const Group& group : groups_) {
      std::set<const BufferNode*> buffers;
      for (const auto& [buffer, dim] : group.places) buffers.insert(buffer);
      // Of two pairs of dimensions of one buffer the second would stand elsewhere once the first is joined.
      if (group.joins && !group.pairs.empty() && buffers.size() == group.places.size()) return &group;
    }
    return nullptr;
  }

 private:
  /// The block's variable that the index is.
  static const BlockIter* variable(const Block& block, const Expr& index) {
    for (const BlockIter& iter : block.iters)
      if (index.same_as(iter.var.get())) return &iter;
    return nullptr;
  }

  void add(const Block& block) {
    std::set<Pair> pairs;
    auto add_all = [&](const Stmt& stmt) {
      if (!stmt) return;
      post_order(stmt, [&](const NodeRef& node) {
        if (const Load* load = node.as<Load>()) add(block, load->buffer, load->indices, pairs);
        if (const Store* store = node.as<Store>()) add(block, store->buffer, store->indices, pairs);
      });
    };
    if (block.iters.empty()) return keep_apart(block);
    add_all(block.init);
    add_all(block.body);
    for (const Pair& pair : pairs)
      if (is_used_elsewhere(block, pair)) group_of(pair).joins = false;
  }

  /// What a statement of loops of its own reads and writes (sorts, scatters). The root holds blocks instead,
  /// which are met themselves.
  void keep_apart(const Block& block) {
    bool holds_blocks = false;
    post_order(block.body, [&](const NodeRef& node) { holds_blocks |= node.as<Block>() != nullptr; });
    if (holds_blocks) return;
    auto refuse = [&](const Buffer& buffer) {
      for (size_t d = 0; d + 1 < buffer->shape.size(); ++d) group_of(Place{buffer.get(), d}).joins = false;
    };
    post_order(block.body, [&](const NodeRef& node) {
      if (const Load* load = node.as<Load>()) refuse(load->buffer);
      if (const Store* store = node.as<Store>()) refuse(store->buffer);
    });
  }

  void add(const Block& block, const Buffer& buffer, const std::vector<Expr>& indices,
           std::set<Pair>& pairs) {
    for (size_t d = 0; d + 1 < indices.size(); ++d) {
      const BlockIter *high = variable(block, indices[d]), *low = variable(block, indices[d + 1]);
      const bool open = !as_int(buffer->shape[d]) && !as_int(buffer->shape[d + 1]);
      const bool pairs_up = high && low && high != low;
      const bool whole = open && pairs_up && high->kind == low->kind &&
                         prove_equal(high->extent, buffer->shape[d]) &&
                         prove_equal(low->extent, buffer->shape[d + 1]);
      const Place place{buffer.get(), d};
      if (open && !whole) group_of(place).joins = false;
      if (!pairs_up) continue;
      const Pair pair{high->var.get(), low->var.get()};
      if (whole) {
        pairs.insert(pair);
        unite(place, pair);
      } else {
        group_of(pair).joins = false;
      }
    }
  }

  /// One of the variables occurs other than as an index next to the other.
  static bool is_used_elsewhere(const Block& block, const Pair& pair) {
    auto is_pair = [&](const std::vector<Expr>& indices, size_t d) {
      return d + 1 < indices.size() && indices[d].same_as(pair.first) && indices[d + 1].same_as(pair.second);
    };
    bool found = false;
    auto without_pair = [&](std::vector<Expr> indices) {
      for (size_t d = 0; d < indices.size(); ++d)
        if (is_pair(indices, d)) indices[d] = indices[d + 1] = Expr(0);
      return indices;
    };
    for (const Stmt& stmt : {block.init, block.body}) {
      if (!stmt) continue;
      NodeRef rest = rewrite(stmt, [&](const NodeRef& node) -> NodeRef {
        if (const Load* load = node.as<Load>()) return tir::load(load->buffer, without_pair(load->indices));
        if (const Store* store = node.as<Store>())
          return tir::store(store->buffer, without_pair(store->indices), store->value);
        return node;
      });
      post_order(
          rest, [&](const NodeRef& node) { found |= node.get() == pair.first || node.get() == pair.second; });
    }
    return found;
  }

  template <typename Key>
  static std::set<Key>& keys(Group& group) {
    if constexpr (std::is_same_v<Key, Place>)
      return group.places;
    else
      return group.pairs;
  }

  template <typename Key>
  Group& group_of(const Key& key) {
    for (Group& group : groups_)
      if (keys<Key>(group).count(key)) return group;
    groups_.emplace_back();
    keys<Key>(groups_.back()).insert(key);
    return groups_.back();
  }

  void unite(const Place& place, const Pair& pair) {
    group_of(pair);
    Group& into = group_of(place);
    if (into.pairs.count(pair)) return;
    auto from = std::find_if(groups_.begin(), groups_.end(),
                             [&](const Group& group) { return group.pairs.count(pair) != 0; });
    into.places.merge(from->places);
    into.pairs.merge(from->pairs);
    into.joins &= from->joins;
    groups_.erase(from);
  }

  std::vector<Group> groups_;  // a handful
};

/// `func` with the two dimensions and variables of each member of the group as one.
Func joined(const Func& func, const Group& group) {
  std::map<const Node*, size_t> dims;  // of the new buffers
  std::map<const Node*, Expr> outer;   // loop variables of the first of a pair, with the new extent
  std::set<const Node*> inner;         // those of the second
  auto pair_with = [&](const VarNode* var, bool first) {
    return std::find_if(group.pairs.begin(), group.pairs.end(),
                        [&](const Pair& pair) { return (first ? pair.first : pair.second) == var; });
  };
  post_order(func->body, [&](const NodeRef& node) {
    const Block* block = node.as<Block>();
    if (!block) return;
    for (const BlockIter& high : block->iters)
      for (const BlockIter& low : block->iters)
        if (group.pairs.count({high.var.get(), low.var.get()})) {
          outer[high.value.get()] = simplify(high.extent * low.extent);
          inner.insert(low.value.get());
        }
  });
  NodeRef result = rewrite(func, [&](const NodeRef& node) -> NodeRef {
    if (const auto* buffer = node.as<BufferNode>()) {
      auto place = std::find_if(group.places.begin(), group.places.end(),
                                [&](const Place& each) { return each.first == buffer; });
      if (place == group.places.end()) return node;
      auto copy = mutate(*buffer);
      const auto low = copy->shape.begin() + static_cast<int64_t>(place->second) + 1;
      copy->shape[place->second] = simplify(*(low - 1) * *low);
      copy->shape.erase(low);
      Buffer sealed = seal(std::move(copy));
      dims[sealed.get()] = place->second;
      return sealed;
    }
    auto without_low = [&](const Buffer& buffer, std::vector<Expr> indices) {
      if (auto dim = dims.find(buffer.get()); dim != dims.end())
        indices.erase(indices.begin() + static_cast<int64_t>(dim->second) + 1);
      return indices;
    };
    if (const Load* load = node.as<Load>())
      return tir::load(load->buffer, without_low(load->buffer, load->indices));
    if (const Store* store = node.as<Store>())
      return tir::store(store->buffer, without_low(store->buffer, store->indices), store->value);
    if (const For* loop = node.as<For>()) {
      if (inner.count(loop->var.get())) return loop->body;
      auto found = outer.find(loop->var.get());
      if (found == outer.end()) return node;
      auto copy = mutate(*loop);
      copy->extent = found->second;
      return seal(std::move(copy));
    }
    const Block* block = node.as<Block>();
    if (!block || block->iters.empty()) return node;
    auto copy = mutate(*block);
    std::erase_if(copy->iters, [&](const BlockIter& iter) {
      return pair_with(iter.var.get(), false) != group.pairs.end();
    });
    for (BlockIter& iter : copy->iters)
      if (pair_with(iter.var.get(), true) != group.pairs.end()) iter.extent = outer.at(iter.value.get());
    Accesses accesses = block_accesses(copy->iters, copy->init, copy->body);
    copy->reads = std::move(accesses.reads);
    copy->writes = std::move(accesses.writes);
    return seal(std::move(copy));
  });
  return result.cast<FuncNode>();
}

}  // namespace

Func join_open_dims(const Func& func) {
  if (dims_of(*func).size() < 2) return func;
  Func result = without_single_variables(func);
  bool any = false;
  for (;;) {
    const Grouping grouping(result);
    const Group* group = grouping.found();
    if (!group) return any ? result : func;
    result = joined(result, *group);
    any = true;
  }
}

}  // namespace lathe::tir
