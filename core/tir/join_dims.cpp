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

/// What an index of a block may be: a variable of its own, or of a loop in a statement that is all of it.
struct Variable {
  const VarNode* var;
  Expr extent;
  IterKind kind = IterKind::kSpatial;
  std::vector<const For*> loops;  // of the variable; none of a block's own
};

/// Of a block's own, or of the loops in its statement (sorts, scatters).
std::vector<Variable> variables_of(const Block& block) {
  std::vector<Variable> variables;
  for (const BlockIter& iter : block.iters) variables.push_back({iter.var.get(), iter.extent, iter.kind, {}});
  if (!block.iters.empty()) return variables;
  post_order(block.body, [&](const NodeRef& node) {
    const For* loop = node.as<For>();
    if (!loop) return;
    auto known = std::find_if(variables.begin(), variables.end(),
                              [&](const Variable& each) { return each.var == loop->var.get(); });
    if (known == variables.end())
      variables.push_back({loop->var.get(), loop->extent, IterKind::kSpatial, {loop}});
    else
      known->loops.push_back(loop);
  });
  return variables;
}

/// The two stand at neighbouring places of `indices`, from `d` on.
bool is_pair(const Pair& pair, const std::vector<Expr>& indices, size_t d) {
  return d + 1 < indices.size() && indices[d].same_as(pair.first) && indices[d + 1].same_as(pair.second);
}

/// For other values of the pair the statement writes elsewhere, if it is memory from outside.
bool writes_apart(const Stmt& stmt, const Pair& pair) {
  std::set<const BufferNode*> inside;
  bool apart = true;
  post_order(stmt, [&](const NodeRef& node) {
    if (const Alloc* alloc = node.as<Alloc>()) inside.insert(alloc->buffer.get());
  });
  post_order(stmt, [&](const NodeRef& node) {
    const Store* store = node.as<Store>();
    if (!store || inside.count(store->buffer.get())) return;
    bool found = false;
    for (size_t d = 0; d + 1 < store->indices.size(); ++d) found |= is_pair(pair, store->indices, d);
    apart &= found;
  });
  return apart;
}

/// Loops of which each of the first does nothing but one of the second. One loop instead runs as the first
/// does: on all cores only where the iterations of the second are apart, too.
bool is_nest(const Variable& high, const Variable& low) {
  if (high.loops.size() != low.loops.size()) return false;
  return std::all_of(high.loops.begin(), high.loops.end(), [&](const For* loop) {
    const For* inner = loop->body.as<For>();
    return inner && inner->var.get() == low.var && prove_equal(loop->extent, high.extent) &&
           prove_equal(inner->extent, low.extent) &&
           (loop->iteration == Iteration::kSerial || inner->iteration == loop->iteration ||
            writes_apart(inner->body, {high.var, low.var}));
  });
}

class Grouping {
 public:
  explicit Grouping(const Func& func) {
    std::vector<const Block*> blocks;
    post_order(func->body, [&](const NodeRef& node) {
      if (const Block* block = node.as<Block>(); block && !holds_blocks(*block)) blocks.push_back(block);
    });
    for (const Block* block : blocks)
      if (!block->iters.empty())
        for (const Stmt& stmt : {block->init, block->body}) note_scheduled(stmt);
    for (const Block* block : blocks) add(*block);
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
  /// The root, and no statement.
  static bool holds_blocks(const Block& block) {
    bool found = false;
    post_order(block.body, [&](const NodeRef& node) { found |= node.as<Block>() != nullptr; });
    return found;
  }

  void note_scheduled(const Stmt& stmt) {
    if (!stmt) return;
    post_order(stmt, [&](const NodeRef& node) {
      if (const Load* load = node.as<Load>()) scheduled_.insert(load->buffer.get());
      if (const Store* store = node.as<Store>()) scheduled_.insert(store->buffer.get());
    });
  }

  /// Tiles of what schedules take apart are better where an extent is a number. Statements that are run as
  /// they are have one long loop instead of short ones. A product with none is none, and no dimension of the
  /// program any more, which callers look for.
  bool may_join(const Buffer& buffer, size_t d) const {
    if (is_int(buffer->shape[d], 0) || is_int(buffer->shape[d + 1], 0)) return false;
    const bool open = !as_int(buffer->shape[d]), open_behind = !as_int(buffer->shape[d + 1]);
    return (open && open_behind) || !scheduled_.count(buffer.get());
  }

  void add(const Block& block) {
    const std::vector<Variable> variables = variables_of(block);
    std::set<Pair> pairs;
    for (const Stmt& stmt : {block.init, block.body}) {
      if (!stmt) continue;
      post_order(stmt, [&](const NodeRef& node) {
        if (const Load* load = node.as<Load>()) add(variables, load->buffer, load->indices, pairs);
        if (const Store* store = node.as<Store>()) add(variables, store->buffer, store->indices, pairs);
      });
    }
    for (const Pair& pair : pairs)
      if (is_used_elsewhere(block, variables, pair)) group_of(pair).joins = false;
  }

  void add(const std::vector<Variable>& variables, const Buffer& buffer, const std::vector<Expr>& indices,
           std::set<Pair>& pairs) {
    auto variable = [&](const Expr& index) {
      auto found = std::find_if(variables.begin(), variables.end(),
                                [&](const Variable& each) { return index.same_as(each.var); });
      return found == variables.end() ? nullptr : &*found;
    };
    for (size_t d = 0; d + 1 < indices.size(); ++d) {
      const Variable *high = variable(indices[d]), *low = variable(indices[d + 1]);
      const bool joins = may_join(buffer, d);
      const bool pairs_up = high && low && high != low && is_nest(*high, *low);
      const bool whole = joins && pairs_up && high->kind == low->kind &&
                         prove_equal(high->extent, buffer->shape[d]) &&
                         prove_equal(low->extent, buffer->shape[d + 1]);
      const Place place{buffer.get(), d};
      if (joins && !whole) group_of(place).joins = false;
      if (!pairs_up) continue;
      const Pair pair{high->var, low->var};
      if (whole) {
        pairs.insert(pair);
        unite(place, pair);
      } else {
        group_of(pair).joins = false;
      }
    }
  }

  /// One of the variables occurs other than as an index next to the other.
  static bool is_used_elsewhere(const Block& block, const std::vector<Variable>& variables,
                                const Pair& pair) {
    std::vector<Stmt> uses{block.init, block.body};
    for (const Variable& each : variables) {
      if (each.var != pair.second || each.loops.empty()) continue;
      uses.clear();
      for (const For* loop : each.loops) uses.push_back(loop->body);
    }
    bool found = false;
    auto without_pair = [&](std::vector<Expr> indices) {
      for (size_t d = 0; d < indices.size(); ++d)
        if (is_pair(pair, indices, d)) indices[d] = indices[d + 1] = Expr(0);
      return indices;
    };
    for (const Stmt& stmt : uses) {
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

  std::set<const BufferNode*> scheduled_;  // that blocks which schedules take apart read or write
  std::vector<Group> groups_;              // a handful
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
    const For* loop = node.as<For>();
    const For* behind = loop ? loop->body.as<For>() : nullptr;
    if (behind && group.pairs.count({loop->var.get(), behind->var.get()})) {
      outer[loop->var.get()] = simplify(loop->extent * behind->extent);
      inner.insert(behind->var.get());
    }
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
    if (!block) return node;
    auto copy = mutate(*block);
    if (block->iters.empty()) {
      // What its statement touches is declared whole (FuncBuilder::opaque).
      for (std::vector<Region>* regions : {&copy->reads, &copy->writes})
        for (Region& region : *regions)
          if (dims.count(region.buffer.get())) region = whole(region.buffer);
      return seal(std::move(copy));
    }
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
  if (dims_of(*func).empty()) return func;
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
