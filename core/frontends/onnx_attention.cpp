// Attention and what stands around it in language models.
#include <cmath>

#include "core/frontends/onnx_arithmetic.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::onnx {
namespace {
using Values = std::vector<Value>;
using relay::Ints;

/// Input i as (batch, heads, length, size), whose heads may lie side by side: (batch, length, heads * size).
Value heads_of(const Node& node, size_t i, const char* count) {
  if (node.rank(i) == 4) return node.in(i);
  Ints shape = node.shape(i);
  int64_t heads = node.integer(count, 0);
  if (shape.size() != 3 || heads < 1 || shape[2] % heads)
    node.reject("input {} of shape {} is not of {} heads ({})", i, shape_text(shape), heads, count);
  return transposed(reshape(node.in(i), {shape[0], shape[1], heads, shape[2] / heads}), {0, 2, 1, 3});
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
Value given_mask(const Node& node, int64_t keys, DataType dtype) {
  Value mask = node.dtype(3) == kBool ? hidden_unless(node.in(3), dtype) : cast_to(node.in(3), dtype);
  Ints shape = shape_of(mask);
  if (shape.empty() || shape.back() > keys)
    node.reject("a mask of shape {} for {} keys", shape_text(shape), keys);
  if (shape.back() == 1 || shape.back() == keys) return mask;
  // Padded with minus infinity at the end, for keys that the mask does not reach.
  std::vector<Ints> width(shape.size(), Ints{0, 0});
  width.back()[1] = keys - shape.back();
  return emit("nn.pad", {mask, scalar(dtype, -INFINITY)},
              make<relay::PadAttrs>(width, std::string("constant")));
}

/// What is added to the scores (batch, heads, queries, keys) of all inputs that hide some; null for nothing.
Value bias_of(const Node& node, int64_t queries, int64_t keys, DataType dtype) {
  Value bias = node.has(3) ? given_mask(node, keys, dtype) : Value();
  auto add = [&](const Value& kept) {
    Value hidden = hidden_unless(kept, dtype);
    bias = bias ? plus(bias, hidden) : hidden;
  };
  Value column = counted(keys, {1, 1, 1, keys});
  Value lengths =
      node.has(6) ? reshape(cast_to(node.in(6), kInt64), {shape_size(node.shape(6)), 1, 1, 1}) : Value();
  if (node.integer("is_causal", 0)) {
    // A query sees the keys up to its own position, which counts what was before: the past, or the part of a
    // cache that is filled.
    Value offset = node.has(4) ? scalar(kInt64, static_cast<double>(node.dim(4, 2)))
                   : lengths   ? minus(lengths, scalar(kInt64, static_cast<double>(queries)))
                               : scalar(kInt64, 0);
    add(emit("less_equal", {column, plus(counted(queries, {1, 1, queries, 1}), offset)}));
  }
  if (lengths) add(less(column, lengths));
  return bias;
}

/// The probabilities of scores; 0 for a query from which everything is hidden.
Value probabilities(const Value& scores, const Value& bias) {
  Value shares = emit("nn.softmax", {scores}, make<relay::SoftmaxAttrs>(int64_t{-1}));
  if (!bias) return shares;
  auto last = make<relay::ReduceAttrs>(Ints{static_cast<int64_t>(shape_of(bias).size()) - 1}, true);
  // Softmax over minus infinity alone gives NaN.
  Value blind = emit("equal", {emit("max", {bias}, last), number(bias, -INFINITY)});
  return choose(blind, number(shares, 0), shares);
}

/// Scaled dot products of queries and keys, softmax, sums of values. Heads of queries share those of keys.
Values attention(const Node& node) {
  DataType dtype = node.dtype(0);
  Value q = heads_of(node, 0, "q_num_heads");
  Value present_key = with_past(node, 4, heads_of(node, 1, "kv_num_heads")),
        present_value = with_past(node, 5, heads_of(node, 2, "kv_num_heads"));
  Ints queries = shape_of(q), keys = shape_of(present_key), values = shape_of(present_value);
  if (keys[1] < 1 || queries[1] % keys[1])
    node.reject("{} heads of queries for {} of keys", queries[1], keys[1]);
  int64_t sharing = queries[1] / keys[1] * queries[2];  // rows of queries that see one head of keys
  double scale = node.real("scale", 1 / std::sqrt(static_cast<double>(queries[3]))),
         cap = node.real("softcap", 0);
  // Queries that share keys become rows of one product, rather than the keys being repeated.
  q = times(reshape(q, {queries[0], keys[1], sharing, queries[3]}), scalar(dtype, scale));
  const Ints square{queries[0], queries[1], queries[2], keys[2]};
  Value scores = reshape(batched_product(q, present_key), square);

  Value capped =
      cap > 0 ? times(emit("tanh", {over(scores, scalar(dtype, cap))}), scalar(dtype, cap)) : scores;
  Value bias = bias_of(node, queries[2], keys[2], dtype);
  Value biased = bias ? plus(capped, bias) : capped, shares = probabilities(biased, bias);
  Value sums = batched_product(reshape(shares, {queries[0], keys[1], sharing, keys[2]}),
                               transposed(present_value, {0, 1, 3, 2}));
  Value result = reshape(sums, {queries[0], queries[1], queries[2], values[3]});
  if (node.rank(0) == 3)
    result = reshape(transposed(result, {0, 2, 1, 3}), {queries[0], queries[2], queries[1] * values[3]});
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
  Ints shape = shape_of(x);  // (batch, heads, length, size)
  int64_t batch = shape[0], length = shape[2], size = shape[3],
          turned = node.integer("rotary_embedding_dim", 0);
  if (turned == 0) turned = size;
  if (turned < 0 || turned > size || turned % 2) node.reject("rotary_embedding_dim {} of {}", turned, size);
  auto angles = [&](size_t i) {
    Value cache = node.in(i);
    if (node.has(3))
      cache = emit("take", {cache, node.in(3)},
                   make<relay::TakeAttrs>(int64_t{0}, std::optional<int64_t>(0), std::string("clip")));
    if (shape_of(cache).size() != 3) node.reject("angles of shape {}", shape_text(shape_of(cache)));
    return reshape(sliced(cache, 2, 0, turned / 2), {batch, 1, length, turned / 2});
  };
  Value cosine = angles(1), sine = angles(2), part = sliced(x, 3, 0, turned);
  bool interleaved = node.integer("interleaved", 0) != 0;
  const Ints half{batch, shape[1], length, turned / 2};
  Ints pairs = half;
  // (.., size / 2, 2) has neighbours side by side, (.., 2, size / 2) the halves.
  pairs.insert(interleaved ? pairs.end() : pairs.end() - 1, 2);
  int64_t axis = interleaved ? 4 : 3;
  Value paired = reshape(part, pairs);
  Value a = reshape(sliced(paired, axis, 0, 1), half), b = reshape(sliced(paired, axis, 1, 2), half);
  pairs[static_cast<size_t>(axis)] = 1;
  Value first = minus(times(cosine, a), times(sine, b)), second = plus(times(sine, a), times(cosine, b));
  Value result = concatenated({reshape(first, pairs), reshape(second, pairs)}, axis);
  result = reshape(result, {batch, shape[1], length, turned});
  if (turned < size) result = concatenated({result, sliced(x, 3, turned, size)}, 3);
  if (node.rank(0) == 3) result = reshape(transposed(result, {0, 2, 1, 3}), node.shape(0));
  return {result};
}

/// Writes `update` into a cache from a position of each batch element on, around its end if circular.
Values tensor_scatter(const Node& node) {
  Ints shape = node.shape(0);
  int64_t rank = node.rank(0), axis = node.axis(node.integer("axis", -2), rank);
  auto d = static_cast<size_t>(axis);
  std::string mode = node.text("mode", "linear");
  if (node.rank(1) != rank) node.reject("an update of rank {} for rank {}", node.rank(1), rank);
  if (axis == 0 || (mode != "linear" && mode != "circular")) node.reject("axis {}, mode `{}`", axis, mode);
  Ints along(static_cast<size_t>(rank), 1), batch = along;
  along[d] = shape[d];
  batch[0] = shape[0];
  Value start = node.has(2) ? reshape(cast_to(node.in(2), kInt64), batch) : scalar(kInt64, 0);
  // Seen from the result: which element of the update each place gets, if any. A gather is all that it needs.
  Value place = minus(counted(shape[d], along), start);
  if (mode == "circular") place = emit("floor_mod", {place, scalar(kInt64, static_cast<double>(shape[d]))});
  int64_t count = node.dim(1, axis);
  if (count < 1) node.reject("an update of shape {}", shape_text(node.shape(1)));
  Value inside = emit("logical_and", {emit("less_equal", {scalar(kInt64, 0), place}),
                                      less(place, scalar(kInt64, static_cast<double>(count)))});
  Value index = broadcast_to(clamped(place, 0, static_cast<double>(count - 1)), shape);
  return {choose(inside, emit("gather", {node.in(1), index}, make<relay::GatherAttrs>(axis)), node.in(0))};
}

/// A convolution along time of each channel with itself, after what was seen before; SiLU if wanted.
Values causal_conv_with_state(const Node& node) {
  Ints shape = node.shape(0), weight = node.shape(1);
  if (shape.size() != 3 || weight.size() != 3 || weight[2] < 1)
    node.reject("data and weight must be of rank 3");
  DataType dtype = node.dtype(0);
  // As many elements before the first as the kernel looks back, so nothing is padded.
  int64_t past = weight[2] - 1;
  Value before =
      node.has(3) ? node.in(3) : constant(zeros(node.constant_shape({shape[0], shape[1], past}), dtype));
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
  return {result, sliced(padded, 2, shape[2], shape[2] + past)};
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
