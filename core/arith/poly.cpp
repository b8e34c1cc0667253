#include "core/arith/poly.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace lathe {
namespace {
// Unsigned, because C++ leaves the overflow of signed numbers undefined.
int64_t wrap_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t wrap_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

template <typename T>
int three_way(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

int compare_nodes(const Node* a, const Node* b);

/// Any total order does, as long as equal expressions compare equal: bytes will do for floats.
int compare_cells(const Cell& a, const Cell& b) {
  if (int order = three_way(a.tag, b.tag)) return order;
  switch (a.tag) {
    case Cell::Tag::kInt:
      return three_way(a.integer, b.integer);
    case Cell::Tag::kText:
      return three_way(a.text, b.text);
    case Cell::Tag::kFloat:
      return std::memcmp(&a.real, &b.real, sizeof a.real);
    case Cell::Tag::kNode:
      return compare_nodes(a.node, b.node);
  }
  return 0;
}

/// By type, then field by field; nodes with an identity (variables, buffers) at last by which was made first.
int compare_nodes(const Node* a, const Node* b) {
  if (a == b) return 0;
  if (!a || !b) return a ? 1 : -1;
  if (&a->type() != &b->type())
    return three_way(std::string_view(a->type().name), std::string_view(b->type().name));
  // One stack for all levels and calls: sorting the terms of a long sum compares thousands of nodes.
  thread_local std::vector<Cell> cells;
  const size_t x = cells.size();
  a->append_cells(cells);
  const size_t y = cells.size();
  b->append_cells(cells);
  const size_t size_of_a = y - x, size_of_b = cells.size() - y;
  int order = 0;
  for (size_t i = 0; order == 0 && i < std::min(size_of_a, size_of_b); ++i) {
    const Cell of_a = cells[x + i], of_b = cells[y + i];  // by value: the stack grows below
    order = compare_cells(of_a, of_b);
  }
  cells.resize(x);
  if (order != 0) return order;
  if (size_of_a != size_of_b) return three_way(size_of_a, size_of_b);
  return a->type().identity == Identity::kName ? three_way(a->serial(), b->serial()) : 0;
}

/// Lexicographic; a product comes before those that it begins.
int compare_factors(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (int order = compare(a[i], b[i])) return order;
  return three_way(a.size(), b.size());
}

/// `?` is not equal to itself: two terms with it must not become 2 * ? or cancel.
bool mergeable(const Term& a, const Term& b) {
  return compare_factors(a.factors, b.factors) == 0 &&
         std::none_of(a.factors.begin(), a.factors.end(), contains_any);
}

/// The factors times `coefficient`, which may differ from the term's in sign.
Expr product(const Term& term, int64_t coefficient) {
  Expr result;
  for (const Expr& factor : term.factors) result = result ? result * factor : factor;
  return result * Expr(coefficient);
}

/// a * t. Different factors stay different when multiplied by the same ones, so no terms merge, but their
/// order may change. A coefficient becomes 0 only by wrapping.
Poly multiply_terms(const Poly& a, const Term& t) {
  Poly result;
  if (a.constant != 0) result.terms.push_back({wrap_mul(a.constant, t.coefficient), t.factors});
  for (const Term& term : a.terms) {
    Term merged{wrap_mul(term.coefficient, t.coefficient), {}};
    std::merge(term.factors.begin(), term.factors.end(), t.factors.begin(), t.factors.end(),
               std::back_inserter(merged.factors),
               [](const Expr& x, const Expr& y) { return compare(x, y) < 0; });
    result.terms.push_back(std::move(merged));
  }
  std::erase_if(result.terms, [](const Term& term) { return term.coefficient == 0; });
  std::sort(result.terms.begin(), result.terms.end(),
            [](const Term& x, const Term& y) { return compare_factors(x.factors, y.factors) < 0; });
  return result;
}
}  // namespace

const Expr* Poly::single_atom() const {
  bool single = terms.size() == 1 && terms[0].coefficient == 1 && terms[0].factors.size() == 1;
  return single ? &terms[0].factors[0] : nullptr;
}

int compare(const Expr& a, const Expr& b) { return compare_nodes(a.get(), b.get()); }

bool contains_any(const Expr& e) {
  if (e->kind() == ExprKind::kVar || e->kind() == ExprKind::kInt) return false;
  bool found = false;
  post_order(e, [&](const NodeRef& node) { found |= node.as<Any>() != nullptr; });
  return found;
}

Poly constant_poly(int64_t value) { return {{}, value}; }

Poly atom_poly(Expr atom) {
  if (const int64_t* value = as_int(atom)) return constant_poly(*value);
  Poly result;
  result.terms.push_back({1, {std::move(atom)}});
  return result;
}

/// Merges two sorted lists of terms, in time linear in their lengths.
Poly add(const Poly& a, const Poly& b, int64_t scale_of_b) {
  Poly result;
  result.constant = wrap_add(a.constant, wrap_mul(b.constant, scale_of_b));
  size_t i = 0, j = 0;
  auto take = [&](const Term& term, int64_t factor) {
    Term scaled{wrap_mul(term.coefficient, factor), term.factors};
    if (!result.terms.empty() && mergeable(result.terms.back(), scaled)) {
      int64_t sum = wrap_add(result.terms.back().coefficient, scaled.coefficient);
      result.terms.back().coefficient = sum;
      if (sum == 0) result.terms.pop_back();
    } else if (scaled.coefficient != 0) {
      result.terms.push_back(std::move(scaled));
    }
  };
  while (i < a.terms.size() || j < b.terms.size()) {
    bool from_a = j == b.terms.size() ||
                  (i < a.terms.size() && compare_factors(a.terms[i].factors, b.terms[j].factors) <= 0);
    from_a ? take(a.terms[i++], 1) : take(b.terms[j++], scale_of_b);
  }
  return result;
}

Poly scale(const Poly& p, int64_t factor) { return add({}, p, factor); }

/// Products of long sums stay one opaque term of two factors: multiplied out, powers of a sum grow
/// exponentially.
Poly multiply(const Poly& a, const Poly& b) {
  if (a.is_constant()) return scale(b, a.constant);
  if (b.is_constant()) return scale(a, b.constant);
  // The order of the two must not depend on how the product was written.
  if (a.terms.size() * b.terms.size() >= kMaxProductTerms) {
    Term opaque{1, {compose(a), compose(b)}};
    if (compare(opaque.factors[1], opaque.factors[0]) < 0) std::swap(opaque.factors[0], opaque.factors[1]);
    return {{opaque}, 0};
  }
  Poly result = scale(a, b.constant);
  for (const Term& term : b.terms) result = add(result, multiply_terms(a, term));
  return result;
}

namespace {

struct Part {
  Poly poly;
  int64_t sign = 1;
};

/// By halves: part after part, each would be copied as often as there are parts after it.
Poly sum_of(std::span<Part> parts) {
  if (parts.size() == 1) return parts[0].sign == 1 ? std::move(parts[0].poly) : scale(parts[0].poly, -1);
  if (parts.size() == 2 && parts[0].sign == 1) return add(parts[0].poly, parts[1].poly, parts[1].sign);
  const size_t half = parts.size() / 2;
  return add(sum_of(parts.first(half)), sum_of(parts.subspan(half)));
}

}  // namespace

Poly sum_of(const Expr& e, FunctionRef<Poly(const Expr&)> poly_of) {
  std::vector<Part> parts;
  std::vector<std::pair<Expr, int64_t>> left{{e, 1}};
  while (!left.empty()) {
    const std::pair<Expr, int64_t> next = std::move(left.back());
    left.pop_back();
    const Binary* b = next.first.dtype() == kInt64 ? next.first.as<Binary>() : nullptr;
    if (b && (b->op == BinaryOp::kAdd || b->op == BinaryOp::kSub)) {
      left.emplace_back(b->b, b->op == BinaryOp::kSub ? -next.second : next.second);
      left.emplace_back(b->a, next.second);
    } else {
      parts.push_back({poly_of(next.first), next.second});
    }
  }
  return sum_of(parts);
}

Poly decompose(const Expr& e) {
  return sum_of(e, [](const Expr& part) {
    if (const int64_t* value = as_int(part)) return constant_poly(*value);
    const Binary* b = part.as<Binary>();
    if (b && b->op == BinaryOp::kMul && part.dtype() == kInt64)
      return multiply(decompose(b->a), decompose(b->b));
    return atom_poly(part);
  });
}

Expr compose(const Poly& p) {
  std::vector<const Term*> order;
  for (const Term& term : p.terms) order.push_back(&term);
  auto magnitude = [](const Term* t) {
    return t->coefficient < 0 ? -static_cast<uint64_t>(t->coefficient) : t->coefficient;
  };
  // Positive terms first, so that the others can be subtracted; then the larger strides of an index.
  std::stable_sort(order.begin(), order.end(), [&](const Term* a, const Term* b) {
    if ((a->coefficient > 0) != (b->coefficient > 0)) return a->coefficient > 0;
    return magnitude(a) > magnitude(b);
  });
  Expr result;
  // 5 - x, not -1*x + 5.
  bool constant_first = !order.empty() && order[0]->coefficient < 0 && p.constant > 0;
  if (constant_first) result = Expr(p.constant);
  for (const Term* term : order) {
    int64_t c = term->coefficient;
    if (!result)
      result = product(*term, c);
    else if (c > 0)
      result = result + product(*term, c);
    else
      result = c == INT64_MIN ? result + product(*term, c) : result - product(*term, -c);
  }
  if (!result) return Expr(p.constant);
  if (constant_first || p.constant == 0) return result;
  // INT64_MIN has no negative to subtract.
  return p.constant > 0 || p.constant == INT64_MIN ? result + Expr(p.constant) : result - Expr(-p.constant);
}

}  // namespace lathe
