#include "core/codegen/dot_product.h"

#include <algorithm>
#include <bit>

#include "core/tir/machine.h"

namespace lathe::codegen {
namespace {
using tir::Load;

/// A load, or some of the bits of what it loads.
struct Operand {
  const Load* load = nullptr;
  int shift = 0, bits = 8;
};

/// The number that all lanes of `e` are; nothing for other expressions.
std::optional<int64_t> number_of(const Expr& e) {
  const Broadcast* lanes = e.as<Broadcast>();
  const int64_t* number = as_int(lanes ? lanes->value : e);
  return number ? std::optional(*number) : std::nullopt;
}

/// The bits of unsigned bytes that `e` is: load, load & mask, load >> shift, or (load >> shift) & mask.
Operand bits_of(const Expr& e) {
  if (const Load* load = e.as<Load>()) return {load};
  const Binary* part = e.as<Binary>();
  const std::optional<int64_t> by = part && e.dtype().element() == kUInt8 ? number_of(part->b) : std::nullopt;
  if (!by) return {};
  Operand whole = bits_of(part->a);
  if (part->op == BinaryOp::kShiftRight && whole.bits == 8 && whole.shift == 0 && *by > 0 && *by < 8)
    return {whole.load, static_cast<int>(*by), 8 - static_cast<int>(*by)};
  const auto mask = static_cast<uint64_t>(*by);
  const bool lowest = std::has_single_bit(mask + 1) && *by > 0;
  if (part->op != BinaryOp::kBitAnd || !lowest) return {};
  return {whole.load, whole.shift, std::min(whole.bits, std::countr_one(mask))};
}

/// What is converted to the type of the sum; no load for others.
Operand widened(const Expr& e, DataType to) {
  const Cast* cast = e.as<Cast>();
  return cast && cast->dtype.element() == to ? bits_of(cast->value) : Operand{};
}

/// One term of a sum of so many.
std::optional<DotProduct> product_of(const Expr& e, int terms) {
  const Binary* product = e.as<Binary>();
  if (!product || product->op != BinaryOp::kMul) return std::nullopt;
  const Broadcast* left = product->a.as<Broadcast>();
  const Broadcast* same = left ? left : product->b.as<Broadcast>();
  if (!same) return std::nullopt;
  const Operand one = widened(same->value, e.dtype().element()),
                each = widened(left ? product->b : product->a, e.dtype().element());
  if (!one.load || !each.load || one.bits != 8) return std::nullopt;
  DotProduct result{one.load, each.load, {}, {}, terms, each.shift, each.bits};
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
        !is_behind(first->each, first->each_at, product->each, product->each_at, k) ||
        product->shift != first->shift || product->bits != first->bits)
      return std::nullopt;
  }
  return first;
}

}  // namespace lathe::codegen
