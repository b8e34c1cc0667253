// Attention without softmax: a state (keys by values) that each step of the sequence reads and updates.
#include <cmath>

#include "core/frontends/onnx_arithmetic.h"

namespace lathe::onnx {
namespace {
using Values = std::vector<Value>;
using Ints = std::vector<int64_t>;

/// Input i (batch, length, heads * size) as (batch, length, heads, size).
Value split_heads(const Node& node, size_t i, int64_t heads) {
  Ints shape = node.shape(i);
  if (shape.size() != 3 || shape[2] % heads)
    node.reject("input {} of shape {} is not of {} heads", i, shape_text(shape), heads);
  return reshape(node.in(i), {shape[0], shape[1], heads, shape[2] / heads});
}

/// Step t of (batch, length, heads, size), of shape (batch, heads, size).
Value step_of(const Value& all, int64_t t) {
  Ints shape = shape_of(all);
  return reshape(sliced(all, 1, t, t + 1), {shape[0], shape[2], shape[3]});
}

/// (.., n) as (.., n, 1), and as (.., 1, n).
Value column(const Value& x) {
  Ints shape = shape_of(x);
  shape.push_back(1);
  return reshape(x, shape);
}
Value row(const Value& x) {
  Ints shape = shape_of(x);
  shape.insert(shape.end() - 1, 1);
  return reshape(x, shape);
}

/// Of each head: state *= decay; state += key (rate * (value - state^T key))^T; result = state^T query *
/// scale. Without decay or correction these are left out, by `update_rule`. Unrolled: each step reads the
/// last one's state.
Values linear_attention(const Node& node) {
  int64_t q_heads = node.integer("q_num_heads", 0), heads = node.integer("kv_num_heads", 0);
  std::string rule = node.text("update_rule", "gated_delta");
  bool decays = rule == "gated" || rule == "gated_delta", corrects = rule == "delta" || rule == "gated_delta";
  if (!decays && !corrects && rule != "linear") node.reject("update_rule `{}` is not supported", rule);
  if (node.rank(0) != 3 || node.dim(0, 1) < 1 || node.dim(0, 1) > Node::kMostSteps)
    node.reject("queries of shape {}, must be of rank 3 and 1 to {} steps", shape_text(node.shape(0)),
                Node::kMostSteps);
  if (q_heads < 1 || heads < 1 || q_heads % heads)
    node.reject("{} heads of queries for {} of keys", q_heads, heads);
  Value q = split_heads(node, 0, q_heads), k = split_heads(node, 1, heads), v = split_heads(node, 2, heads);
  int64_t batch = node.dim(0, 0), length = node.dim(0, 1), keys = shape_of(k)[3], values = shape_of(v)[3];
  Value decay = decays ? emit("exp", {split_heads(node, 4, heads)}) : Value();
  Value rate = corrects ? reshape(node.in(5), {batch, length, node.dim(5, 2), 1}) : Value();
  double scale = node.real("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(keys));
  Value state = node.has(3)
                    ? node.in(3)
                    : constant(zeros(node.constant_shape({batch, heads, keys, values}), node.dtype(0)));
  Values outputs;
  for (int64_t t = 0; t < length; ++t) {
    if (decays) state = times(state, column(step_of(decay, t)));
    Value key = step_of(k, t), fresh = step_of(v, t);
    if (corrects) {  // what the state would answer is taken off first
      Value known = sum_over(times(state, column(key)), {2}, false);
      fresh = times(step_of(rate, t), minus(fresh, known));
    }
    state = plus(state, times(column(key), row(fresh)));
    // Query heads that share a state are rows of one product.
    Value query = reshape(step_of(q, t), {batch, heads, q_heads / heads, keys});
    Value read = batched_product(query, transposed(state, {0, 1, 3, 2}));
    outputs.push_back(reshape(times(read, number(read, scale)), {batch, 1, q_heads * values}));
  }
  return {concatenated(outputs, 1), state};
}

constexpr Converter kConverters[] = {{"LinearAttention", linear_attention, Arithmetic::kWide}};
}  // namespace

std::span<const Converter> linear_attention_converters() { return kConverters; }

}  // namespace lathe::onnx
