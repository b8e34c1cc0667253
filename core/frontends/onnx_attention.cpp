// Attention and what stands around it in language models.
#include "core/frontends/onnx_attention.h"

#include <cmath>

#include "core/arith/simplify.h"
#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_dims.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/text.h"

namespace lathe::onnx {
using relay::Ints;

using Dims = std::vector<Expr>;

Value heads_apart(const Value& value, int64_t heads) {
  const Dims shape = dims_of(value);
  const int64_t* width = shape.size() == 3 ? as_int(shape[2]) : nullptr;
  if (shape.size() != 3 || heads < 1 || (width && *width % heads))
    fail("an input of type {} is not of {} heads", relay::print(value->checked_type), heads);
  // That an open size is one of so many heads is checked by the run.
  const Expr size = simplify(floordiv(shape[2], Expr(heads)));
  return transposed(reshape_to(value, {shape[0], shape[1], heads, size}), {0, 2, 1, 3});
}

Value heads_joined(const Value& value) {
  const Dims shape = dims_of(value);
  return reshape_to(transposed(value, {0, 2, 1, 3}),
                    {shape[0], shape[2], elements_of(Dims{shape[1], shape[3]})});
}

Value hidden_unless(const Value& kept, DataType dtype) {
  return choose(kept, scalar(dtype, 0), scalar(dtype, -INFINITY));
}

Value of_keys(const Value& mask, const Expr& keys) {
  Dims shape = dims_of(mask);
  if (is_int(shape.back(), 1)) return mask;
  shape.back() = keys;
  return with_dims(mask, shape);
}

namespace {

/// The probabilities of scores; 0 for a query from which everything is hidden.
Value probabilities(const Attention& a, const Value& scores) {
  const Dims shape = dims_of(scores);
  const auto softmax = make<relay::SoftmaxAttrs>(int64_t{-1});
  if (a.sink) {
    const Value sink =
        repeated_to(reshape_to(a.sink, {1, shape[1], 1, 1}), {shape[0], shape[1], shape[2], 1});
    return sliced_by(emit("nn.softmax", {concatenated({scores, sink}, 3)}, softmax), 3, {0, shape[3], 1});
  }
  const Value shares = emit("nn.softmax", {scores}, softmax);
  if (!a.bias || !a.may_see_nothing) return shares;
  auto last = make<relay::ReduceAttrs>(Ints{static_cast<int64_t>(type_of(a.bias).shape.size()) - 1}, true);
  // Softmax over minus infinity alone gives NaN.
  const Value blind = emit("equal", {emit("max", {a.bias}, last), number(a.bias, -INFINITY)});
  return choose(blind, number(shares, 0), shares);
}

/// How many heads of queries see one of keys: that there are no others left is checked by the run where one
/// of the numbers is open.
Expr heads_sharing(const Expr& heads, const Expr& kv_heads) {
  if (prove_equal(heads, kv_heads)) return 1;
  if (as_int(heads) && as_int(kv_heads) &&
      (int_value(kv_heads) < 1 || int_value(heads) % int_value(kv_heads) != 0))
    fail("{} heads of queries for {} of keys", int_value(heads), int_value(kv_heads));
  return simplify(floordiv(heads, kv_heads));
}

/// Queries times `scale`, or without one divided by the root of their size.
Value scaled(const Value& queries, std::optional<double> scale) {
  const DataType dtype = type_of(queries).dtype;
  const Expr size = dims_of(queries)[3];
  if (!scale && as_int(size)) scale = 1 / std::sqrt(static_cast<double>(int_value(size)));
  return times(queries, scale ? scalar(dtype, *scale) : emit("rsqrt", {number_of(size, dtype)}));
}

}  // namespace

Attended attend(const Attention& a) {
  const DataType dtype = type_of(a.queries).dtype;
  const Dims queries = dims_of(a.queries), keys = dims_of(a.keys), values = dims_of(a.values);
  // Rows of queries that see one head of keys.
  const Expr sharing = simplify(queries.at(2) * heads_sharing(queries[1], keys.at(1)));
  Attended result;
  // Queries that share keys become rows of one product, rather than the keys being repeated.
  const Value q = scaled(reshape_to(a.queries, {queries[0], keys[1], sharing, queries[3]}), a.scale);
  result.scores = reshape_to(batched_product(q, a.keys), {queries[0], queries[1], queries[2], keys[2]});
  result.capped = result.scores;
  if (a.cap > 0)
    result.capped = times(emit("tanh", {over(result.scores, scalar(dtype, a.cap))}), scalar(dtype, a.cap));
  result.biased = a.bias ? plus(result.capped, a.bias) : result.capped;
  result.shares = probabilities(a, result.biased);
  const Value sums = batched_product(reshape_to(result.shares, {queries[0], keys[1], sharing, keys[2]}),
                                     transposed(a.values, {0, 1, 3, 2}));
  result.result = reshape_to(sums, {queries[0], queries[1], queries[2], values.at(3)});
  return result;
}

Value angles_of(const Value& table, const Expr& pairs, bool interleaved) {
  Dims shape = dims_of(table);
  const auto axis = static_cast<int64_t>(shape.size()) - 1;
  // An open number of them is that of the pairs, as the run checks.
  const bool is_known = as_int(pairs) && as_int(shape.back());
  shape.back() = pairs;
  const Value all = is_known ? sliced(table, axis, 0, int_value(pairs)) : with_dims(table, shape);
  return interleaved ? emit("repeat", {all}, make<relay::RepeatAttrs>(int64_t{2}, axis)) : all;
}

namespace {

/// -1, 1, -1, ..., so many.
Value signs(const Expr& count, DataType dtype) {
  if (!as_int(count)) {
    const Value odd = emit("floor_mod", {counted_to(count), scalar(kInt64, 2)});
    return cast_to(minus(times(odd, scalar(kInt64, 2)), scalar(kInt64, 1)), dtype);
  }
  Tensor values({int_value(count)}, dtype);
  for (int64_t i = 0; i < values.size(); ++i) values.set(i, i % 2 ? 1 : -1);
  return constant(values);
}

/// Neighbours a, b become cos a - sin b, cos b + sin a: each number by its own angle, and its neighbour by
/// the other. Stacking the two would take vectors apart.
Value neighbours_turned(const Value& value, const Angles& angles) {
  const Dims shape = dims_of(value);
  const Expr& count = shape.at(3);
  const Value other = reshape_to(
      emit("reverse",
           {reshape_to(value, {shape[0], shape[1], shape[2], simplify(floordiv(count, Expr(2))), 2})},
           make<relay::ReverseAttrs>(int64_t{4})),
      shape);
  return plus(times(value, angles.cosines),
              times(other, times(angles.sines, signs(count, type_of(value).dtype))));
}

/// The same of the first and the second half.
Value halves_turned(const Value& value, const Angles& angles) {
  const Dims shape = dims_of(value);
  const Expr half = simplify(floordiv(shape.at(3), Expr(2)));
  // That an open size has two halves is checked by the run.
  const Value whole = reshape_to(value, {shape[0], shape[1], shape[2], simplify(half * 2)});
  const Value a = sliced_by(whole, 3, {0, half}), b = sliced_by(whole, 3, {half, half});
  const Value both = concatenated({minus(times(angles.cosines, a), times(angles.sines, b)),
                                   plus(times(angles.sines, a), times(angles.cosines, b))},
                                  3);
  return reshape_to(both, shape);
}

}  // namespace

Value turned(const Value& value, const Angles& angles) {
  const Expr size = dims_of(value).at(3), columns = dims_of(angles.cosines).at(3);
  const Expr count = angles.count ? angles.count : angles.interleaved ? columns : simplify(columns * 2);
  if (as_int(count) && (int_value(count) < 2 || (as_int(size) && int_value(count) > int_value(size))))
    fail("angles of type {} for heads of {}", relay::print(angles.cosines->checked_type), relay::print(size));
  const bool all = prove_equal(count, size);
  const Value part = all ? value : sliced_by(value, 3, {0, count});
  const Value result = angles.interleaved ? neighbours_turned(part, angles) : halves_turned(part, angles);
  return all ? result : concatenated({result, sliced_by(value, 3, {count, simplify(size - count)})}, 3);
}

namespace {

/// Input i as (batch, heads, length, size), whose heads may lie side by side: (batch, length, heads * size).
Value heads_of(const Node& node, size_t i, const char* count) {
  return node.rank(i) == 4 ? node.in(i) : heads_apart(node.in(i), node.integer(count, 0));
}

/// What was computed before, if given, then `value`, along the sequence.
Value with_past(const Node& node, size_t past, const Value& value) {
  return node.has(past) ? concatenated({node.in(past), value}, 2) : value;
}

/// Input 3, booleans or summands; what it leaves out at the end is hidden.
Value given_mask(const Node& node, const Expr& keys, DataType dtype) {
  Value mask = node.dtype(3) == kBool ? hidden_unless(node.in(3), dtype) : cast_to(node.in(3), dtype);
  Dims shape = dims_of(mask);
  if (shape.empty()) node.reject("a mask of rank 0");
  const Expr missing = simplify(keys - shape.back());
  if (is_int(shape.back(), 1) || is_int(missing, 0)) return mask;
  // Two sizes that differ in name: one and the same, as the run checks.
  if (!as_int(missing)) {
    shape.back() = keys;
    return with_dims(mask, shape);
  }
  if (int_value(missing) < 0)
    node.reject("a mask of type {} for {} keys", relay::print(mask->checked_type), relay::print(keys));
  // Padded with minus infinity at the end, for keys that the mask does not reach.
  std::vector<Ints> width(shape.size(), Ints{0, 0});
  width.back()[1] = int_value(missing);
  return emit("nn.pad", {mask, scalar(dtype, -INFINITY)},
              make<relay::PadAttrs>(width, std::string("constant")));
}

/// What is added to the scores (batch, heads, queries, keys) of all inputs that hide some; null for nothing.
Value bias_of(const Node& node, const Expr& queries, const Expr& keys, DataType dtype) {
  Value bias = node.has(3) ? given_mask(node, keys, dtype) : Value();
  auto add = [&](const Value& kept) {
    Value hidden = hidden_unless(kept, dtype);
    bias = bias ? plus(bias, hidden) : hidden;
  };
  const bool causal = node.integer("is_causal", 0) != 0;
  if (!causal && !node.has(6)) return bias;
  Value column = counted_along(keys, 3, 4);
  Value lengths =
      node.has(6) ? reshape_to(cast_to(node.in(6), kInt64), {elements_of(node.dims(6)), 1, 1, 1}) : Value();
  if (causal) {
    // A query sees the keys up to its own position, which counts what was before: the past, or the part of a
    // cache that is filled.
    Value offset = node.has(4) ? number_of(node.dims(4).at(2))
                   : lengths   ? minus(lengths, number_of(queries))
                               : scalar(kInt64, 0);
    add(emit("less_equal", {column, plus(counted_along(queries, 2, 4), offset)}));
  }
  if (lengths) add(less(column, lengths));
  return bias;
}

/// Scaled dot products of queries and keys, softmax, sums of values. Heads of queries share those of keys.
Values attention(const Node& node) {
  const Value q = heads_of(node, 0, "q_num_heads");
  const Value present_key = with_past(node, 4, heads_of(node, 1, "kv_num_heads")),
              present_value = with_past(node, 5, heads_of(node, 2, "kv_num_heads"));
  Attention a{.queries = q, .keys = present_key, .values = present_value, .may_see_nothing = true};
  if (node.has_attr("scale")) a.scale = node.real("scale", 1);
  a.cap = node.real("softcap", 0);
  a.bias = bias_of(node, dims_of(q)[2], dims_of(present_key)[2], node.dtype(0));
  const Attended all = attend(a);
  // The fourth output is one of the steps in between, by qk_matmul_output_mode.
  const Value stages[] = {all.scores, all.capped, all.biased, all.shares};
  int64_t mode = node.integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) node.reject("qk_matmul_output_mode is {}, must be 0 to 3", mode);
  return {node.rank(0) == 3 ? heads_joined(all.result) : all.result, present_key, present_value,
          stages[mode]};
}

/// Turns pairs of numbers by angles whose cosines and sines are given: the first and second half of each
/// head, or neighbours.
Values rotary_embedding(const Node& node) {
  Value x = heads_of(node, 0, "num_heads");
  const Dims shape = dims_of(x);  // (batch, heads, length, size)
  const Expr& size = shape[3];
  const int64_t part = node.integer("rotary_embedding_dim", 0);
  const Expr count = part == 0 ? size : Expr(part);
  if (as_int(count) && (int_value(count) < 0 || int_value(count) % 2 != 0 ||
                        (as_int(size) && int_value(count) > int_value(size))))
    node.reject("rotary_embedding_dim {} of {}", int_value(count), relay::print(size));
  const Expr pairs = simplify(floordiv(count, Expr(2)));
  const bool interleaved = node.integer("interleaved", 0) != 0;
  auto angles = [&](size_t i) {
    if (node.rank(i) != (node.has(3) ? 2 : 3))
      node.reject("angles of type {}", relay::print(node.in(i)->checked_type));
    const Value all = angles_of(node.in(i), pairs, interleaved);
    return reshape_to(node.has(3) ? taken(all, node.in(3), 0) : all,
                      {shape[0], 1, shape[2], interleaved ? count : pairs});
  };
  const Value result = turned(x, {angles(1), angles(2), interleaved, count});
  return {node.rank(0) == 3 ? heads_joined(result) : result};
}

/// Writes `update` into a cache from a position of each batch element on, around its end if circular.
Values tensor_scatter(const Node& node) {
  const Dims& shape = node.dims(0);
  int64_t rank = node.rank(0), axis = node.axis(node.integer("axis", -2), rank);
  auto d = static_cast<size_t>(axis);
  std::string mode = node.text("mode", "linear");
  if (node.rank(1) != rank) node.reject("an update of rank {} for rank {}", node.rank(1), rank);
  if (axis == 0 || (mode != "linear" && mode != "circular")) node.reject("axis {}, mode `{}`", axis, mode);
  Dims batch(static_cast<size_t>(rank), Expr(1));
  batch[0] = shape[0];
  Value start = node.has(2) ? reshape_to(cast_to(node.in(2), kInt64), batch) : scalar(kInt64, 0);
  // Seen from the result: which element of the update each place gets, if any. A gather is all that it needs.
  Value place = minus(counted_along(shape[d], axis, rank), start);
  if (mode == "circular") place = emit("floor_mod", {place, number_of(shape[d])});
  const Expr& count = node.dims(1)[d];
  if (is_int(count, 0)) node.reject("an update of no elements");
  const Value last = number_of(count - 1), zero = scalar(kInt64, 0);
  Value inside = emit("logical_and", {emit("less_equal", {zero, place}), emit("less_equal", {place, last})});
  Value index = repeated_to(emit("minimum", {emit("maximum", {place, zero}), last}), shape);
  return {choose(inside, emit("gather", {node.in(1), index}, make<relay::GatherAttrs>(axis)), node.in(0))};
}

/// A convolution along time of each channel with itself, after what was seen before; SiLU if wanted.
Values causal_conv_with_state(const Node& node) {
  Ints weight = node.shape(1);
  if (node.rank(0) != 3 || weight.size() != 3 || weight[2] < 1)
    node.reject("data and weight must be of rank 3");
  const Dims& shape = node.dims(0);
  DataType dtype = node.dtype(0);
  // As many elements before the first as the kernel looks back, so nothing is padded.
  int64_t past = weight[2] - 1;
  Value before = node.has(3) ? node.in(3) : repeated_to(scalar(dtype, 0), {shape[0], shape[1], past});
  Value padded = past > 0 ? concatenated({before, node.in(0)}, 2) : node.in(0);
  auto attrs = std::make_unique<relay::ConvAttrs>();
  attrs->groups = attrs->channels.emplace(weight[0]);
  attrs->kernel_size = {weight[2]};
  Value result = emit("nn.conv1d", {padded, node.in(1)}, seal(std::move(attrs)));
  if (node.has(2)) result = plus(result, reshape(node.in(2), {weight[0], 1}));
  std::string activation = node.text("activation", "none");
  if (activation == "silu" || activation == "swish")
    result = times(result, emit("sigmoid", {result}));
  else if (activation != "none")
    node.reject("activation `{}` is not supported", activation);
  const Expr length = dims_of(padded)[2];
  return {result, sliced_by(padded, 2, {simplify(length - past), past})};
}

Values swiglu(const Node& node) {
  Value gate = node.in(0);
  return {
      times(times(gate, emit("sigmoid", {times(gate, number(gate, node.real("alpha", 1)))})), node.in(1))};
}

constexpr Converter kConverters[] = {
    {"Attention", attention, Arithmetic::kWide},
    {"RotaryEmbedding", rotary_embedding, Arithmetic::kWide},
    {"TensorScatter", tensor_scatter},
    {"CausalConvWithState", causal_conv_with_state, Arithmetic::kWide},
    {"SwiGLU", swiglu, Arithmetic::kWide},
};
}  // namespace

std::span<const Converter> attention_converters() { return kConverters; }

}  // namespace lathe::onnx
