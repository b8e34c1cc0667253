// Attention and what stands around it in language models.
#include <cmath>

#include "core/arith/simplify.h"
#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_dims.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/text.h"

namespace lathe::onnx {
namespace {
using relay::Ints;

using Dims = std::vector<Expr>;

/// Input i as (batch, heads, length, size), whose heads may lie side by side: (batch, length, heads * size).
Value heads_of(const Node& node, size_t i, const char* count) {
  if (node.rank(i) == 4) return node.in(i);
  const int64_t heads = node.integer(count, 0);
  const bool fits = node.rank(i) == 3 && heads >= 1;
  if (!fits || (as_int(node.dims(i)[2]) && node.dim(i, 2) % heads))
    node.reject("input {} of type {} is not of {} heads ({})", i, relay::print(node.in(i)->checked_type),
                heads, count);
  const Dims& shape = node.dims(i);
  // That an open size is one of so many heads is checked by the run.
  const Expr size = simplify(floordiv(shape[2], Expr(heads)));
  return transposed(reshape_to(node.in(i), {shape[0], shape[1], heads, size}), {0, 2, 1, 3});
}

/// (batch, heads, length, size) with the heads side by side again.
Value heads_joined(const Value& value) {
  const Dims shape = dims_of(value);
  return reshape_to(transposed(value, {0, 2, 1, 3}),
                    {shape[0], shape[2], elements_of(Dims{shape[1], shape[3]})});
}

/// What was computed before, if given, then `value`, along the sequence.
Value with_past(const Node& node, size_t past, const Value& value) {
  return node.has(past) ? concatenated({node.in(past), value}, 2) : value;
}

/// 0 where `kept`, else minus infinity.
Value hidden_unless(const Value& kept, DataType dtype) {
  return choose(kept, scalar(dtype, 0), scalar(dtype, -INFINITY));
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

/// The probabilities of scores; 0 for a query from which everything is hidden.
Value probabilities(const Value& scores, const Value& bias) {
  Value shares = emit("nn.softmax", {scores}, make<relay::SoftmaxAttrs>(int64_t{-1}));
  if (!bias) return shares;
  auto last = make<relay::ReduceAttrs>(Ints{static_cast<int64_t>(type_of(bias).shape.size()) - 1}, true);
  // Softmax over minus infinity alone gives NaN.
  Value blind = emit("equal", {emit("max", {bias}, last), number(bias, -INFINITY)});
  return choose(blind, number(shares, 0), shares);
}

/// How many heads of queries see one of keys: that there are no others left is checked by the run where one
/// of the numbers is open.
Expr heads_sharing(const Node& node, const Expr& heads, const Expr& kv_heads) {
  if (prove_equal(heads, kv_heads)) return 1;
  if (as_int(heads) && as_int(kv_heads) &&
      (int_value(kv_heads) < 1 || int_value(heads) % int_value(kv_heads) != 0))
    node.reject("{} heads of queries for {} of keys", int_value(heads), int_value(kv_heads));
  return simplify(floordiv(heads, kv_heads));
}

/// Queries times `scale`, or divided by the root of their size.
Value scaled(const Node& node, const Value& q) {
  const Expr size = dims_of(q)[3];
  const DataType dtype = type_of(q).dtype;
  if (node.has_attr("scale") || as_int(size)) {
    const double usual = as_int(size) ? 1 / std::sqrt(static_cast<double>(int_value(size))) : 1;
    return times(q, scalar(dtype, node.real("scale", usual)));
  }
  return times(q, emit("rsqrt", {number_of(size, dtype)}));
}

/// Scaled dot products of queries and keys, softmax, sums of values. Heads of queries share those of keys.
Values attention(const Node& node) {
  DataType dtype = node.dtype(0);
  Value q = heads_of(node, 0, "q_num_heads");
  Value present_key = with_past(node, 4, heads_of(node, 1, "kv_num_heads")),
        present_value = with_past(node, 5, heads_of(node, 2, "kv_num_heads"));
  const Dims queries = dims_of(q), keys = dims_of(present_key), values = dims_of(present_value);
  // Rows of queries that see one head of keys.
  const Expr sharing = simplify(queries[2] * heads_sharing(node, queries[1], keys[1]));
  const double cap = node.real("softcap", 0);
  // Queries that share keys become rows of one product, rather than the keys being repeated.
  q = scaled(node, reshape_to(q, {queries[0], keys[1], sharing, queries[3]}));
  Value scores = reshape_to(batched_product(q, present_key), {queries[0], queries[1], queries[2], keys[2]});

  Value capped =
      cap > 0 ? times(emit("tanh", {over(scores, scalar(dtype, cap))}), scalar(dtype, cap)) : scores;
  Value bias = bias_of(node, queries[2], keys[2], dtype);
  Value biased = bias ? plus(capped, bias) : capped, shares = probabilities(biased, bias);
  Value sums = batched_product(reshape_to(shares, {queries[0], keys[1], sharing, keys[2]}),
                               transposed(present_value, {0, 1, 3, 2}));
  Value result = reshape_to(sums, {queries[0], queries[1], queries[2], values[3]});
  if (node.rank(0) == 3) result = heads_joined(result);
  // The fourth output is one of the steps in between, by qk_matmul_output_mode.
  const Value stages[] = {scores, capped, biased, shares};
  int64_t mode = node.integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) node.reject("qk_matmul_output_mode is {}, must be 0 to 3", mode);
  return {result, present_key, present_value, stages[mode]};
}

/// Turns pairs of numbers by angles whose cosines and sines are given: the first and second half of each
/// head, or neighbours.
Values rotary_embedding(const Node& node) {
  Value x = heads_of(node, 0, "num_heads");
  const Dims shape = dims_of(x);  // (batch, heads, length, size)
  const Expr& size = shape[3];
  const int64_t part_turned = node.integer("rotary_embedding_dim", 0);
  const Expr turned = part_turned == 0 ? size : Expr(part_turned);
  if (as_int(turned) && (int_value(turned) < 0 || int_value(turned) % 2 != 0 ||
                         (as_int(size) && int_value(turned) > int_value(size))))
    node.reject("rotary_embedding_dim {} of {}", int_value(turned), relay::print(size));
  const Expr pairs_turned = simplify(floordiv(turned, Expr(2)));
  auto angles = [&](size_t i) {
    Value cache = node.in(i);
    if (node.has(3))
      cache = emit("take", {cache, node.in(3)},
                   make<relay::TakeAttrs>(int64_t{0}, std::optional<int64_t>(0), std::string("clip")));
    if (type_of(cache).shape.size() != 3) node.reject("angles of type {}", relay::print(cache->checked_type));
    const Dims angles_shape{shape[0], 1, shape[2], pairs_turned};
    // An open number of them is that of the pairs, as the run checks.
    if (as_int(pairs_turned) && as_int(dims_of(cache)[2]))
      return reshape_to(sliced(cache, 2, 0, int_value(pairs_turned)), angles_shape);
    return reshape_to(with_dims(cache, {dims_of(cache)[0], dims_of(cache)[1], pairs_turned}), angles_shape);
  };
  const relay::Slice front{0, turned}, behind{turned, simplify(size - turned)};
  Value cosine = angles(1), sine = angles(2), part = sliced_by(x, 3, front);
  bool interleaved = node.integer("interleaved", 0) != 0;
  const Dims half{shape[0], shape[1], shape[2], pairs_turned};
  Dims pairs = half;
  // (.., size / 2, 2) has neighbours side by side, (.., 2, size / 2) the halves.
  pairs.insert(interleaved ? pairs.end() : pairs.end() - 1, Expr(2));
  int64_t axis = interleaved ? 4 : 3;
  Value paired = reshape_to(part, pairs);
  Value a = reshape_to(sliced(paired, axis, 0, 1), half), b = reshape_to(sliced(paired, axis, 1, 2), half);
  pairs[static_cast<size_t>(axis)] = 1;
  Value first = minus(times(cosine, a), times(sine, b)), second = plus(times(sine, a), times(cosine, b));
  Value result = concatenated({reshape_to(first, pairs), reshape_to(second, pairs)}, axis);
  result = reshape_to(result, {shape[0], shape[1], shape[2], turned});
  if (!prove_equal(turned, size)) result = concatenated({result, sliced_by(x, 3, behind)}, 3);
  if (node.rank(0) == 3) result = heads_joined(result);
  return {result};
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
