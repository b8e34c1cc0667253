// The flat address of an access as a sum, so that accesses which differ by a constant share one pointer.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/tir/stmt.h"

namespace lathe::codegen {

/// Element offset of lane l: sum of coefficient * term + constant + l * lane_stride + sum of coefficient *
/// (lane l of vector term).
struct FlatAccess {
  std::vector<std::pair<Expr, int64_t>> terms;         // scalars, in order of appearance, distinct nodes
  std::vector<std::pair<Expr, int64_t>> vector_terms;  // vectors that are not ramps
  int64_t constant = 0;
  int64_t lane_stride = 0;
  int lanes = 1;
  bool is_constant() const { return terms.empty() && vector_terms.empty(); }
  /// One vector register's worth of consecutive elements (or one element).
  bool is_dense() const { return vector_terms.empty() && (lanes == 1 || lane_stride == 1); }
};

/// Strides that depend on open dimensions are parts of the terms: 4 * (i * n), not (4 * n) * i.
FlatAccess flatten(const tir::Buffer& buffer, std::span<const Expr> indices);

/// Lanes that follow each other in memory but for one jump, as of a row that was reshaped into rows of
/// another length: from lane `before` on they are those of `second`, the others those of `first`, both dense.
struct BrokenLine {
  FlatAccess first, second;
  Expr before;  // at least 1; beyond the last lane where there is no jump
};
/// Nothing for other accesses.
std::optional<BrokenLine> broken_line(const FlatAccess& access);

/// What accesses with a common pointer share.
struct AddressKey {
  const tir::BufferNode* buffer;
  std::vector<std::pair<const Node*, int64_t>> terms;
  auto operator<=>(const AddressKey&) const = default;
};
AddressKey key_of(const FlatAccess& access, const tir::Buffer& buffer);

/// True when e is provably >= 0 from its form alone, variables being loop indices.
bool is_non_negative(const Expr& e);

}  // namespace lathe::codegen
