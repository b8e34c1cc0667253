#include "core/relay/passes/fuse_ops.h"

#include <algorithm>
#include <unordered_map>

#include "core/arith/simplify.h"
#include "core/relay/analysis/calls.h"
#include "core/relay/functor.h"
#include "core/relay/op.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::relay {
namespace {

/// Groups of more operators than this stop growing: the kernels would take long to compile and gain nothing.
constexpr size_t kMaxGroup = 256;
/// And so do those whose kernel would compute more operators an element: what is inlined where it is used
/// twice is computed twice, and in a chain that doubles at each step.
constexpr size_t kMaxComputed = 4096;

/// And those that would take more arguments (each time that they are read counts), which concatenations of
/// concatenations do: a kernel of thousands is compiled for minutes.
constexpr size_t kMaxArguments = 320;

/// A graph node with its uses. Indices are in post-order: operands come first.
struct GraphNode {
  Expr expr;
  Fusion pattern = Fusion::kOpaque;
  bool external = false;  // used by something that cannot be in a group: never the inside of one
  struct Use {
    size_t user;
    Fusion edge;
  };
  std::vector<Use> uses;
};

bool is_scalar_constant(const Expr& e) {
  const auto* c = e.as<Constant>();
  return c && c->value.shape().empty();
}

/// A reshape whose result is read by dividing a place by sizes that only a run tells, (i // w, i % w), for
/// each element or a few: alone it costs nothing, for it is a view.
bool divides_by_open_sizes(const Op& op, const Expr& e) {
  const Call& call = *e.as<Call>();
  const auto* to = e->checked_type.as<TensorType>();
  const auto* from = call.args.empty() ? nullptr : call.args[0]->checked_type.as<TensorType>();
  if (!op.keeps_order || !from || !to || has_constant_shape(*from)) return false;
  if (!op.keeps_order(call.attrs, from, to)) return false;
  // Dimensions that both begin or end with stay as they are.
  size_t first = 0, from_end = from->shape.size(), to_end = to->shape.size();
  int64_t together = 1;  // elements that one division serves
  for (; from_end > 0 && to_end > 0; --from_end, --to_end) {
    const lathe::Expr& extent = from->shape[from_end - 1];
    if (!prove_equal(extent, to->shape[to_end - 1])) break;
    together *= as_int(extent) ? int_value(extent) : 1;
  }
  constexpr int64_t kVector = 16;
  if (together >= kVector) return false;
  while (first < std::min(from_end, to_end) && prove_equal(from->shape[first], to->shape[first])) ++first;
  // The outermost of those that become others is what is left.
  for (++first; first < from_end; ++first)
    if (!as_int(from->shape[first])) return true;
  return false;
}

/// What `take` reads rows of, where a transposition made them rows, reshaped or not: within the kernel that
/// takes them they would be read element by element. Unless few are taken of many.
bool takes_transposed_rows(const Call& call) {
  const auto* take = call.attrs.as<TakeAttrs>();
  if (!take || !take->axis) return false;
  const auto& data = *call.args[0]->checked_type.as<TensorType>();
  const auto& taken = *call.checked_type.as<TensorType>();
  constexpr int64_t kFew = 8;  // a sample takes several rows, each by itself
  if (has_constant_shape(data) && has_constant_shape(taken) &&
      shape_size(constant_shape(taken)) < shape_size(constant_shape(data)) / kFew)
    return false;
  const auto rank = static_cast<int64_t>(data.shape.size());
  if (*take->axis == -1 || *take->axis == rank - 1) return false;
  const Call* from = call.args[0].as<Call>();
  if (from && from->attrs.as<ReshapeAttrs>()) from = from->args[0].as<Call>();
  const auto* transposition = from ? from->attrs.as<TransposeAttrs>() : nullptr;
  if (!transposition) return false;
  const std::optional<Ints>& axes = transposition->axes;
  const auto last = static_cast<int64_t>(from->args[0]->checked_type.as<TensorType>()->shape.size()) - 1;
  return !axes || (axes->back() != last && axes->back() != -1);
}

class Graph {
 public:
  explicit Graph(const Expr& body) {
    post_order_operands(body);
    node(body).external = true;
  }
  const std::vector<GraphNode>& nodes() const { return nodes_; }
  size_t index(const Expr& e) const { return index_.at(e.get()); }
  bool has(const Expr& e) const { return index_.count(e.get()); }

 private:
  GraphNode& node(const Expr& e) { return nodes_[index_.at(e.get())]; }

  /// Operands before users, from an explicit stack. Bodies of functions are other graphs.
  void post_order_operands(const Expr& root) {
    // Explicit, for models are chains of thousands of operators.
    std::vector<std::pair<Expr, bool>> stack{{root, false}};
    while (!stack.empty()) {
      auto [e, expanded] = stack.back();
      stack.pop_back();
      if (index_.count(e.get())) continue;
      if (expanded || e.as<Function>()) {
        add(e);
        continue;
      }
      stack.push_back({e, true});
      std::vector<Expr> operands;
      for_each_operand(e, [&](const Expr& operand, bool) { operands.push_back(operand); });
      for (size_t i = operands.size(); i-- > 0;) stack.push_back({operands[i], false});
    }
  }

  void add(const Expr& e) {
    index_[e.get()] = nodes_.size();
    nodes_.push_back({.expr = e});
    GraphNode& self = nodes_.back();
    if (const Op* op = operator_of(e)) {
      self.pattern = divides_by_open_sizes(*op, e) ? Fusion::kOpaque : op->fusion;
      // Callees of calls are no operands here: operators are leaves.
      for (const Expr& arg : e.as<Call>()->args) {
        // A broadcasting operator reads an operand of its own shape element by element. Reductions and
        // anchors take what follows over element-wise edges alone, so x + bias follows a convolution x and
        // not a convolution that computes the bias.
        bool aligned = op->fusion == Fusion::kBroadcast && same_shape(arg, e);
        use(arg, aligned ? Fusion::kElementwise : self.pattern);
      }
      if (takes_transposed_rows(*e.as<Call>())) node(e.as<Call>()->args[0]).external = true;
    } else if (e.as<Tuple>()) {
      self.pattern = Fusion::kTuple;
      for (const Expr& item : e.as<Tuple>()->items) use(item, Fusion::kInjective);
    } else if (const auto* p = e.as<Projection>()) {
      // A field of an opaque operator's tuple is no element-wise function of it.
      self.pattern = node(p->tuple).pattern == Fusion::kOpaque ? Fusion::kOpaque : Fusion::kInjective;
      if (self.pattern == Fusion::kOpaque)
        node(p->tuple).external = true;
      else
        use(p->tuple, Fusion::kInjective);
    } else if (is_scalar_constant(e)) {
      // Copied into each group that reads it, and so never a parameter.
      self.pattern = Fusion::kElementwise;
    } else if (!e.as<Function>()) {
      // Calls of functions, branches, references: what they read must exist as a tensor.
      for_each_operand(e, [&](const Expr& operand, bool) { node(operand).external = true; });
    }
  }

  /// By the node that was added last.
  void use(const Expr& operand, Fusion edge) { node(operand).uses.push_back({nodes_.size() - 1, edge}); }

  std::vector<GraphNode> nodes_;
  NodeMap<size_t> index_;
};

constexpr size_t kNone = SIZE_MAX;

/// The immediate post-dominator of each node, found as the lowest common ancestor of its users' in the tree.
struct Dominators {
  struct Entry {
    size_t parent = kNone;
    int depth = 1;
    Fusion pattern = Fusion::kOpaque;  // the strongest edge on the way to the parent
  };
  std::vector<Entry> entries;

  /// Users have larger indices, so their entries are final when a node's turn comes: one pass from the back,
  /// as in TVM's fusion. A node without a parent is the end of its group, and so are all external ones.
  explicit Dominators(const std::vector<GraphNode>& nodes) : entries(nodes.size()) {
    for (size_t i = nodes.size(); i-- > 0;) {
      const GraphNode& node = nodes[i];
      // Its value must exist as a tensor, so nothing can come after it in its group.
      if (node.external || node.uses.empty()) continue;
      Fusion pattern = Fusion::kElementwise;
      size_t parent = node.uses[0].user;
      // The lowest common ancestor of two is that of many, taken one after the other: O(depth) each, and the
      // tree of a model is a chain with short branches.
      for (const GraphNode::Use& use : node.uses) {
        pattern = std::max(pattern, use.edge);
        parent = common(parent, use.user, pattern);
        if (parent == kNone) break;
      }
      if (parent == kNone) continue;
      entries[i] = {parent, entries[parent].depth + 1, pattern};
    }
  }

 private:
  /// Moves up whichever is deeper until the two meet; kNone where their paths never do.
  size_t common(size_t a, size_t b, Fusion& pattern) const {
    while (a != b) {
      if (a == kNone || b == kNone) return kNone;
      size_t& deeper = entries[a].depth >= entries[b].depth ? a : b;
      pattern = std::max(pattern, entries[deeper].pattern);
      deeper = entries[deeper].parent;
    }
    return a;
  }
};

/// Union-find over the nodes; a group's root is its last operator.
class Groups {
 public:
  explicit Groups(const std::vector<GraphNode>& nodes) : nodes_(nodes), dominators_(nodes) {
    operands_.resize(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      groups_.push_back({i, nodes[i].pattern, {i}});
      for (const GraphNode::Use& use : nodes[i].uses) ++operands_[use.user];
    }
    // Post-order in each phase: groups grow from operands to users. Injective operators join in phase 1, when
    // reductions and anchors have the element-wise operators behind them.
    // Before the phases: whoever merges first decides where the boundary between two kernels lies.
    grow_from_narrow();
    for (int phase = 0; phase < 3; ++phase)
      for (size_t i = 0; i < nodes.size(); ++i) grow(i, phase);
  }

  /// With path halving.
  size_t root(size_t i) {
    while (groups_[i].parent != i) i = groups_[i].parent = groups_[groups_[i].parent].parent;
    return i;
  }

 private:
  struct Group {
    size_t parent;
    Fusion pattern;
    std::vector<size_t> members;  // of a root
  };
  using Allowed = bool (*)(Fusion pattern, bool is_sink);

  /// Element-wise operators on what was widened from 8-bit integers or bfloat16 go with their users first, so
  /// that it is the narrow tensor that lies between two kernels.
  void grow_from_narrow() {
    std::vector<bool> widened(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].pattern > Fusion::kBroadcast) continue;
      if (widens(nodes_[i].expr)) widened[i] = true;
      // It spreads along uses, which come later in the order: one pass is enough.
      if (!widened[i]) continue;
      for (const GraphNode::Use& use : nodes_[i].uses) widened[use.user] = true;
      grow(i, 0);
    }
  }

  /// cast of what products read in memory: an 8-bit integer, which as int16 lies there too, or one of 16
  /// bits.
  static bool widens(const Expr& e) {
    const Call* call = call_of(e, "cast");
    if (!call) return false;
    const auto *from = call->args[0]->checked_type.as<TensorType>(), *to = e->checked_type.as<TensorType>();
    // A zero point that is one number is no tensor to save memory by.
    if (!from || !to || to->dtype == kInt16 || from->shape.empty()) return false;
    bool narrow =
        from->dtype == kBFloat16 || from->dtype == kInt16 || (from->dtype.is_int() && from->dtype.bits == 8);
    return narrow && to->dtype.bits > from->dtype.bits;
  }

  /// Tries to merge node i, and what lies between, into the group of its post-dominator. Phase 0: operators
  /// with element-wise outputs absorb what follows; 1: injective operators; 2: injective operators into inner
  /// tuples.
  void grow(size_t i, int phase) {
    const Dominators::Entry& entry = dominators_.entries[i];
    Fusion pattern = groups_[root(i)].pattern;
    // Or it belongs there already, by way of another path.
    if (pattern == Fusion::kOpaque || entry.parent == kNone || root(i) == root(entry.parent)) return;
    // Without what lies between: try_path() counts that.
    if (groups_[root(i)].members.size() + groups_[root(entry.parent)].members.size() > kMaxGroup) return;
    // Of the whole group behind, which may have an anchor by now; of one node it would be too weak.
    Fusion sink = groups_[root(entry.parent)].pattern;
    if (phase == 2) {
      if (pattern <= Fusion::kInjective && nodes_[entry.parent].pattern == Fusion::kTuple &&
          sink <= Fusion::kInjective)
        try_path(i, entry.parent, up_to_injective);
      return;
    }
    // Into tuples only at last: what reads a tuple (a concatenation, say) may have taken it in by then.
    if (nodes_[entry.parent].pattern == Fusion::kTuple) return;
    if (pattern == Fusion::kAnchor || pattern == Fusion::kReduction) {
      // Each result is passed on when it is complete: only to what reads that element alone.
      if (phase == 0 && entry.pattern == Fusion::kElementwise) try_path(i, entry.parent, up_to_broadcast);
    } else if (pattern <= Fusion::kBroadcast) {
      if (entry.pattern <= Fusion::kReduction) try_path(i, entry.parent, into_sink);
    } else if (pattern == Fusion::kInjective || pattern == Fusion::kTuple) {
      if (phase == 1) try_path(i, entry.parent, up_to_injective);
    }
  }

  static bool up_to_broadcast(Fusion pattern, bool) { return pattern <= Fusion::kBroadcast; }
  static bool up_to_injective(Fusion pattern, bool) { return pattern <= Fusion::kInjective; }
  /// Element-wise operators enter any group but one whose pattern forbids it.
  static bool into_sink(Fusion pattern, bool is_sink) {
    return pattern <= Fusion::kInjective || (is_sink && pattern <= Fusion::kAnchor);
  }

  /// Merges when all nodes on all paths from `source` to `sink` are `allowed`. All paths end in `sink`, its
  /// post-dominator, so no value inside the group is read outside and the graph of groups stays acyclic.
  void try_path(size_t source, size_t sink, Allowed allowed) {
    std::vector<size_t> path;
    // All paths or none: a value that is left over would be read outside the group.
    for (const GraphNode::Use& use : nodes_[source].uses)
      if (!collect(use.user, sink, allowed, path)) return;
    std::vector<size_t> roots{root(source), root(sink)};
    // What lies between counts too, in the groups that it has grown into.
    for (size_t inner : path) roots.push_back(root(inner));
    std::sort(roots.begin(), roots.end());
    roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
    std::vector<size_t> nodes;
    for (size_t each : roots) {
      const std::vector<size_t>& members = groups_[each].members;
      nodes.insert(nodes.end(), members.begin(), members.end());
    }
    if (nodes.size() > kMaxGroup || arguments_of(nodes) > kMaxArguments ||
        computed_together(nodes) > kMaxComputed)
      return;
    merge(source, sink);
    for (size_t inner : path) merge(inner, sink);
  }

  /// How often the group of these would read what is outside of it.
  size_t arguments_of(std::vector<size_t> nodes) const {
    std::sort(nodes.begin(), nodes.end());
    size_t reads = 0;
    for (size_t each : nodes) reads += operands_[each];
    if (reads <= kMaxArguments) return reads;
    for (size_t each : nodes)
      reads -= static_cast<size_t>(
          std::count_if(nodes_[each].uses.begin(), nodes_[each].uses.end(), [&](const GraphNode::Use& use) {
            return std::binary_search(nodes.begin(), nodes.end(), use.user);
          }));
    return reads;
  }

  /// How many operators the group of these would compute for an element; beyond kMaxComputed, that it is
  /// more.
  size_t computed_together(std::vector<size_t> nodes) const {
    std::sort(nodes.begin(), nodes.end());
    std::vector<size_t> times(nodes.size(), 0);
    size_t computed = 0;
    for (size_t k = nodes.size(); k-- > 0;) {  // users first
      const GraphNode& node = nodes_[nodes[k]];
      for (const GraphNode::Use& use : node.uses) {
        const auto user = std::lower_bound(nodes.begin() + static_cast<int64_t>(k), nodes.end(), use.user);
        if (user != nodes.end() && *user == use.user) times[k] += times[user - nodes.begin()];
      }
      // The last one, and what is not inlined: it lies in memory.
      if (times[k] == 0 || node.pattern == Fusion::kReduction || node.pattern == Fusion::kAnchor)
        times[k] = 1;
      if (node.expr.as<Call>()) computed += times[k];
      if (computed > kMaxComputed) break;
    }
    return computed;
  }

  /// Adds the nodes from `i` to `sink` to `path`; false when one is not allowed, or they are too many: of a
  /// tensor that thousands of operators in a row read, all of them lie between it and the last. That bounds
  /// the recursion too.
  bool collect(size_t i, size_t sink, Allowed allowed, std::vector<size_t>& path) {
    if (std::find(path.begin(), path.end(), i) != path.end()) return true;
    if (!allowed(groups_[root(i)].pattern, i == sink)) return false;
    if (i == sink) return true;
    if (path.size() == kMaxGroup) return false;
    path.push_back(i);
    for (const GraphNode::Use& use : nodes_[i].uses)
      if (!collect(use.user, sink, allowed, path)) return false;
    return true;
  }

  void merge(size_t child, size_t parent) {
    child = root(child), parent = root(parent);
    if (child == parent) return;
    // The root stays the node that ends the group: the later one.
    size_t last = std::max(child, parent), other = std::min(child, parent);
    // A tuple inside is taken apart by what follows it, which says how the group computes.
    if (groups_[other].pattern != Fusion::kTuple)
      groups_[last].pattern = std::max(groups_[last].pattern, groups_[other].pattern);
    std::vector<size_t>& members = groups_[last].members;
    members.insert(members.end(), groups_[other].members.begin(), groups_[other].members.end());
    groups_[other].members.clear();
    groups_[other].parent = last;
  }

  const std::vector<GraphNode>& nodes_;
  Dominators dominators_;
  std::vector<Group> groups_;
  std::vector<size_t> operands_;  // of each node, how many
};

/// One group as a function over what it takes from outside.
struct Region {
  std::vector<Var> params;
  std::vector<Expr> args;
  NodeMap<Var> by_arg;

  // By the node, so that an argument that is read twice is one parameter.
  Var param(const Expr& arg, const Type& type) {
    auto [found, is_new] = by_arg.insert(arg.get());
    if (is_new) {
      auto var = mutate(*make_var(fmt::format("p{}", params.size()), type));
      var->checked_type = type;
      *found = seal(std::move(var));
      params.push_back(*found);
      args.push_back(arg);
    }
    return *found;
  }
};

/// The node with type and span of `old`, which it stands for.
template <typename T>
Expr with_type_of(std::unique_ptr<T> node, const Expr& old) {
  node->checked_type = old->checked_type;
  node->span = old->span;
  return seal(std::move(node));
}

/// Rebuilds a body with each group as a call of a primitive function.
class Rebuilder {
 public:
  explicit Rebuilder(const Expr& body)
      : graph_(body), groups_(graph_.nodes()), computes_(graph_.nodes().size()) {
    for (size_t i = 0; i < computes_.size(); ++i)
      // For groups that hold tuples and projections alone: see is_fused.
      if (operator_of(graph_.nodes()[i].expr)) computes_[groups_.root(i)] = true;
  }

  Expr run(const Expr& body) {
    // Operands first: a group's last node, its root, comes when everything it takes from outside is known,
    // and what reads the group's value comes later.
    const std::vector<GraphNode>& nodes = graph_.nodes();
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Expr& e = nodes[i].expr;
      if (is_fused(i)) {
        inner_[e.get()] = inside(e, regions_[groups_.root(i)], groups_.root(i));
        if (groups_.root(i) == i) {
          outer_[e.get()] = call_for(e, regions_[i]);
          regions_.erase(i);
        }
      } else {
        outer_[e.get()] =
            e->map_children([&](const NodeRef& child) { return outside(child); }).cast<RelayNode>();
      }
    }
    return outer_.at(body.get());
  }

 private:
  /// Calls of operators are; tuples, projections and scalars only when they belong to an operator's group.
  bool is_fused(size_t i) {
    const Expr& e = graph_.nodes()[i].expr;
    if (operator_of(e)) return true;
    if (is_scalar_constant(e)) return false;
    bool movable = e.as<Tuple>() || e.as<Projection>();
    if (!movable) return false;
    // A group of tuples and projections alone is no kernel: it has nothing to compute.
    return groups_.root(i) != i || computes_[i];
  }

  NodeRef outside(const NodeRef& child) const {
    const Expr* found = outer_.find(child.get());
    return found ? NodeRef(*found) : child;
  }

  /// The operand as seen from inside the group: its own node, a scalar, or a parameter.
  Expr operand(const Expr& e, Region& region, size_t root) {
    if (is_scalar_constant(e)) return e;
    size_t i = graph_.index(e);
    if (is_fused(i) && groups_.root(i) == root) return inner_.at(e.get());
    // A tuple from outside is taken apart, so that parameters are tensors.
    if (const auto* t = e.as<Tuple>()) {
      auto copy = mutate(*t);
      for (Expr& item : copy->items) item = operand(item, region, root);
      return with_type_of(std::move(copy), e);
    }
    return region.param(outer_.at(e.get()), e->checked_type);
  }

  /// `e` as part of the body of its group's function.
  Expr inside(const Expr& e, Region& region, size_t root) {
    if (const auto* call = e.as<Call>()) {
      auto copy = mutate(*call);
      // Attributes, type and span stay: what a fused function computes is what its operators computed.
      for (Expr& arg : copy->args) arg = operand(arg, region, root);
      return with_type_of(std::move(copy), e);
    }
    if (const auto* t = e.as<Tuple>()) {
      auto copy = mutate(*t);
      for (Expr& item : copy->items) item = operand(item, region, root);
      return with_type_of(std::move(copy), e);
    }
    auto copy = mutate(*e.as<Projection>());
    copy->tuple = operand(copy->tuple, region, root);
    return with_type_of(std::move(copy), e);
  }

  /// The call that stands for the group whose last node is `e`.
  Expr call_for(const Expr& e, const Region& region) {
    std::vector<Type> types;
    for (const Var& param : region.params) types.push_back(param->checked_type);
    auto function = std::make_unique<Function>();
    function->params = region.params;
    function->result_type = e->checked_type;
    function->body = inner_.at(e.get());
    function->attrs.primitive = true;
    function->checked_type = func_type(std::move(types), e->checked_type);
    auto call = std::make_unique<Call>();
    call->callee = shared(seal(std::move(function)));
    call->args = region.args;
    return with_type_of(std::move(call), e);
  }

  static bool draws(const Ref<Function>& function) {
    bool found = false;
    post_order(function->body, [&](const NodeRef& node) {
      const OpNode* op = node.as<OpNode>();
      found |= op && op->row().stateful;
    });
    return found;
  }

  /// The first function equal to this one. What follows sees as many kernels as there are, not as many as
  /// calls.
  Ref<Function> shared(Ref<Function> function) {
    std::vector<Ref<Function>>& alike = functions_[structural_hash(function)];
    for (const Ref<Function>& each : alike)
      if (structural_equal(each, function)) return each;
    // Two draws of random numbers stay two: inlined again, one body would be one draw.
    if (draws(function)) return function;
    return alike.emplace_back(std::move(function));
  }

  Graph graph_;
  Groups groups_;
  std::unordered_map<uint64_t, std::vector<Ref<Function>>> functions_;  // by hash
  std::vector<bool> computes_;                  // by root: an operator is in its group
  std::unordered_map<size_t, Region> regions_;  // by root, until it is done
  NodeMap<Expr> inner_, outer_;                 // by original expression
};

}  // namespace

Module fuse_ops(const Module& module) {
  auto result = mutate(*module);
  for (auto& [name, function] : result->functions) {
    // Fused already, by hand or by an earlier run of this pass.
    if (function->attrs.primitive) continue;
    auto fused = mutate(*function);
    fused->body = Rebuilder(function->body).run(function->body);
    function = seal(std::move(fused));
  }
  return seal(std::move(result));
}

}  // namespace lathe::relay
