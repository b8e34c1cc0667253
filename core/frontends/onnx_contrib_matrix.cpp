// Matrices as ONNX Runtime's own operators take them.
#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_program.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::onnx {
namespace {

/// A step of Gauss and Jordan's elimination of matrices `rows` (batch, m, 2 * m): column k becomes that of
/// the unit matrix. Of the rows from k on the one with the largest element is the pivot.
Value eliminated(const Value& rows, const Value& k) {
  const std::vector<Expr> dims = dims_of(rows);
  const Expr &batch = dims[0], &m = dims[1], &width = dims[2];
  const Value row = counted_along(m, 1, 2), is_k = emit("equal", {row, k});
  const Value size = choose(less(row, k), number(rows, -1), emit("abs", {taken(rows, k, 2)}));
  const Value largest =
      cast_to(emit("argmax", {size}, make<relay::ArgReduceAttrs>(relay::Ints{1}, true)), kInt64);
  // It changes places with row k.
  const Value order = choose(is_k, largest, choose(emit("equal", {row, largest}), k, row));
  const Value swapped = emit("gather", {rows, repeated_to(reshape_to(order, {batch, m, 1}), dims)},
                             make<relay::GatherAttrs>(int64_t{1}));
  const Value pivots = taken(swapped, k, 1);
  const Value pivot =
      reshape_to(over(pivots, reshape_to(taken(pivots, k, 1), {batch, 1})), {batch, 1, width});
  const Value factors = reshape_to(taken(swapped, k, 2), {batch, m, 1});
  return choose(reshape_to(is_k, {1, m, 1}), pivot, minus(swapped, times(factors, pivot)));
}

/// Of matrices (.., m, m).
Values inverse(const Node& node) {
  std::vector<Expr> dims = node.dims(0);
  if (dims.size() < 2) node.reject("an input of rank {}, must be 2 or more", dims.size());
  const Expr m = as_int(dims.back()) ? dims.back() : dims[dims.size() - 2];
  dims[dims.size() - 2] = dims.back() = m;
  const Expr batch = elements_of(std::span(dims).first(dims.size() - 2));
  const Value given = reshape_to(with_dims(node.in(0), dims), {batch, m, m});
  const Value unit = cast_to(emit("equal", {counted_along(m, 1, 3), counted_along(m, 2, 3)}), node.dtype(0));
  const Values last = loop_while(
      {integer(0), concatenated({given, repeated_to(unit, {batch, m, m})}, 2)},
      [&](const Values& state) { return less(state[0], number_of(m)); },
      [&](const Values& state) {
        return Values{plus(state[0], integer(1)), eliminated(state[1], state[0])};
      });
  return {reshape_to(sliced_by(last[1], 2, {m, m}), dims)};
}

constexpr Converter kConverters[] = {{"Inverse", inverse, Arithmetic::kWide}};
}  // namespace

std::span<const Converter> contrib_matrix_converters() { return kConverters; }

}  // namespace lathe::onnx
