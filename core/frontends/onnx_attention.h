// Attention and what stands around it, as operators of several domains compose it. Tensors are (batch, heads,
// length, size) unless said otherwise; all of these may be open.
#pragma once

#include "core/frontends/onnx_converter.h"

namespace lathe::onnx {

/// (batch, length, heads * size) with the heads apart. Throws Error where it is not of so many heads.
Value heads_apart(const Value& value, int64_t heads);
/// The inverse: heads side by side.
Value heads_joined(const Value& value);

/// 0 where `kept`, else minus infinity.
Value hidden_unless(const Value& kept, DataType dtype);
/// `mask`, whose last axis is that of so many keys: what types cannot tell the run checks.
Value of_keys(const Value& mask, const Expr& keys);

struct Attention {
  /// As many heads of queries as of keys, or a multiple: then some share those of keys. Values may be of
  /// another size.
  Value queries, keys, values;
  /// Of products; without one, 1 / sqrt(size).
  std::optional<double> scale = {};
  /// Scores are bounded by this smoothly, where it is not 0.
  double cap = 0;
  /// Added to the scores (batch, heads, queries, keys), which it may hide; null for nothing.
  Value bias = {};
  /// Whether the bias may hide all keys from a query. That gets zeros.
  bool may_see_nothing = false;
  /// (heads): scores of a key without a value, which takes its share; null for none.
  Value sink = {};
};

/// The result, and the steps before it: (batch, heads, queries, keys) each.
struct Attended {
  Value result, scores, capped, biased, shares;
};
/// softmax(scale q k^T + bias) v. Throws Error for heads that do not fit.
Attended attend(const Attention& attention);

/// Angles by which pairs of numbers are turned: (batch or 1, 1, length, columns), as angles_of() gives
/// columns.
struct Angles {
  Value cosines, sines;
  bool interleaved = false;  // pairs are neighbours rather than of the first and the second half
  Expr count = {};  // of a head's numbers, those that are turned; null: all that there are angles for
};
/// A table's columns for so many pairs: one a pair, or one for each of two neighbours. Of a constant table it
/// is a constant, of whose rows some are taken then.
Value angles_of(const Value& table, const Expr& pairs, bool interleaved);
/// The first numbers of each head in pairs; the others stay. Throws Error where it has fewer; what is open
/// the run checks.
Value turned(const Value& value, const Angles& angles);

}  // namespace lathe::onnx
