// Attention without softmax: a state (keys by values) that each step of the sequence reads and updates.
#include <cmath>

#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_program.h"
#include "core/relay/text.h"

namespace lathe::onnx {
namespace {
using Dims = std::vector<Expr>;

/// Input i (batch, length, heads * size) as (length, batch, heads, size).
Value split_heads(const Node& node, size_t i, int64_t heads) {
  if (node.rank(i) != 3 || node.dim(i, 2) % heads)
    node.reject("input {} of type {} is not of {} heads", i, relay::print(node.in(i)->checked_type), heads);
  const Dims& shape = node.dims(i);
  return transposed(reshape_to(node.in(i), {shape[0], shape[1], heads, node.dim(i, 2) / heads}),
                    {1, 0, 2, 3});
}

/// (.., n) as (.., n, 1), and as (.., 1, n).
Value column(const Value& x) {
  Dims shape = dims_of(x);
  shape.push_back(1);
  return reshape_to(x, shape);
}
Value row(const Value& x) {
  Dims shape = dims_of(x);
  shape.insert(shape.end() - 1, Expr(1));
  return reshape_to(x, shape);
}

/// What all steps read, (length, batch, heads, size) each; null where the rule leaves it out.
struct Sequence {
  Value query, key, value, decay, rate;
  int64_t q_heads, heads;
  double scale;
};

/// Of each head: state *= decay; state += key (rate * (value - state^T key))^T; result = state^T query *
/// scale, (batch, 1, q_heads * values). `at` takes a step of what is given.
struct After {
  Value state, result;
};
After after_step(const Sequence& all, Value state, FunctionRef<Value(const Value&)> at) {
  if (all.decay) state = times(state, column(at(all.decay)));
  const Value key = at(all.key);
  Value fresh = at(all.value);
  if (all.rate) {  // what the state would answer is taken off first
    Value known = sum_over(times(state, column(key)), {2}, false);
    fresh = times(at(all.rate), minus(fresh, known));
  }
  state = plus(state, times(column(key), row(fresh)));
  // Query heads that share a state are rows of one product.
  const Dims shape = dims_of(state);
  Value query = reshape_to(at(all.query), {shape[0], all.heads, all.q_heads / all.heads, shape[2]});
  Value read = batched_product(query, transposed(state, {0, 1, 3, 2}));
  return {state,
          reshape_to(times(read, number(read, all.scale)), {shape[0], 1, all.q_heads * int_value(shape[3])})};
}

Values linear_attention(const Node& node) {
  Sequence all;
  all.q_heads = node.integer("q_num_heads", 0), all.heads = node.integer("kv_num_heads", 0);
  std::string rule = node.text("update_rule", "gated_delta");
  bool decays = rule == "gated" || rule == "gated_delta", corrects = rule == "delta" || rule == "gated_delta";
  if (!decays && !corrects && rule != "linear") node.reject("update_rule `{}` is not supported", rule);
  if (node.rank(0) != 3) node.reject("queries of rank {}, must be 3", node.rank(0));
  if (all.q_heads < 1 || all.heads < 1 || all.q_heads % all.heads)
    node.reject("{} heads of queries for {} of keys", all.q_heads, all.heads);
  all.query = split_heads(node, 0, all.q_heads), all.key = split_heads(node, 1, all.heads),
  all.value = split_heads(node, 2, all.heads);
  const Expr batch = node.dims(0)[0], length = node.dims(0)[1];
  const int64_t keys = int_value(dims_of(all.key)[3]), values = int_value(dims_of(all.value)[3]);
  if (decays) all.decay = emit("exp", {split_heads(node, 4, all.heads)});
  if (corrects)
    all.rate = transposed(reshape_to(node.in(5), {batch, length, node.dim(5, 2), 1}), {1, 0, 2, 3});
  all.scale = node.real("scale", 0);
  if (all.scale == 0) all.scale = 1 / std::sqrt(static_cast<double>(keys));
  const Dims of_state{batch, all.heads, keys, values};
  Value state =
      node.has(3) ? with_dims(node.in(3), of_state) : repeated_to(scalar(node.dtype(0), 0), of_state);
  const int64_t* steps = as_int(length);
  if (steps && *steps >= 1 && *steps <= Node::kMostSteps) {
    Values outputs;
    for (int64_t t = 0; t < *steps; ++t) {
      After after =
          after_step(all, state, [&](const Value& whole) { return row_of(whole, int_constant({t})); });
      state = after.state;
      outputs.push_back(after.result);
    }
    return {concatenated(outputs, 1), state};
  }
  const Value count = number_of(length);
  auto next = [&](const Values& before) {
    After after = after_step(all, before[2], [&](const Value& whole) { return row_of(whole, before[0]); });
    return Values{plus(before[0], scalar(kInt64, 1)),
                  with_row(before[1], before[0], reshape_to(after.result, {batch, all.q_heads * values})),
                  after.state};
  };
  const Values first{scalar(kInt64, 0),
                     repeated_to(scalar(node.dtype(0), 0), {length, batch, all.q_heads * values}), state};
  const Values last = loop_while(
      first, [&](const Values& before) { return less(before[0], count); }, next);
  return {transposed(last[1], {1, 0, 2}), last[2]};
}

constexpr Converter kConverters[] = {{"LinearAttention", linear_attention, Arithmetic::kWide}};
}  // namespace

std::span<const Converter> linear_attention_converters() { return kConverters; }

}  // namespace lathe::onnx
