#include "tuner/in_place.h"

#include <numeric>
#include <optional>
#include <set>

#include "core/arith/one_to_one.h"
#include "core/tir/leading_copy.h"
#include "core/tir/regions.h"

namespace lathe::tuner {
namespace {

using namespace tir;

bool same_indices(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!structural_equal(a[i], b[i])) return false;
  return true;
}

/// An index of a vector's lanes as one of the lane number `lane`; null when it is of another form.
Expr at_lane(const Expr& index, const Var& lane) {
  if (index.dtype().lanes == 1) return index;
  if (const Ramp* ramp = index.as<Ramp>()) return ramp->base + ramp->stride * lane;
  if (const Broadcast* broadcast = index.as<Broadcast>()) return broadcast->value;
  // Sums and products of vectors go lane by lane.
  const Binary* b = index.as<Binary>();
  Expr left = b ? at_lane(b->a, lane) : Expr(), right = b ? at_lane(b->b, lane) : Expr();
  return left && right ? binary(b->op, left, right) : Expr();
}

/// What is loaded is another value after the next store.
bool loads(const Expr& e) {
  bool found = false;
  post_order(e, [&](const NodeRef& node) { found |= node.as<Load>() != nullptr; });
  return found;
}

/// What a branch says of one expression: it is within the bound.
struct Fact {
  Expr value;
  Bound bound;
};

std::optional<Fact> fact_of(const Expr& condition, bool holds) {
  const Binary* less = condition.as<Binary>();
  // Only comparisons of indices, as boundaries of tiles are; what is loaded may be another
  // value a moment later.
  if (!less || less->op != BinaryOp::kLt || less->a.dtype() != kInt64 || loads(condition))
    return std::nullopt;
  const int64_t *a = as_int(less->a), *b = as_int(less->b);
  if (b) return Fact{less->a, holds ? Bound{INT64_MIN, *b - 1} : Bound{*b, INT64_MAX}};
  if (a) return Fact{less->b, holds ? Bound{*a + 1, INT64_MAX} : Bound{INT64_MIN, *a}};
  return std::nullopt;
}

/// A case of a branch, which a statement is in.
struct Case {
  const Node* branch;
  bool holds;
  size_t loops;  // so many are around the branch
};

/// The stores to a buffer, each with loop variables of its own.
class Writes {
 public:
  /// `loops`, `facts` and `cases` are those around the store.
  void add(const Store& store, const Domain& loops, const std::vector<Fact>& facts,
           const std::vector<Case>& cases) {
    each_once_ = each_once_ && places_.size() < kMostStores;
    if (!each_once_) return;
    VarMap own;
    std::vector<Var> vars;
    auto introduce = [&](const std::string& name, const Expr& extent) {
      vars.push_back(var(name));
      context_.bind_range(vars.back(), extent);
      return vars.back();
    };
    // Two stores in one loop run for different values of its variable at a time: each gets a
    // variable of its own.
    for (const auto& [loop, extent] : loops) own[loop.get()] = introduce(loop->name, substitute(extent, own));
    Var lane = introduce("lane", lanes_of(store.indices));
    std::vector<Expr> place;
    Expr offset = 0;
    for (size_t d = 0; d < store.indices.size(); ++d) {
      Expr index = at_lane(store.indices[d], lane);
      if (!index || index.dtype() != kInt64 || loads(index)) {
        each_once_ = false;
        return;
      }
      place.push_back(context_.simplify(substitute(index, own)));
      offset = offset * store.buffer->shape[d] + place.back();
    }
    origins_.push_back({place, vars, cases});
    place.push_back(offset);
    std::vector<Expr> told = place;
    for (const Fact& fact : facts) {
      Expr value = context_.simplify(substitute(fact.value, own));
      if (as_int(value)) continue;
      Bound known = context_.bound(value);
      Bound bound{std::max(known.min, fact.bound.min), std::min(known.max, fact.bound.max)};
      // What is the same whenever the store runs need not be told by its place.
      if (bound.is_point()) told.push_back(value);
      Var narrowed = var("narrowed");
      context_.bind(narrowed, bound);
      for (Expr& index : place) index = with(index, value, narrowed);
    }
    each_once_ = each_once_ && one_to_one(told, vars, context_);
    places_.push_back(std::move(place));
  }

  /// No element is stored twice. False when that is not known.
  bool are_distinct() const {
    // Each with each, O(n^2).
    for (size_t i = 0; i < places_.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (!each_once_ || (may_meet(places_[i], places_[j]) && !exclude_each_other(i, j))) return false;
    return each_once_;
  }

 private:
  /// A kernel has a few stores to its result, some dozen where boundaries are split off; of hundreds, copies
  /// of unrolled tiles, it would take longer to look at all pairs than to compile them.
  static constexpr size_t kMostStores = 256;

  static Expr with(const Expr& index, const Expr& value, const Var& var) {
    return rewrite(index,
                   [&](const NodeRef& node) -> NodeRef {
                     return structural_equal(node, value) ? NodeRef(var) : node;
                   })
        .cast<ExprNode>();
  }

  bool may_meet(const std::vector<Expr>& a, const std::vector<Expr>& b) const {
    for (size_t d = 0; d < a.size(); ++d)
      if (never_equal(a[d], b[d], context_)) return false;
    return true;
  }

  /// Of two stores in different cases of a branch: both their places tell for which iteration of the loops
  /// around the branch it is, in the same way, and in one iteration one case runs. As the tiles inside and
  /// the last one of a dimension that is open, of which no number says how far the first ones go.
  bool exclude_each_other(size_t i, size_t j) const {
    const Origin &a = origins_[i], &b = origins_[j];
    size_t at = 0;
    while (at < std::min(a.cases.size(), b.cases.size()) && a.cases[at].branch == b.cases[at].branch &&
           a.cases[at].holds == b.cases[at].holds)
      ++at;
    if (at >= std::min(a.cases.size(), b.cases.size()) || a.cases[at].branch != b.cases[at].branch)
      return false;
    const size_t depth = a.cases[at].loops;
    const std::vector<Var> around(a.vars.begin(), a.vars.begin() + static_cast<std::ptrdiff_t>(depth));
    VarMap same;
    for (size_t k = 0; k < depth; ++k) same[b.vars[k].get()] = a.vars[k];
    std::vector<Expr> told;
    for (size_t d = 0; d < a.indices.size(); ++d) {
      const std::optional<LinearForm> form = linear_form(a.indices[d], around);
      if (!form || form->coefficients.empty()) continue;
      int64_t tile = 0;
      for (const auto& [variable, coefficient] : form->coefficients) tile = std::gcd(tile, coefficient);
      const Expr one = context_.simplify(floordiv(a.indices[d], tile));
      const Expr other = context_.simplify(substitute(floordiv(b.indices[d], tile), same));
      if (structural_equal(one, other)) told.push_back(one);
    }
    return one_to_one(told, around, context_);
  }

  /// Where a store stands.
  struct Origin {
    std::vector<Expr> indices;
    std::vector<Var> vars;  // for the loops around it, then its lane
    std::vector<Case> cases;
  };

  Analyzer context_;
  bool each_once_ = true;  // each store by itself
  std::vector<Origin> origins_;
  std::vector<std::vector<Expr>> places_;  // by store: the indices, and the offset that they make
};

bool same_shape(const BufferNode& a, const BufferNode& b) {
  return std::equal(a.shape.begin(), a.shape.end(), b.shape.begin(), b.shape.end(),
                    [](const Expr& x, const Expr& y) { return prove_equal(x, y); });
}

/// Walks the program once and strikes out the inputs that are read anywhere else than where they are
/// overwritten.
class Walk {
 public:
  explicit Walk(const FuncNode& func) : result_(func.params.back()) {
    for (size_t i = 0; i + 1 < func.params.size(); ++i)
      // Sharing means byte for byte: another type or shape puts elements elsewhere.
      if (func.params[i]->dtype == result_->dtype && same_shape(*func.params[i], *result_))
        candidates_.insert(func.params[i].get());
  }

  std::set<const Node*> candidates(const Stmt& body) {
    if (!candidates_.empty()) visit(body);
    if (!candidates_.empty() && !writes_.are_distinct()) candidates_.clear();
    return std::move(candidates_);
  }

 private:
  void visit(const Stmt& stmt) {
    if (const For* loop = stmt.as<For>()) {
      read(loop->extent, nullptr);
      loops_.emplace_back(loop->var, loop->extent);
      visit(loop->body);
      loops_.pop_back();
    } else if (const Seq* seq = stmt.as<Seq>()) {
      for (const Stmt& each : seq->stmts) visit(each);
    } else if (const If* branch = stmt.as<If>()) {
      read(branch->condition, nullptr);
      visit_case(branch->then_case, conjuncts(branch->condition), true, stmt);
      if (branch->else_case) visit_case(branch->else_case, {branch->condition}, false, stmt);
    } else if (const Alloc* alloc = stmt.as<Alloc>()) {
      visit(alloc->body);
    } else if (const Store* store = stmt.as<Store>()) {
      // An element that is stored again reads an input that is gone.
      bool final = store->buffer == result_;
      if (final && !candidates_.empty()) writes_.add(*store, loops_, facts_, cases_);
      read(store->value, final ? &store->indices : nullptr);
      // An index that is loaded is read apart from any element.
      for (const Expr& index : store->indices) read(index, nullptr);
    }
  }

  void visit_case(const Stmt& stmt, const std::vector<Expr>& conditions, bool hold, const Stmt& branch) {
    size_t around = facts_.size();
    cases_.push_back({branch.get(), hold, loops_.size()});
    for (const Expr& condition : conditions)
      if (std::optional<Fact> fact = fact_of(condition, hold)) facts_.push_back(*fact);
    visit(stmt);
    facts_.resize(around);
    cases_.pop_back();
  }

  /// `allowed`: where the element of the result lies that the expression makes; null: it makes none.
  void read(const Expr& expr, const std::vector<Expr>* allowed) {
    post_order(expr, [&](const NodeRef& node) {
      const Load* load = node.as<Load>();
      if (!load) return;
      // A result that is read, a partial sum say, was stored before: the input's element would be gone by
      // then.
      if (load->buffer == result_) candidates_.clear();
      if (!allowed || !same_indices(load->indices, *allowed)) candidates_.erase(load->buffer.get());
    });
  }

  Buffer result_;
  std::set<const Node*> candidates_;
  Domain loops_;             // around the statement
  std::vector<Fact> facts_;  // that hold there
  std::vector<Case> cases_;  // that it is in
  Writes writes_;            // to the result
};

}  // namespace

std::vector<int64_t> in_place_arguments(const FuncNode& lowered) {
  std::vector<int64_t> arguments;
  if (lowered.outputs != 1) return arguments;
  if (const std::optional<LeadingCopy> copy = leading_copy(lowered))
    return {static_cast<int64_t>(copy->input)};
  std::set<const Node*> found = Walk(lowered).candidates(lowered.body);
  for (size_t i = 0; i + 1 < lowered.params.size(); ++i)
    if (found.count(lowered.params[i].get())) arguments.push_back(static_cast<int64_t>(i));
  return arguments;
}

}  // namespace lathe::tuner
