// Sums of products of neighbours, as tensor programs hold them: what instructions for dot products compute.
#pragma once

#include <optional>

#include "core/codegen/address.h"

namespace lathe::codegen {

/// The sum of cast(x[..., k]) * cast(y[..., lane, k]) over the `terms` neighbours k of both, where x is the
/// same for all lanes: lane l of y reads element terms * l.
struct DotProduct {
  const tir::Load *same, *each;  // of k = 0
  FlatAccess same_at, each_at;
  int terms;  // as many as 32 bits hold: dot_length of either operand
  /// Of each byte of y so many bits, from `shift` on, are the number.
  int shift = 0, bits = 8;
};

/// Null where `sum`, of vectors of float32 or int32, is none.
std::optional<DotProduct> dot_product_of(const Expr& sum);

/// Both are sums of the same terms, but for the constant.
bool have_same_terms(const FlatAccess& a, const FlatAccess& b);

}  // namespace lathe::codegen
