#include "core/codegen/dot_product.h"

#include <algorithm>

#include "core/tir/machine.h"

namespace lathe::codegen {
namespace {
using tir::Load;

/// The load whose value is converted to the type of the sum; null for others.
const Load* widened(const Expr& e, DataType to) {
  const Cast* cast = e.as<Cast>();
  return cast && cast->dtype.element() == to ? cast->value.as<Load>() : nullptr;
}

/// One term of a sum of so many.
std::optional<DotProduct> product_of(const Expr& e, int terms) {
  const Binary* product = e.as<Binary>();
  if (!product || product->op != BinaryOp::kMul) return std::nullopt;
  const Broadcast* left = product->a.as<Broadcast>();
  const Broadcast* same = left ? left : product->b.as<Broadcast>();
  if (!same) return std::nullopt;
  DotProduct result{widened(same->value, e.dtype().element()),
                    widened(left ? product->b : product->a, e.dtype().element()),
                    {},
                    {},
                    terms};
  if (!result.same || !result.each) return std::nullopt;
  for (const Load* load : {result.same, result.each})
    if (dot_length(load->buffer->dtype, e.dtype().element()) != terms) return std::nullopt;
  result.same_at = flatten(result.same->buffer, result.same->indices);
  result.each_at = flatten(result.each->buffer, result.each->indices);
  const bool grouped = result.each_at.vector_terms.empty() && result.each_at.lanes == e.dtype().lanes &&
                       result.each_at.lane_stride == terms && result.same_at.lanes == 1;
  return grouped ? std::optional(std::move(result)) : std::nullopt;
}

/// The terms of a sum, from left to right.
void collect_terms(const Expr& e, std::vector<Expr>& terms) {
  const Binary* sum = e.as<Binary>();
  if (!sum || sum->op != BinaryOp::kAdd) return terms.push_back(e);
  collect_terms(sum->a, terms);
  collect_terms(sum->b, terms);
}

/// `b` accesses the element `distance` behind that of `a`.
bool is_behind(const Load* load_a, const FlatAccess& a, const Load* load_b, const FlatAccess& b,
               int64_t distance) {
  return load_a->buffer == load_b->buffer && b.constant == a.constant + distance && have_same_terms(a, b);
}

}  // namespace

bool have_same_terms(const FlatAccess& a, const FlatAccess& b) {
  // As many, each of which is found in the other: terms are distinct.
  return a.terms.size() == b.terms.size() &&
         std::all_of(a.terms.begin(), a.terms.end(), [&b](const auto& term) {
           return std::any_of(b.terms.begin(), b.terms.end(), [&term](const auto& other) {
             return other.second == term.second &&
                    (other.first == term.first || structural_equal(other.first, term.first));
           });
         });
}

std::optional<DotProduct> dot_product_of(const Expr& sum) {
  const DataType element = sum.dtype().element();
  if (element != kInt32 && element != kFloat32) return std::nullopt;
  std::vector<Expr> terms;
  collect_terms(sum, terms);
  if (terms.size() != 2 && terms.size() != 4) return std::nullopt;
  const int count = static_cast<int>(terms.size());
  std::optional<DotProduct> first;
  for (int k = 0; k < count; ++k) {
    std::optional<DotProduct> product = product_of(terms[static_cast<size_t>(k)], count);
    if (!product) return std::nullopt;
    if (!first) first = product;
    if (!is_behind(first->same, first->same_at, product->same, product->same_at, k) ||
        !is_behind(first->each, first->each_at, product->each, product->each_at, k))
      return std::nullopt;
  }
  return first;
}

}  // namespace lathe::codegen
