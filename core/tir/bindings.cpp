#include "core/tir/bindings.h"

#include <algorithm>
#include <set>

#include "core/support/error.h"
#include "core/tir/text.h"

namespace lathe::tir {
namespace {
using Fault = std::optional<std::string>;

/// An iterator that provably leaves its extent. What is not linear, or of symbolic extent, is let pass.
Fault range_fault(const Block& block, const Domain& loops, const Analyzer& analyzer) {
  if (!analyzer.can_prove(block.predicate)) return {};  // it may cut the values
  for (const BlockIter& iter : block.iters) {
    const int64_t* extent = as_int(iter.extent);
    auto range = exact_range(iter.value, loops);
    if (!extent || !range) continue;
    // Linear, so both ends are reached.
    if (range->min < 0 || range->max >= *extent)
      return fmt::format("block {}: iterator {} = {} takes values {}..{}, outside 0..{}", block.name,
                         iter.var->name, print(iter.value), range->min, range->max, *extent);
  }
  return {};
}

/// Whether a variable of `loops` occurs.
bool uses_one_of(const Expr& e, const Domain& loops) {
  return std::any_of(loops.begin(), loops.end(),
                     [&](const auto& loop) { return uses_var(e, loop.first.get()); });
}

/// Runs through the iterations of the loops that take part in the reduction; `conditions` are those on them.
class Enumeration {
 public:
  Enumeration(const Block& block, const Domain& loops, std::vector<Expr> conditions)
      : block_(block), loops_(loops), conditions_(std::move(conditions)) {}

  Fault find_fault() {
    // No step twice (`step`) and as many as there are: each exactly once.
    int64_t wanted = 1;
    for (const BlockIter& iter : block_.iters)
      if (iter.kind == IterKind::kReduce) wanted *= int_value(iter.extent);
    if (Fault fault = visit(0, {})) return fault;
    if (static_cast<int64_t>(seen_.size()) == wanted) return {};
    return fmt::format("block {}: the loops visit {} of {} reduction steps", block_.name, seen_.size(),
                       wanted);
  }

 private:
  /// Copies the values for each iteration: there are at most kEnumeratedSteps.
  Fault visit(size_t loop, const VarMap& values) {
    if (loop == loops_.size()) return step(values);
    for (int64_t i = 0; i < int_value(loops_[loop].second); ++i) {
      VarMap inner = values;
      inner[loops_[loop].first.get()] = Expr(i);
      if (Fault fault = visit(loop + 1, inner)) return fault;
    }
    return {};
  }

  /// Substitution folds constants, so no simplifier is needed for each of thousands of steps.
  static std::optional<int64_t> value_of(const Expr& e, const VarMap& values) {
    Expr result = substitute(e, values);
    return as_int(result) ? std::optional(*as_int(result)) : std::nullopt;
  }

  /// One iteration of these loops: the point of the reduction that it visits, in `seen_`.
  Fault step(const VarMap& values) {
    for (const Expr& condition : conditions_)
      if (auto runs = value_of(condition, values); !runs || !*runs) return {};
    std::vector<int64_t> at;
    for (const BlockIter& iter : block_.iters) {
      if (iter.kind != IterKind::kReduce) continue;
      auto value = value_of(iter.value, values);
      if (!value) return {};
      at.push_back(*value);
    }
    if (seen_.insert(at).second) return {};
    std::string text;
    for (int64_t value : at) text += fmt::format("{}{}", text.empty() ? "" : ", ", value);
    return fmt::format("block {}: the loops visit reduction step ({}) twice", block_.name, text);
  }

  const Block& block_;
  const Domain& loops_;
  std::vector<Expr> conditions_;
  std::set<std::vector<int64_t>> seen_;
};

/// Only the loops that the reduction's iterators use take part: for every value of the others they must visit
/// the whole reduction once. What cannot be decided is let pass, since the interpreter and the worker's check
/// of results come after this.
Fault reduction_fault(const Block& block, const Domain& loops, const Analyzer& analyzer) {
  Domain used;
  // Iterations of the loops that take part, and points of the reduction.
  int64_t steps = 1, wanted = 1;
  for (const auto& [v, extent] : loops) {
    bool reduces = false, spatial = false;
    for (const BlockIter& iter : block.iters)
      // A loop that moves both (fused, say) visits other steps for each place.
      (iter.kind == IterKind::kReduce ? reduces : spatial) |= uses_var(iter.value, v.get());
    if (!reduces) continue;
    Expr size = analyzer.simplify(extent);
    const int64_t* n = as_int(size);
    if (!n || *n < 1 || spatial)
      return {};  // of symbolic extent, empty, or one loop for both: not decided here
    used.emplace_back(v, Expr(*n));
    // Too many to count: not decided here.
    if (__builtin_mul_overflow(steps, *n, &steps)) return {};
  }
  for (const BlockIter& iter : block.iters) {
    if (iter.kind != IterKind::kReduce) continue;
    const int64_t* n = as_int(iter.extent);
    if (!n || __builtin_mul_overflow(wanted, *n, &wanted)) return {};
  }
  std::vector<Expr> conditions;
  // The loops that only say where the block is.
  Domain others = loops;
  std::erase_if(others, [&](const auto& loop) { return uses_one_of(loop.first, used); });
  for (const Expr& part : conjuncts(block.predicate)) {
    if (!uses_one_of(part, used)) continue;
    if (uses_one_of(part, others))
      return {};  // which steps run depends on where the block is: not decided here
    conditions.push_back(part);
  }
  if (steps <= kEnumeratedSteps) return Enumeration(block, used, conditions).find_fault();
  // Too few iterations, or too many with nothing to cut them, cannot be right whatever they visit.
  if (steps < wanted || (steps != wanted && conditions.empty()))
    return fmt::format("block {}: {} loop iterations for {} reduction steps", block.name, steps, wanted);
  return {};
}
}  // namespace

std::optional<Bound> exact_range(const Expr& e, const Domain& domain) {
  std::vector<Var> vars;
  for (const auto& [v, extent] : domain) vars.push_back(v);
  auto form = linear_form(e, vars);
  const int64_t* rest = form ? as_int(form->rest) : nullptr;
  if (!rest) return std::nullopt;
  Bound range{*rest, *rest};
  for (const auto& [v, extent] : domain) {
    auto found = form->coefficients.find(v.get());
    if (found == form->coefficients.end()) continue;
    const int64_t* n = as_int(extent);
    if (!n || *n < 1) return std::nullopt;
    // Variables are independent, so each contributes its own end.
    (found->second > 0 ? range.max : range.min) += found->second * (*n - 1);
  }
  return range;
}

Fault find_binding_fault(const Block& block, const Domain& loops, const Analyzer& analyzer) {
  if (Fault fault = range_fault(block, loops, analyzer)) return fault;
  for (const BlockIter& iter : block.iters)
    if (iter.kind == IterKind::kReduce) return reduction_fault(block, loops, analyzer);
  return {};
}

}  // namespace lathe::tir
