#include "core/tir/passes/edge_test.h"

#include <algorithm>
#include <numeric>

#include "core/support/floor_div.h"
#include "core/tir/stmt.h"

namespace lathe::tir {

void add_terms(const Expr& e, int64_t factor, Terms& terms, int64_t& constant) {
  if (const int64_t* value = as_int(e)) {
    constant += factor * *value;
    return;
  }
  if (const Binary* b = e.as<Binary>()) {
    if (b->op == BinaryOp::kAdd || b->op == BinaryOp::kSub) {
      add_terms(b->a, factor, terms, constant);
      return add_terms(b->b, b->op == BinaryOp::kAdd ? factor : -factor, terms, constant);
    }
    if (const int64_t* c = as_int(b->b); c && b->op == BinaryOp::kMul)
      return add_terms(b->a, factor * *c, terms, constant);
    if (const int64_t* c = as_int(b->a); c && b->op == BinaryOp::kMul)
      return add_terms(b->b, factor * *c, terms, constant);
  }
  for (auto& [term, coefficient] : terms)
    if (structural_equal(term, e)) {
      coefficient += factor;
      return;
    }
  terms.emplace_back(e, factor);
}

namespace {
/// What values `term` takes within a tile: that of one of its loops, or a part of it, as f // 4 and f % 4.
/// Unbounded where a loop inside, but not of the tile, has a say; nothing where none of them has.
std::optional<Bound> bound_within(const Expr& term, const Extents& inner) {
  Analyzer analyzer;
  bool varies = false, only_tile = true;
  post_order(term, [&](const NodeRef& node) {
    auto loop = inner.find(node.as<VarNode>());
    if (!node.as<VarNode>()) return;
    if (loop == inner.end()) {
      only_tile = false;
      return;
    }
    varies = true;
    only_tile &= loop->second >= 0;
    analyzer.bind_range(node.cast<VarNode>(), Expr(loop->second));
  });
  if (!varies) return std::nullopt;
  return only_tile ? analyzer.bound(term) : Bound{};
}
}  // namespace

bool uses_dims(const Expr& e, const Dims& dims) {
  return !dims.empty() &&
         std::any_of(dims.begin(), dims.end(), [&](const VarNode* dim) { return uses_var(e, dim); });
}

std::optional<EdgeTest> edge_test(const Expr& condition, const Extents& inner, const Dims& dims) {
  const Binary* compare = condition.as<Binary>();
  if (!compare || (compare->op != BinaryOp::kLt && compare->op != BinaryOp::kLe) ||
      compare->a.dtype() != kInt64)
    return {};
  EdgeTest test;
  test.open = uses_dims(condition, dims);
  Expr outside = 0;
  // a <= b is a - b - 1 < 0.
  int64_t constant = compare->op == BinaryOp::kLe ? -1 : 0;
  Terms terms;
  add_terms(compare->a, 1, terms, constant);
  add_terms(compare->b, -1, terms, constant);
  test.largest = test.smallest = constant;
  test.tile = Expr(constant);
  for (const auto& [term, coefficient] : terms) {
    if (auto bound = bound_within(term, inner)) {
      if (*bound == Bound{} || bound->max == INT64_MAX || bound->min == INT64_MIN) return {};
      // The largest value of the tile's part: when the test passes with it, the whole tile passes.
      test.largest += coefficient * (coefficient > 0 ? bound->max : bound->min);
      test.smallest += coefficient * (coefficient > 0 ? bound->min : bound->max);
      test.tile = test.tile + term * coefficient;
      test.step = std::gcd(test.step, coefficient);
      continue;
    }
    if (coefficient == 0) continue;
    outside = outside + term * coefficient;
    test.is_sum = test.atom && !test.open;
    test.atom = term;
    test.coefficient = coefficient;
  }
  if (test.open || test.is_sum) {
    test.atom = simplify(outside);
    test.coefficient = 1;
    if (as_int(test.atom)) return {};
  }
  if (!test.atom) return {};
  return test;
}

Bound inside_values(const EdgeTest& test) {
  // coefficient * atom <= -largest - 1
  int64_t limit = -test.largest - 1;
  if (test.coefficient > 0) return {INT64_MIN, floor_div(limit, test.coefficient)};
  return {-floor_div(limit, -test.coefficient), INT64_MAX};
}

int64_t parts_within(const EdgeTest& test) {
  return test.step == 0 ? 0 : (test.largest - test.smallest) / test.step;
}

bool decides_alike(const EdgeTest& test, const Bound& values) {
  if (test.step == 0 || values.is_point()) return values.is_point();
  // step * places <= -constant - atom - 1
  const int64_t rest = floor_mod(test.largest, test.step);
  return floor_div(-rest - values.min - 1, test.step) == floor_div(-rest - values.max - 1, test.step);
}

namespace {
/// What is loaded again may be another number.
bool loads_anything(const Expr& e) {
  bool found = false;
  post_order(e, [&](const NodeRef& node) { found |= node.as<Load>() != nullptr; });
  return found;
}
}  // namespace

void EdgePlaces::decide(const Expr& condition, bool holds) {
  const std::vector<Expr> tests = conjuncts(condition);
  if (!holds && tests.size() > 1) return;  // one of them does not
  for (const Expr& test : tests) {
    const Binary* compare = test.as<Binary>();
    if (!compare || compare->a.dtype() != kInt64 || !uses_dims(test, *dims_) || loads_anything(test))
      continue;
    const Expr difference = simplify(compare->a - compare->b);
    if (compare->op == BinaryOp::kLt)
      add(difference, holds ? Bound{INT64_MIN, -1} : Bound{0, INT64_MAX});
    else if (compare->op == BinaryOp::kLe)
      add(difference, holds ? Bound{INT64_MIN, 0} : Bound{1, INT64_MAX});
    else if (compare->op == BinaryOp::kEq && holds)
      add(difference, {0, 0});
  }
}

namespace {
Bound negative(const Bound& values) {
  return {values.max == INT64_MAX ? INT64_MIN : -values.max,
          values.min == INT64_MIN ? INT64_MAX : -values.min};
}
}  // namespace

Bound EdgePlaces::values(const Analyzer& analyzer, const Expr& sum) const {
  Bound result = analyzer.bound(sum);
  if (!uses_dims(sum, *dims_)) return result;
  for (const auto& [place, known] : places_)
    for (bool same : {true, false}) {
      const Expr rest = same ? simplify(sum - place) : simplify(sum + place);
      if (uses_dims(rest, *dims_)) continue;
      const Bound left = analyzer.bound(rest), values = same ? known : negative(known);
      if (values.min != INT64_MIN && left.min != INT64_MIN)
        result.min = std::max(result.min, values.min + left.min);
      if (values.max != INT64_MAX && left.max != INT64_MAX)
        result.max = std::min(result.max, values.max + left.max);
    }
  return result;
}

}  // namespace lathe::tir
