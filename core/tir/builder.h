// Einstein-like definitions of tensor programs: how operators state their meaning.
//
//   FuncBuilder f;
//   Buffer a = f.input("a", {m, k}, kFloat32), b = f.input("b", {n, k}, kFloat32);
//   Buffer c = f.reduce("dense", {m, n}, {k}, Combiner::kSum,
//                       [&](Vars i, Vars r) { return load(a, {i[0], r[0]}) * load(b, {i[1], r[0]}); });
//   Func dense = f.finish("dense", {c});
#pragma once

#include <functional>

#include "core/tir/stmt.h"

namespace lathe::tir {

enum class Combiner : uint8_t { kSum, kProd, kMax, kMin, kAnd, kOr };
/// The neutral element: 0, 1, lowest, highest, true, false.
Expr identity_of(Combiner combiner, DataType dtype);
Expr combine(Combiner combiner, Expr a, Expr b);
/// What `a op b` combines with; nothing for operations with no neutral element.
std::optional<Combiner> combiner_of(BinaryOp op);
/// The statement is c[i] = c[i] op value.
bool accumulates(const Store& store);

/// In which sums of many such elements are computed before they are rounded to, or divided down to, their
/// type: the next that neither wraps nor stops growing where a term is below the last place.
DataType dtype_of_sums(DataType dtype);

using Vars = std::span<const Var>;

class FuncBuilder {
 public:
  Buffer input(std::string name, std::vector<Expr> shape, DataType dtype);
  /// One block: out[i...] = value(i...). The element type is that of the value. Block names are made unique.
  Buffer compute(const std::string& name, std::vector<Expr> shape, const std::function<Expr(Vars)>& value);
  /// One block with init: out[i...] = combine over r of value(i..., r...), starting from the combiner's
  /// identity. Sums and products of floats of 16 bits are of float32, and rounded by a block of their own.
  Buffer reduce(const std::string& name, std::vector<Expr> shape, std::vector<Expr> reduce_extents,
                Combiner combiner, const std::function<Expr(Vars, Vars)>& value);
  /// One block that writes out[i...] and may read what it wrote for smaller i[axis]: these run in order.
  Buffer ordered(const std::string& name, std::vector<Expr> shape, size_t axis, DataType dtype,
                 const std::function<Expr(const Buffer& out, Vars)>& value);
  /// A whole statement that writes `out` (scatter, sort): one opaque block.
  Buffer opaque(const std::string& name, std::vector<Expr> shape, DataType dtype, std::vector<Buffer> reads,
                const std::function<Stmt(const Buffer& out)>& body);
  /// Params are the inputs in order of creation, then `outputs` (a buffer may be given once only, and not an
  /// input: copy it). The other buffers become allocations of the root block; computations that no output
  /// needs are left out. Without outputs all stay: blocks to be put into another program.
  Func finish(std::string name, const std::vector<Buffer>& outputs);

 private:
  std::string unique(const std::string& name);
  std::vector<Buffer> inputs_, intermediates_;
  std::vector<Stmt> nests_;
  std::map<std::string, int> names_;
};

}  // namespace lathe::tir
