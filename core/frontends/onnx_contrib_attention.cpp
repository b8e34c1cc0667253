// Attention as com.microsoft has it: with the products before it, masks of several forms, caches and
// rotations. (Microsoft's ContribOperators.md says what each computes; where it leaves something open, ONNX
// Runtime's kernels for CPUs do.)
#include "core/frontends/onnx_contrib_attention.h"

#include <algorithm>
#include <cmath>

#include "core/arith/simplify.h"
#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_dims.h"
#include "core/frontends/onnx_run_sizes.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/text.h"

namespace lathe::onnx {
using relay::Ints;
using Dims = std::vector<Expr>;

namespace {

Value added(const Value& a, const Value& b) { return !a ? b : !b ? a : plus(a, b); }

int64_t heads_of(const Node& node, const char* name = "num_heads") {
  const int64_t heads = node.integer(name, 0);
  if (heads < 1) node.reject("{} is {}, must be positive", name, heads);
  return heads;
}

/// Whether inputs i and i + 1 are keys and values of the past, (batch, heads, length, size).
bool has_past(const Node& node, size_t i) {
  if (node.has(i) != node.has(i + 1)) node.reject("keys of the past without values, or values without keys");
  for (size_t each : {i, i + 1})
    if (node.has(each) && node.rank(each) != 4)
      node.reject("a past of type {}", relay::print(node.in(each)->checked_type));
  return node.has(i);
}

/// What a query may not see of what comes after it: a place of its own, `before` it has all others.
Value causal_bias(const Expr& queries, const Expr& keys, const Expr& before, DataType dtype) {
  const Value last = plus(counted_along(queries, 2, 4), number_of(before));
  return hidden_unless(emit("less_equal", {counted_along(keys, 3, 4), last}), dtype);
}

/// What input i adds to the scores: mask_filter_value where it hides a key. Of the lengths of all sequences,
/// or their ends and then their beginnings; of numbers for each key, positive where it is seen, of a sequence
/// or of each of its queries; or of those for all places that queries, which have `before` keys before the
/// first, and keys may have. A query that sees no key sees them all alike.
Value mask_bias(const Node& node, size_t i, const Dims& scores, const Expr& before, DataType dtype) {
  const Dims mask = node.dims(i);
  const Expr &batch = scores[0], &keys = scores[3];
  const Value given = cast_to(node.in(i), kInt64), column = counted_along(keys, 3, 4);
  const auto end = [&](const Expr& first) {
    return reshape_to(sliced_by(given, 0, {first, batch, 1}), {batch, 1, 1, 1});
  };
  Value kept;
  if (mask.size() == 1 && prove_equal(mask[0], 2 * batch)) {
    // The ends of all sequences, then their beginnings.
    kept = emit("logical_and", {less(column, end(0)), emit("less_equal", {end(batch), column})});
  } else if (mask.size() == 1) {
    kept = less(column, reshape_to(with_dims(given, {batch}), {batch, 1, 1, 1}));
  } else if (mask.size() == 2 || mask.size() == 3) {
    Dims shape{mask[0], 1, mask.size() == 3 ? mask[1] : Expr(1), mask.back()};
    kept = of_keys(emit("greater", {reshape_to(given, shape), scalar(kInt64, 0)}), keys);
  } else if (mask.size() == 4 && is_int(mask[1], 1) && prove_equal(mask[2], mask[3])) {
    const Value rows = sliced_by(sliced_by(given, 2, {before, scores[2]}), 3, {0, keys});
    kept = emit("greater", {with_dims(rows, {mask[0], 1, scores[2], keys}), scalar(kInt64, 0)});
  } else {
    node.reject("a mask of type {} is not supported", relay::print(node.in(i)->checked_type));
  }
  return choose(kept, scalar(dtype, 0), scalar(dtype, node.real("mask_filter_value", -10000)));
}

/// Attention with what the attributes and these inputs hide of (batch, heads, queries, keys), heads joined.
/// `before` keys come from earlier runs.
Value attended_heads(const Node& node, Attention a, std::optional<size_t> mask, std::optional<size_t> summand,
                     const Expr& before) {
  const DataType dtype = type_of(a.queries).dtype;
  const Dims queries = dims_of(a.queries), keys = dims_of(a.keys);
  if (const double scale = node.real("scale", 0); scale != 0) a.scale = scale;
  if (mask && node.has(*mask))
    a.bias = mask_bias(node, *mask, {queries[0], queries[1], queries[2], keys[2]}, before, dtype);
  if (summand && node.has(*summand))
    a.bias = added(a.bias, of_keys(cast_to(node.in(*summand), dtype), keys[2]));
  if (node.integer("unidirectional", 0) != 0 && !is_int(queries[2], 1))
    a.bias = added(a.bias, causal_bias(queries[2], keys[2], before, dtype));
  return heads_joined(attend(a).result);
}

/// Angles of so many places from `before` on, for heads of this size: i-th pairs are turned by
/// 10000^(-2 i / dim) from one place to the next.
Angles angles_of_places(const Node& node, const Expr& length, const Expr& before, const Expr& size) {
  const int64_t all = as_int(size) ? int_value(size) : 0, given = node.integer("rotary_embedding_dim", 0),
                dim = given > 0 ? given : all;
  if (dim < 2 || dim > all || dim % 2) node.reject("{} numbers to turn of heads of {}", dim, all);
  Tensor steps({1, dim / 2}, kFloat32);
  for (int64_t i = 0; i < dim / 2; ++i)
    steps.set(i, std::pow(10000, -2 * static_cast<double>(i) / static_cast<double>(dim)));
  const Value places = cast_to(plus(counted_along(length, 0, 2), number_of(before)), kFloat32),
              angles = times(places, constant(steps));
  const auto of_pairs = [&](const char* f) {
    return reshape_to(emit(f, {angles}), {1, 1, length, Expr(dim / 2)});
  };
  return {of_pairs("cos"), of_pairs("sin")};
}

}  // namespace

Values attention_of_projections(const Node& node, const Projections& of) {
  const int64_t heads = heads_of(node);
  Value q = heads_apart(of.queries, heads), k = heads_apart(of.keys, heads),
        v = heads_apart(of.values, heads);
  Value present;
  const Dims past = of.past ? dims_of(of.past) : Dims{};  // (2, batch, heads, length, size)
  if (of.past && (past.size() != 5 || !is_int(past[0], 2)))
    node.reject("a past of type {}", relay::print(of.past->checked_type));
  const Expr before = of.past ? past[3] : Expr(0);
  if (node.integer("do_rotary", 0) != 0) {
    const Dims shape = dims_of(q);
    const Angles angles = angles_of_places(node, shape[2], before, shape[3]);
    q = turned(q, angles), k = turned(k, angles);
  }
  if (of.past) {
    const auto with_past = [&](int64_t which, const Value& now) {
      const Value then =
          reshape_to(sliced(of.past, 0, which, which + 1), {past[1], past[2], past[3], past[4]});
      return concatenated({then, now}, 2);
    };
    k = with_past(0, k), v = with_past(1, v);
  }
  if (node.outputs() > 1) {
    Values both;
    for (const Value& each : {k, v}) {
      Dims shape = dims_of(each);
      shape.insert(shape.begin(), Expr(1));
      both.push_back(reshape_to(each, shape));
    }
    present = concatenated(both, 0);
  }
  return {attended_heads(node, {.queries = q, .keys = k, .values = v}, of.mask, of.summand, before), present};
}

Projections split_projections(const Node& node, const Value& product) {
  Ints sizes = node.ints("qkv_hidden_sizes", {});
  const Dims shape = dims_of(product);
  const int64_t* width = shape.size() == 3 ? as_int(shape[2]) : nullptr;
  if (!width) node.reject("a product of type {}", relay::print(product->checked_type));
  if (sizes.empty()) sizes.assign(3, *width / 3);
  if (sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != *width)
    node.reject("{} columns for queries, keys and values of sizes {}", *width, shape_text(sizes));
  return {sliced(product, 2, 0, sizes[0]), sliced(product, 2, sizes[0], sizes[0] + sizes[1]),
          sliced(product, 2, sizes[0] + sizes[1], *width)};
}

namespace {

/// Inputs: data (batch, length, width), weights of queries, keys and values side by side, their bias, mask,
/// past (2, batch, heads, length, size), what is added to the scores.
Values attention(const Node& node) {
  if (node.has(6)) node.reject("a past in the buffer of the present is not supported");
  Value product = converted_as("MatMul", node, {node.in(0), node.in(1)})[0];
  if (node.has(2)) product = plus(product, node.in(2));
  Projections of = split_projections(node, product);
  of.mask = 3, of.summand = 5;
  if (node.has(4)) of.past = node.in(4);
  return attention_of_projections(node, of);
}

/// Inputs: queries, keys, values (batch, length, heads * size), their bias, mask of the keys, what is added
/// to the scores, keys and values of the past. Keys and values may have their heads apart; keys alone may
/// hold both, (batch, length, heads, 2, size), and queries all three.
Values multi_head_attention(const Node& node) {
  const int64_t heads = heads_of(node);
  for (size_t i : {size_t{8}, size_t{9}})
    if (node.has(i)) node.reject("a past in the buffer of the present is not supported");
  // Part `which` of (batch, length, heads, parts, size): (batch, length, heads * size).
  const auto part = [&](size_t i, int64_t which, int64_t parts) {
    const Dims shape = node.dims(i);
    if (shape.size() != 5 || !is_int(shape[3], parts))
      node.reject("input {} of type {}", i, relay::print(node.in(i)->checked_type));
    return reshape_to(sliced(node.in(i), 3, which, which + 1),
                      {shape[0], shape[1], elements_of(Dims{shape[2], shape[4]})});
  };
  const bool all_in_one = node.rank(0) == 5, two_in_one = !all_in_one && node.rank(1) == 5;
  Value q = all_in_one ? part(0, 0, 3) : node.in(0);
  Value k = all_in_one ? part(0, 1, 3) : two_in_one ? part(1, 0, 2) : node.in(1);
  Value v = all_in_one ? part(0, 2, 3) : two_in_one ? part(1, 1, 2) : node.in(2);
  // Those whose heads are together have a part of the bias each, one behind the other.
  Dims widths;
  for (const Value& value : {q, k, v})
    if (const Dims shape = dims_of(value); shape.size() == 3)
      widths.push_back(shape[2]);
    else if (shape.size() != 4)
      node.reject("an input of type {}", relay::print(value->checked_type));
  const bool open = !std::ranges::all_of(widths, [](const Expr& width) { return as_int(width); });
  const Value bias = node.has(3) && open ? as_long_as_parts(node.in(3), 0, widths) : Value();
  Expr first = 0;
  const auto projected = [&](const Value& value) {
    const Dims shape = dims_of(value);
    if (shape.size() == 4) return value;
    const Expr begin = relay::simplify_size(first);
    first = first + shape[2];
    if (!node.has(3)) return heads_apart(value, heads);
    const Value part = bias ? sliced_by(bias, 0, {begin, shape[2]})
                            : sliced(node.in(3), 0, int_value(begin), int_value(simplify(first)));
    return heads_apart(plus(value, part), heads);
  };
  q = projected(q), k = projected(k), v = projected(v);
  Expr before = 0;
  if (has_past(node, 6)) {
    before = node.dims(6)[2];
    k = concatenated({node.in(6), k}, 2), v = concatenated({node.in(7), v}, 2);
  }
  return {attended_heads(node, {.queries = q, .keys = k, .values = v}, 4, 5, before), k, v};
}

/// Rows of the tables that are inputs i and i + 1, at `positions`, (batch or 1, length), for so many pairs.
Angles angles_at(const Node& node, size_t i, const Value& positions, const Expr& pairs, bool interleaved) {
  const Dims shape = dims_of(positions);
  const auto rows = [&](size_t table) {
    const int64_t *count = as_int(pairs),
                  *all = node.rank(table) == 2 ? as_int(node.dims(table)[1]) : nullptr;
    if (node.rank(table) != 2 || (count && (*count < 1 || (all && *count > *all))))
      node.reject("{} pairs to turn by angles of type {}", relay::print(pairs),
                  relay::print(node.in(table)->checked_type));
    const Value taken_rows = taken(angles_of(node.in(table), pairs, interleaved), positions, 0);
    return reshape_to(taken_rows, {shape[0], 1, shape[1], dims_of(taken_rows).back()});
  };
  return {rows(i), rows(i + 1), interleaved};
}

/// Input 0, (batch, length, heads * size), with the heads apart.
Value heads_of_size(const Node& node, const Expr& size) {
  const Dims shape = node.dims(0);
  if (shape.size() != 3) node.reject("data of type {}", relay::print(node.in(0)->checked_type));
  const Expr heads = relay::simplify_size(floordiv(shape[2], size));
  if (const int64_t* number = as_int(heads)) return heads_apart(node.in(0), *number);
  return transposed(reshape_to(node.in(0), {shape[0], shape[1], heads, size}), {0, 2, 1, 3});
}

/// Inputs: data (batch, length, heads * size) or with heads apart, the positions of all elements or the first
/// one's, tables of cosines and sines.
Values rotary_embedding(const Node& node) {
  if (node.integer("is_packed_batching", 0) != 0) node.reject("is_packed_batching is not supported");
  if (node.rank(2) != 2) node.reject("a table of angles of rank {}, must be 2", node.rank(2));
  const int64_t dim = node.integer("rotary_embedding_dim", 0);
  const Expr pairs = dim > 0 ? Expr(dim / 2) : node.dims(2)[1];
  if (as_int(pairs) && int_value(pairs) < 1) node.reject("{} pairs to turn", int_value(pairs));
  const bool apart = node.rank(0) == 4;
  const int64_t heads = node.integer("num_heads", 0);
  // Heads are as wide as all angles turn, where nothing tells their number.
  const Value x = apart        ? node.in(0)
                  : heads != 0 ? heads_apart(node.in(0), heads)
                               : heads_of_size(node, relay::simplify_size(pairs * 2));
  const Expr batch = dims_of(x)[0], length = dims_of(x)[2];
  Value positions = cast_to(node.in(1), kInt64);
  if (dims_of(positions).size() < 2)
    positions = plus(reshape_to(counted_to(length), {1, length}), reshape_to(positions, {1, 1}));
  else
    positions = with_dims(positions, {batch, length});
  const Angles angles = angles_at(node, 2, positions, pairs, node.integer("interleaved", 0) != 0);
  const Value result = turned(x, angles);
  return {apart ? result : heads_joined(result)};
}

/// Where the keys of this run lie among those of all runs.
struct Cache {
  Expr length;            // of keys, past and present
  Value before;           // how many each sequence has from earlier runs: int64, (batch, 1, 1, 1)
  bool is_first = false;  // no sequence has any, surely
};

Cache cache_of(const Node& node, const Expr& batch, const Expr& queries) {
  const Expr total = size_in(node, 6), past = has_past(node, 3) ? node.dims(3)[2] : Expr(0);
  const Value none = repeated_to(scalar(kInt64, 0), {batch, 1, 1, 1});
  Cache cache{relay::simplify_size(max(total, past)), none, prove_equal(total, queries)};
  if (cache.is_first) return cache;
  const Value valid = plus(cast_to(node.in(5), kInt64), scalar(kInt64, 1));
  cache.before = minus(with_dims(reshape_to(valid, {elements_of(node.dims(5)), 1, 1, 1}), dims_of(none)),
                       number_of(queries));
  // A run of all keys is the first one, whatever stands behind the end of a sequence.
  if (!as_int(total) || !as_int(queries))
    cache.before = choose(emit("equal", {number_of(total), number_of(queries)}), none, cache.before);
  return cache;
}

/// (batch, heads, cache.length, size): of each sequence what was there of the past, then `now`, then zeros.
Value present_of(const Node& node, size_t past, const Value& now, const Cache& cache) {
  const Dims shape = dims_of(now);
  if (cache.is_first && prove_equal(cache.length, shape[2])) return now;
  Value all = now;
  Expr then = 0;
  if (node.has(past)) {
    then = node.dims(past)[2];
    all = concatenated({with_dims(node.in(past), {shape[0], shape[1], then, shape[3]}), now}, 2);
  }
  // Which of all rows each place gets. Of the past, which may have none, no row is read that is not there.
  const Value zero = scalar(kInt64, 0), place = counted_along(cache.length, 2, 3),
              here = minus(place, reshape_to(cache.before, {shape[0], 1, 1})),
              newest = emit("minimum", {here, number_of(simplify(shape[2] - 1))});
  const Value row = choose(less(here, zero), place, plus(newest, number_of(then)));
  const Value rows = emit("take", {all, repeated_to(row, {shape[0], shape[1], cache.length})},
                          make<relay::TakeAttrs>(int64_t{2}, std::optional<int64_t>(2), std::string("clip")));
  const Value is_there = emit("expand_dims", {less(here, number_of(shape[2]))},
                              make<relay::ExpandDimsAttrs>(int64_t{3}, int64_t{1}));
  return choose(is_there, rows, scalar(type_of(now).dtype, 0));
}

/// What a query sees: keys up to its own place, and of these the nearest where the window is so long.
Value window_bias(const Node& node, const Cache& cache, const Expr& queries, DataType dtype) {
  const Value column = counted_along(cache.length, 3, 4),
              own = plus(counted_along(queries, 2, 4), cache.before);
  Value seen = emit("less_equal", {column, own});
  if (const int64_t window = node.integer("local_window_size", -1); window > 0)
    seen = emit("logical_and", {seen, less(minus(own, scalar(kInt64, static_cast<double>(window))), column)});
  return hidden_unless(seen, dtype);
}

/// Inputs: queries, keys, values (batch, length, heads * size), or all in the first; keys and values of the
/// past; the number of valid keys of each sequence less one, and of all that there are; tables of cosines and
/// sines; positions; what is added to the scores; scores of keys without values.
Values group_query_attention(const Node& node) {
  for (size_t i = 12; i < node.inputs(); ++i)
    if (node.has(i)) node.reject("input {} is not supported", i);
  const int64_t heads = heads_of(node), kv_heads = heads_of(node, "kv_num_heads");
  Value q = node.in(0), k, v;
  if (node.has(1)) {
    k = node.in(1), v = node.in(2);
  } else {
    const int64_t size = node.dim(0, 2) / (heads + 2 * kv_heads);
    q = sliced(node.in(0), 2, 0, heads * size);
    k = sliced(node.in(0), 2, heads * size, (heads + kv_heads) * size);
    v = sliced(node.in(0), 2, (heads + kv_heads) * size, node.dim(0, 2));
  }
  q = heads_apart(q, heads), k = heads_apart(k, kv_heads), v = heads_apart(v, kv_heads);
  const DataType dtype = type_of(q).dtype;
  const Dims shape = dims_of(q);
  const Cache cache = cache_of(node, shape[0], shape[2]);
  if (node.integer("do_rotary", 0) != 0) {
    const Value own = node.has(9)
                          ? with_dims(cast_to(node.in(9), kInt64), {shape[0], shape[2]})
                          : plus(counted_along(shape[2], 1, 2), reshape_to(cache.before, {shape[0], 1}));
    const Expr pairs = node.rank(7) == 2 ? node.dims(7)[1] : Expr(0);
    const Angles angles = angles_at(node, 7, own, pairs, node.integer("rotary_interleaved", 0) != 0);
    q = turned(q, angles), k = turned(k, angles);
  }
  k = present_of(node, 3, k, cache), v = present_of(node, 4, v, cache);
  Attention a{.queries = q, .keys = k, .values = v, .cap = node.real("softcap", 0)};
  if (const double scale = node.real("scale", 0); scale != 0) a.scale = scale;
  a.bias = window_bias(node, cache, shape[2], dtype);
  if (node.has(10)) a.bias = plus(a.bias, of_keys(cast_to(node.in(10), dtype), cache.length));
  if (node.has(11))
    a.sink = node.in(11);
  else if (node.integer("smooth_softmax", 0) == 1)
    a.sink = repeated_to(scalar(dtype, 0), {heads});
  return {heads_joined(attend(a).result), k, v};
}

constexpr Converter kConverters[] = {
    {"Attention", attention, Arithmetic::kWide},
    {"MultiHeadAttention", multi_head_attention, Arithmetic::kWide},
    {"GroupQueryAttention", group_query_attention, Arithmetic::kWide},
    {"RotaryEmbedding", rotary_embedding, Arithmetic::kWide},
};
}  // namespace

std::span<const Converter> contrib_attention_converters() { return kConverters; }

}  // namespace lathe::onnx
