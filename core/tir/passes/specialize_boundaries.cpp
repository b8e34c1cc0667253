#include "core/tir/passes/specialize_boundaries.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "core/support/floor_div.h"
#include "core/tir/passes/edge_test.h"
#include "core/tir/passes/mutator.h"

namespace lathe::tir {
namespace {
/// Sides a body is split into at most: 2 to this power.
constexpr int kMostSplits = 2;
/// A tile of an open extent is cut off into so many parts at most: as many rows of one vector as there are
/// registers. Of two edges that cut one tile, so many of both.
constexpr int64_t kMostParts = 32, kMostPartsOfTwo = 16;

/// Loops that become straight code or vectors.
bool is_tile(const For& loop) {
  return loop.iteration == Iteration::kUnrolled || loop.iteration == Iteration::kVectorized;
}

/// By how much (a + c) // d may be more than a // d, where the two are that and c is not negative.
std::optional<int64_t> quotient_less(const Expr& more, const Expr& e) {
  const Binary *large = more.as<Binary>(), *small = e.as<Binary>();
  if (!large || !small || large->op != BinaryOp::kFloorDiv || small->op != BinaryOp::kFloorDiv) return {};
  const int64_t *divisor = as_int(large->b), *same = as_int(small->b);
  const Expr difference = simplify(large->a - small->a);
  const int64_t* c = as_int(difference);
  if (!divisor || !same || *divisor != *same || *divisor <= 0 || !c || *c < 0) return {};
  return floor_div(*c + *divisor - 1, *divisor);
}

/// At each loop that is no tile's, what its iterations do is split by the tests inside whose atom the loops
/// down to here decide. From the outside in: a test moves out as far as it can.
class SpecializeBoundaries final : public StmtMutator {
 public:
  explicit SpecializeBoundaries(Dims dims) : dims_(std::move(dims)) {}

 protected:
  Stmt visit_for(const Ref<For>& loop) override {
    if (is_tile(*loop)) return loop;
    Analyzer outside = analyzer_;
    analyzer_.bind_range(loop->var, loop->extent);
    // Parallel loops of which one is all that the other does are one loop, and stay so.
    const For* next = loop->body.as<For>();
    const bool one =
        next && loop->iteration == Iteration::kParallel && next->iteration == Iteration::kParallel;
    const Stmt parts = one ? loop->body : split(without_decided(loop->body), kMostSplits);
    const Expr whole = !parts || parts == loop->body ? Expr() : whole_tiles(*loop, parts);
    if (!whole) {
      Stmt body = visit(parts);
      analyzer_ = std::move(outside);
      return with_body(loop, body);
    }
    // The sums in registers of a loop that branches are moved at each branch.
    const If& branch = *parts.as<If>();
    Stmt inside = visit(branch.then_case), edge = visit(branch.else_case);
    analyzer_ = std::move(outside);
    std::vector<Stmt> loops;
    if (inside) loops.push_back(make<For>(loop->var, whole, loop->iteration, inside, loop->annotations));
    if (edge) loops.push_back(left_over(*loop, whole, edge));
    return loops.empty() ? Stmt() : seq(std::move(loops));
  }

  /// What a branch says of the place of an edge is known in its cases: where rows end decides of most of a
  /// window's rows whether they are there.
  Stmt visit_if(const Ref<If>& branch) override {
    const EdgePlaces around = places_;
    places_.decide(branch->condition, true);
    Stmt then_case = visit(branch->then_case);
    places_ = around;
    places_.decide(branch->condition, false);
    Stmt else_case = branch->else_case ? visit(branch->else_case) : Stmt();
    places_ = around;
    if (then_case == branch->then_case && else_case == branch->else_case) return branch;
    return if_then(branch->condition, then_case, else_case);
  }

 private:
  /// The iterations from `whole` on of a loop, with their own body.
  static Stmt left_over(const For& loop, const Expr& whole, const Stmt& body) {
    if (const auto more = quotient_less(loop.extent, whole); more && *more <= 1)
      return if_then(less(whole, loop.extent), fresh_copy(body, {{loop.var.get(), whole}}));
    const Var rest = var(loop.var->name);
    return make<For>(rest, simplify(loop.extent - whole), loop.iteration,
                     fresh_copy(body, {{loop.var.get(), Expr(rest) + whole}}), loop.annotations);
  }

  /// `body` without tests of open edges that what is known of the place decides.
  Stmt without_decided(const Stmt& body) const {
    if (places_.empty()) return body;
    return with_conditions(body, [&](const EdgeTest& test, const Expr& condition) {
      if (!test.open) return condition;
      const Bound values = places_.values(analyzer_, test.atom);
      if (values.max <= inside_values(test).max) return imm(kBool, 1);
      return values.min >= -test.smallest ? imm(kBool, 0) : condition;
    });
  }

  /// How many iterations of a serial loop, the first ones, take the first case of `parts`, which is one of
  /// two that a dimension decides between: whole tiles, and what is left of a reduction. Null for others.
  Expr whole_tiles(const For& loop, const Stmt& parts) {
    const If* branch = parts.as<If>();
    if (!branch || !branch->else_case || loop.iteration != Iteration::kSerial || as_int(loop.extent))
      return {};
    const Binary* test = branch->condition.as<Binary>();
    if (!test || test->op != BinaryOp::kLt || !uses_dims(test->b, dims_)) return {};
    // factor * i + rest < 0
    const auto linear = linear_form(test->a - test->b, {&loop.var, 1});
    if (!linear || linear->coefficients.size() != 1 || linear->coefficients.begin()->second <= 0) return {};
    Analyzer known;
    bool fixed = true;
    post_order(linear->rest, [&](const NodeRef& node) {
      if (!node.as<VarNode>()) return;
      fixed &= dims_.count(node.as<VarNode>()) != 0;
      known.bind(node.cast<VarNode>(), {0, INT64_MAX});
    });
    if (!fixed || has_mask_at(branch->else_case, loop.var)) return {};
    const int64_t factor = linear->coefficients.begin()->second;
    const Expr count = simplify(floordiv(Expr(factor - 1) - linear->rest, Expr(factor)));
    const bool is_less = quotient_less(loop.extent, count).has_value();
    return known.simplify(max(is_less ? count : min(count, loop.extent), Expr(0)));
  }

  /// A mask depends on the variable: with its last value in place of it nobody would know it for a mask.
  bool has_mask_at(const Stmt& body, const Var& v) {
    find_lanes(body);
    bool found = false;
    post_order(body, [&](const NodeRef& node) {
      const If* branch = node.as<If>();
      const Select* choice = node.as<Select>();
      if (!branch && !choice) return;
      const Expr& condition = branch ? branch->condition : choice->condition;
      found |= uses_var(condition, v.get()) && chooses_by_lane(condition);
    });
    return found;
  }

  /// `body` as: if the whole tile is inside, a copy without the conditions that then hold, else a copy with
  /// all of them. While `splits` are left the first side is split again by another test; so is the edge when
  /// one value of the atom remains for it, which then stands in its place.
  Stmt split(const Stmt& body, int splits) {
    if (!body || splits == 0) return body;
    find_lanes(body);
    std::optional<EdgeTest> test = find_test(body);
    if (!test) return body;
    if (Stmt apart = split_apart(body, *test, splits)) return apart;
    Bound values = places_.values(analyzer_, test->atom), inside = inside_values(*test);
    if (test->open && copies_of(*test) < kMostParts) return split_at_cuts(body, *test, splits);
    Stmt whole = split(without(body, *test), splits - 1);
    Bound left = test->coefficient > 0 ? Bound{std::max(values.min, inside.max + 1), values.max}
                                       : Bound{values.min, std::min(values.max, inside.min - 1)};
    // The two copies stand side by side in one function.
    Stmt edge = fresh_copy(body);
    if (left.is_point()) edge = split(with_value(edge, test->atom, left.min), splits - 1);
    return if_then(analyzer_.simplify(is_inside(*test)), whole, edge);
  }

  /// The same where the atom is known to have these values.
  Stmt split_at(const Expr& atom, const Bound& values, const Stmt& body, int splits) {
    EdgePlaces around = places_;
    places_.add(atom, values);
    Stmt parts = split(without_decided(body), splits);
    places_ = std::move(around);
    return parts;
  }

  /// Where loops without the test stand among statements that have it, as the products between the ends of a
  /// transform: what is before and after them is split for itself, so that there are no copies of them. Null
  /// where there are none.
  Stmt split_apart(const Stmt& body, const EdgeTest& test, int splits) {
    if (const Alloc* alloc = body.as<Alloc>()) {
      Stmt inner = split_apart(alloc->body, test, splits);
      return inner ? make<Alloc>(alloc->buffer, inner) : Stmt();
    }
    const Seq* all = body.as<Seq>();
    if (!all) return {};
    std::vector<Stmt> parts, group;
    auto end_group = [&] {
      if (group.empty()) return;
      if (Stmt part = split(seq(std::exchange(group, {})), splits)) parts.push_back(std::move(part));
    };
    for (const Stmt& stmt : all->stmts) {
      const bool is_free = has_loops(stmt) && !has_test(stmt, test);
      if (is_free) end_group();
      group.push_back(stmt);
      if (is_free) end_group();
    }
    if (parts.empty()) return {};
    end_group();
    return seq(std::move(parts));
  }

  static bool has_loops(const Stmt& stmt) {
    bool found = false;
    post_order(stmt, [&](const NodeRef& node) { found |= node.as<For>() && !is_tile(*node.as<For>()); });
    return found;
  }

  bool has_test(const Stmt& stmt, const EdgeTest& test) const {
    bool found = false;
    with_conditions(stmt, [&](const EdgeTest& each, const Expr& condition) {
      found |= equal_sides(each, test);
      return condition;
    });
    return found;
  }

  /// Where a dimension is open, any part of the last tile may be there: a copy for each, without conditions.
  /// Where another test cuts the same tile, each of these is split again if all are few; else there is one
  /// for both, with all conditions.
  Stmt split_at_cuts(const Stmt& body, const EdgeTest& test, int splits) {
    const int64_t last = inside_values(test).max, none = -test.smallest;
    const Bound possible = places_.values(analyzer_, test.atom);
    const Stmt inside = without(body, test);
    Stmt edge = possible.max >= none ? beyond(body, test) : Stmt();
    // A tile of one is there or not.
    if (test.largest != test.smallest) {
      const Stmt parts = edge_parts(body, inside, test, splits);
      edge = possible.max >= none ? if_then(less(test.atom, Expr(none)), parts, edge) : parts;
    }
    if (possible.min > last) return edge;
    return if_then(analyzer_.simplify(less_equal(test.atom, Expr(last))),
                   split_at(test.atom, {INT64_MIN, last}, inside, splits - 1), edge);
  }

  Stmt edge_parts(const Stmt& body, const Stmt& inside, const EdgeTest& test, int splits) {
    // Each part knows where this edge is, whatever else asks for it.
    const std::optional<EdgeTest> other = splits > 1 ? find_test(inside, test.atom) : std::nullopt;
    if (!other) return parts_of(body, test, 0);
    const bool is_single = other->open && other->largest == other->smallest;
    if (!is_single && other->open && copies_of(test) * copies_of(*other) < kMostPartsOfTwo)
      return parts_of(body, test, splits - 1);
    return if_then(analyzer_.simplify(is_inside(*other)), parts_of(without(body, *other), test, 0),
                   is_single ? beyond(body, *other) : fresh_copy(body));
  }

  /// What is left of a tile beyond the edge: what does not depend on it.
  Stmt beyond(const Stmt& body, const EdgeTest& test) const {
    return with_conditions(fresh_copy(body), [&](const EdgeTest& each, const Expr& condition) {
      return equal_sides(each, test) && each.smallest >= test.smallest ? imm(kBool, 0) : condition;
    });
  }

  /// Copies that parts_of() makes; kMostParts where it can make none.
  int64_t copies_of(const EdgeTest& test) const {
    if (!chooses_by_lane(test.tile)) return parts_within(test);
    const std::optional<Lanes> lanes = lanes_of(test);
    return lanes ? 2 * lanes->vectors - 1 : kMostParts;
  }

  Stmt parts_of(const Stmt& body, const EdgeTest& test, int splits) {
    return chooses_by_lane(test.tile) ? vectors_of(body, test, splits) : rows_of(body, test, splits);
  }

  /// A test of vectors that stand `step` apart in a tile, each of neighbours: atom + places + c * lane +
  /// first < 0, where a width of half a dimension has c = 2. `width` is that of c * lane.
  struct Lanes {
    Expr places = 0;
    int64_t first = 0, width = 1, step = 0, vectors = 1;
  };
  std::optional<Lanes> lanes_of(const EdgeTest& test) const {
    Lanes lanes;
    Terms terms;
    add_terms(test.tile, 1, terms, lanes.first);
    for (const auto& [term, coefficient] : terms) {
      if (!chooses_by_lane(term)) {
        lanes.places = lanes.places + term * coefficient;
        lanes.step = std::gcd(lanes.step, coefficient);
        continue;
      }
      const auto lane = lanes_.find(term.as<VarNode>());
      if (lane == lanes_.end() || coefficient < 1 || lanes.width > 1) return std::nullopt;
      lanes.width = (lane->second.extent - 1) * coefficient + 1;
    }
    if (lanes.first != test.smallest || (lanes.step > 0 && lanes.step < lanes.width)) return std::nullopt;
    if (lanes.step > 0) lanes.vectors += (test.largest - test.smallest - lanes.width + 1) / lanes.step;
    return lanes;
  }

  /// A copy for each number of vectors that are whole, and for each with a further one, which alone is under
  /// a mask.
  Stmt vectors_of(const Stmt& body, const EdgeTest& test, int splits) {
    const Lanes lanes = *lanes_of(test);
    Stmt parts;
    bool is_first = true;
    const Bound possible = places_.values(analyzer_, test.atom);
    auto add = [&](const Bound& atom) {
      if (atom.max < possible.min || atom.min > possible.max) return;
      Stmt part = split_at(test.atom, atom, fresh_copy(where_atom_is(atom, body, test)), splits);
      parts =
          std::exchange(is_first, false) ? part : if_then(less(test.atom, Expr(atom.max + 1)), part, parts);
    };
    for (int64_t v = 0; v < lanes.vectors; ++v) {
      const int64_t first = lanes.first + lanes.step * v;
      add({1 - lanes.width - first, -first - 1});
      if (v + 1 < lanes.vectors) add({-first - lanes.step, -first - lanes.width});
    }
    return parts;
  }

  /// `body` where the test's atom has these values: which vectors are whole then, and which have no lanes, is
  /// said before the lanes are asked.
  Stmt where_atom_is(const Bound& atom, const Stmt& body, const EdgeTest& test) const {
    return with_conditions(body, [&](const EdgeTest& each, const Expr& condition) {
      const auto own = equal_sides(each, test) ? lanes_of(each) : std::nullopt;
      if (!own) return condition;
      const Expr whole = less_equal(own->places, Expr(-atom.max - own->first - own->width));
      const Expr some = less(own->places, Expr(-atom.min - own->first));
      const Expr now = simplify(logical_or(whole, logical_and(some, condition)));
      if (!chooses_by_lane(now) || now.as<Binary>()->op == BinaryOp::kOr) return now;
      // As it was, but no test to be split by again.
      return logical_or(less(each.atom + own->places + Expr(own->first + own->width - 1), Expr(0)), now);
    });
  }

  Stmt rows_of(const Stmt& body, const EdgeTest& test, int splits) {
    Stmt parts;
    bool is_first = true;
    const Bound possible = places_.values(analyzer_, test.atom);
    for (int64_t value = inside_values(test).max + 1; value < -test.smallest; value += test.step) {
      const Bound values{value, value + test.step - 1};
      if (values.max < possible.min || values.min > possible.max) continue;
      Stmt part = with_conditions(fresh_copy(body), [&](const EdgeTest& each, const Expr& condition) {
        if (!equal_sides(each, test) || !decides_alike(each, values)) return condition;
        return simplify(less(each.tile + Expr(values.min), Expr(0)));
      });
      part = split_at(test.atom, values, part, splits);
      const Expr is_there =
          test.step == 1 ? equal(test.atom, Expr(value)) : less_equal(Expr(value), test.atom);
      parts = std::exchange(is_first, false) ? part : if_then(is_there, part, parts);
    }
    return parts;
  }

  static Expr is_inside(const EdgeTest& test) {
    const Bound inside = inside_values(test);
    return test.coefficient > 0 ? less_equal(test.atom, Expr(inside.max))
                                : less_equal(Expr(inside.min), test.atom);
  }

  static bool equal_sides(const EdgeTest& a, const EdgeTest& b) {
    return structural_equal(a.atom, b.atom) && (a.coefficient > 0) == (b.coefficient > 0);
  }

  void find_lanes(const Stmt& body) {
    post_order(body, [&](const NodeRef& node) {
      const For* loop = node.as<For>();
      if (!loop || loop->iteration != Iteration::kVectorized) return;
      const int64_t* extent = as_int(loop->extent);
      lanes_[loop->var.get()] = {loop->var, extent ? *extent : 0};
    });
  }

  /// The first condition below of which some values of its atom pass the whole tile and some do not.
  /// Not one of the atom `but`.
  std::optional<EdgeTest> find_test(const Stmt& body, const Expr& but = {}) {
    Search search{.but = but};
    look(body, false, search);
    return search.found;
  }

  struct Search {
    Expr but;
    Extents inner = {};  // the loops between the statement that is to be split and the one looked at
    std::optional<EdgeTest> found = {};

    bool in_loop() const {
      return std::any_of(inner.begin(), inner.end(), [](const auto& loop) { return loop.second < 0; });
    }
  };

  /// The first test in the order of statements.
  void look(const Stmt& stmt, bool in_tile, Search& search) {
    if (!stmt || search.found) return;
    if (const For* loop = stmt.as<For>()) {
      const int64_t* extent = as_int(loop->extent);
      search.inner[loop->var.get()] = is_tile(*loop) && extent ? *extent : -1;
      look(loop->body, in_tile || is_tile(*loop), search);
      search.inner.erase(loop->var.get());
    } else if (const Seq* seq = stmt.as<Seq>()) {
      for (const Stmt& s : seq->stmts) look(s, in_tile, search);
    } else if (const Alloc* alloc = stmt.as<Alloc>()) {
      look(alloc->body, in_tile, search);
    } else if (const If* branch = stmt.as<If>()) {
      if (in_tile) look_at_condition(branch->condition, search);
      look(branch->then_case, in_tile, search);
      look(branch->else_case, in_tile, search);
    } else if (const Store* store = stmt.as<Store>(); store && in_tile) {
      post_order(store->value, [&](const NodeRef& node) {
        const Select* select = node.as<Select>();
        if (select && !search.found && chooses_by_lane(select->condition))
          look_at_condition(select->condition, search);
      });
    }
  }

  void look_at_condition(const Expr& all, Search& search) {
    for (const Expr& condition : conjuncts(all)) {
      std::optional<EdgeTest> test = edge_test(condition, search.inner, dims_);
      if (!test || search.found) continue;
      // A branch at each place costs as much as a condition that is no mask, unless that stands in a loop.
      if (test->is_sum && !search.in_loop() && !chooses_by_lane(condition)) continue;
      if (search.but && structural_equal(test->atom, search.but)) continue;
      Bound values = places_.values(analyzer_, test->atom), inside = inside_values(*test);
      if (values.min >= inside.min && values.max <= inside.max)
        continue;  // always inside: simplification sees it
      // Nothing is known of the atom, a loaded value say; of open dimensions nothing needs to be.
      if ((values.min == INT64_MIN || values.max == INT64_MAX) && !uses_dims(test->atom, dims_)) continue;
      const bool cuts = test->open && copies_of(*test) < kMostParts;
      if (cuts ? values.min >= -test->smallest : values.max < inside.min || values.min > inside.max)
        continue;  // never
      search.found = test;
    }
  }

  /// A select that becomes a mask, which costs; others cost nothing where loops have been cut
  /// (split_conditions).
  bool chooses_by_lane(const Expr& condition) const {
    bool found = false;
    post_order(condition, [&](const NodeRef& node) { found |= lanes_.count(node.as<VarNode>()) != 0; });
    return found;
  }

  using Replace = FunctionRef<Expr(const EdgeTest& test, const Expr& condition)>;

  /// `body` with another condition in place of each that has the form of a test.
  Stmt with_conditions(const Stmt& body, Replace replace) const {
    struct Replacer final : StmtMutator {
      Replacer(Replace r, const Dims& d) : replace(r), dims(d) {}
      Stmt visit_for(const Ref<For>& loop) override {
        const int64_t* extent = as_int(loop->extent);
        inner[loop->var.get()] = is_tile(*loop) && extent ? *extent : -1;
        Stmt body = visit(loop->body);
        inner.erase(loop->var.get());
        return with_body(loop, body);
      }
      Stmt visit_if(const Ref<If>& branch) override {
        return if_then(replaced(branch->condition), visit(branch->then_case), visit(branch->else_case));
      }
      Stmt visit_store(const Ref<Store>& stored) override {
        NodeRef value = rewrite(stored->value, [&](const NodeRef& node) -> NodeRef {
          const Select* choice = node.as<Select>();
          return choice ? NodeRef(select(replaced(choice->condition), choice->if_true, choice->if_false))
                        : node;
        });
        if (value == stored->value) return stored;
        return store(stored->buffer, stored->indices, value.cast<ExprNode>());
      }
      Expr replaced(const Expr& all) {
        Expr result = imm(kBool, 1);
        for (const Expr& condition : conjuncts(all)) {
          std::optional<EdgeTest> test = edge_test(condition, inner, dims);
          result = logical_and(result, test ? replace(*test, condition) : condition);
        }
        return result;
      }
      Replace replace;
      const Dims& dims;
      Extents inner;
    };
    return Replacer(replace, dims_).visit(body);
  }

  /// `body` without the conditions that hold where `test` passes: both limit the same atom from the same
  /// side, and the narrower limit gives the wider one.
  Stmt without(const Stmt& body, const EdgeTest& test) const {
    const Bound given = inside_values(test);
    return with_conditions(body, [&](const EdgeTest& other, const Expr& condition) {
      const Bound needed = inside_values(other);
      const bool implied = equal_sides(other, test) && given.min >= needed.min && given.max <= needed.max;
      return implied ? imm(kBool, 1) : condition;
    });
  }

  /// `body` where the atom, a variable or an operation, has this value.
  static Stmt with_value(const Stmt& body, const Expr& atom, int64_t value) {
    if (const VarNode* v = atom.as<VarNode>()) return substitute(body, {{v, Expr(value)}});
    NodeRef result = rewrite(body, [&](const NodeRef& node) -> NodeRef {
      const Binary* b = node.as<Binary>();
      return b && structural_equal(node, atom) ? NodeRef(Expr(value)) : node;
    });
    return result.cast<StmtNode>();
  }

  const Dims dims_;
  /// The vectorized loops seen, of copies that are gone too: held, for the address of a variable that is
  /// freed may be the next one's.
  struct Lane {
    Var var;
    int64_t extent = 0;
  };
  std::map<const VarNode*, Lane> lanes_;
  EdgePlaces places_{dims_};  // known where the statement is that is looked at
};

/// The variables that no loop binds.
Dims open_dims(const Stmt& body) {
  Dims dims;
  post_order(body, [&](const NodeRef& node) {
    if (const VarNode* v = node.as<VarNode>()) dims.insert(v);
  });
  post_order(body, [&](const NodeRef& node) {
    if (const For* loop = node.as<For>()) dims.erase(loop->var.get());
  });
  return dims;
}
}  // namespace

Stmt specialize_boundaries(const Stmt& body) { return SpecializeBoundaries(open_dims(body)).visit(body); }

}  // namespace lathe::tir
