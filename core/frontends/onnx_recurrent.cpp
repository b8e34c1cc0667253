// Recurrent networks, one step of the sequence after another: the graph has the steps of one given length,
// which all run the same kernels (decision 046).
#include <cmath>

#include "core/frontends/onnx_arithmetic.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::onnx {
namespace {
using Values = std::vector<Value>;
using relay::Ints;

// Activations by the names of the standard, with two parameters that only some use.
using Activate = Value (*)(const Value& x, double alpha, double beta);
struct Activation {
  const char* name;
  Activate apply;
  double alpha = 0, beta = 0;  // where the node says nothing
};

template <const char* kOp()>
Value call(const Value& x, double, double) {
  return emit(kOp(), {x});
}
constexpr const char* kRelu() { return "nn.relu"; }
constexpr const char* kTanh() { return "tanh"; }
constexpr const char* kSigmoid() { return "sigmoid"; }
Value affine(const Value& x, double alpha, double beta) {
  return plus(times(x, number(x, alpha)), number(x, beta));
}
Value leaky_relu(const Value& x, double alpha, double) {
  return emit("nn.leaky_relu", {x}, make<relay::LeakyReluAttrs>(alpha));
}
Value thresholded_relu(const Value& x, double alpha, double) {
  return choose(less(x, number(x, alpha)), number(x, 0), x);
}
Value scaled_tanh(const Value& x, double alpha, double beta) {
  return times(number(x, alpha), emit("tanh", {times(x, number(x, beta))}));
}
Value hard_sigmoid(const Value& x, double alpha, double beta) {
  return clamped(affine(x, alpha, beta), 0, 1);
}
Value elu(const Value& x, double alpha, double) {
  Value below = minus(emit("exp", {emit("minimum", {x, number(x, 0)})}), number(x, 1));
  return choose(less(x, number(x, 0)), times(number(x, alpha), below), x);
}
Value softsign(const Value& x, double, double) { return over(x, plus(number(x, 1), emit("abs", {x}))); }
Value softplus(const Value& x, double, double) {  // no overflow
  Value tail = emit("log", {plus(number(x, 1), emit("exp", {emit("negative", {emit("abs", {x})})}))});
  return plus(emit("maximum", {x, number(x, 0)}), tail);
}

constexpr Activation kActivations[] = {
    {"Relu", call<kRelu>},
    {"Tanh", call<kTanh>},
    {"Sigmoid", call<kSigmoid>},
    {"Affine", affine, 1, 0},
    {"LeakyRelu", leaky_relu, 0.01},
    {"ThresholdedRelu", thresholded_relu, 1},
    {"ScaledTanh", scaled_tanh, 1, 1},
    {"HardSigmoid", hard_sigmoid, 0.2, 0.5},
    {"Elu", elu, 1},
    {"Softsign", softsign},
    {"Softplus", softplus},
};

Activation activation(const Node& node, const std::string& name) {
  for (const Activation& row : kActivations)
    if (name == row.name) return row;
  node.reject("activation `{}` is not supported", name);
}

/// (batch, hidden) each; a plain network and a GRU have no cell.
struct State {
  Value hidden, cell;
};

/// One direction of a network.
struct Cell {
  Value weight;     // (gates * hidden, hidden): from the state to the gates
  Value bias;       // (gates * hidden) of it; null for none
  Value peepholes;  // LSTM: (3 * hidden); null for none
  int64_t hidden = 0;
  double clip = 0;  // of what goes into an activation; 0: none
  std::vector<Activation> activations;
  bool reset_last = false, coupled = false;  // linear_before_reset, input_forget

  Value activate(size_t i, const Value& x) const {
    return activations[i].apply(clip > 0 ? clamped(x, -clip, clip) : x, activations[i].alpha,
                                activations[i].beta);
  }
  /// Gate i of several side by side.
  Value gate(const Value& gates, int64_t i) const {
    return sliced(gates, static_cast<int64_t>(shape_of(gates).size()) - 1, i * hidden, (i + 1) * hidden);
  }
  /// What the state adds to gates [begin, end).
  Value recurrent(const Value& state, int64_t begin, int64_t end) const {
    // Slices of a constant weight are folded when the model is built.
    Value sum = emit("nn.dense", {state, sliced(weight, 0, begin * hidden, end * hidden)});
    return bias ? plus(sum, sliced(bias, 0, begin * hidden, end * hidden)) : sum;
  }
};

/// The state after one step; `inputs`: what the step's input adds to each group of gates, (batch, gates *
/// hidden).
using Step = State (*)(const Cell& cell, const Values& inputs, const State& before);

State rnn_step(const Cell& cell, const Values& inputs, const State& before) {
  return {cell.activate(0, plus(inputs[0], cell.recurrent(before.hidden, 0, 1))), Value()};
}

State gru_step(const Cell& cell, const Values& inputs, const State& before) {  // gates: update, reset; new
  Value gates = plus(inputs[0], cell.recurrent(before.hidden, 0, 2));
  Value update = cell.activate(0, cell.gate(gates, 0)), reset = cell.activate(0, cell.gate(gates, 1));
  // linear_before_reset: the reset acts on what the state gives, not on the state.
  Value kept = cell.reset_last ? times(reset, cell.recurrent(before.hidden, 2, 3))
                               : cell.recurrent(times(reset, before.hidden), 2, 3);
  Value fresh = cell.activate(1, plus(inputs[1], kept));
  return {plus(times(minus(number(update, 1), update), fresh), times(update, before.hidden)), Value()};
}

State lstm_step(const Cell& cell, const Values& inputs, const State& before) {  // input, output, forget, new
  Value gates = plus(inputs[0], cell.recurrent(before.hidden, 0, 4));
  // A gate with its view of the cell. Peepholes lie in the order input, output, forget.
  auto seeing = [&](int64_t gate, int64_t peephole, const Value& state) {
    Value sum = cell.gate(gates, gate);
    return cell.peepholes ? plus(sum, times(cell.gate(cell.peepholes, peephole), state)) : sum;
  };
  Value in = cell.activate(0, seeing(0, 0, before.cell));
  Value forget = cell.coupled ? minus(number(in, 1), in) : cell.activate(0, seeing(2, 2, before.cell));
  Value state = plus(times(forget, before.cell), times(in, cell.activate(1, cell.gate(gates, 3))));
  // The output gate sees the new cell, the others the one before.
  Value out = cell.activate(0, seeing(1, 1, state));
  return {times(out, cell.activate(2, state)), state};
}

struct Kind {
  const char* op;
  int64_t gates;
  // Gates that a step adds to one product each: [0, groups[0]), [groups[0], groups[1]), ...
  std::vector<int64_t> groups;
  Step step;
  std::vector<std::string> activations;
};

const Kind& kind_of(const Node& node) {
  static const auto* kinds = new std::vector<Kind>{
      {"RNN", 1, {1}, rnn_step, {"Tanh"}},
      {"GRU", 3, {2, 3}, gru_step, {"Sigmoid", "Tanh"}},
      {"LSTM", 4, {4}, lstm_step, {"Sigmoid", "Tanh", "Tanh"}},
  };
  for (const Kind& kind : *kinds)
    if (node.op() == kind.op) return kind;
  CHECK(false, "{} is in the wrong table", node.op());
  return kinds->front();
}

/// Element `direction` of input i along its first dimension, which vanishes; null when it is not given.
Value of_direction(const Node& node, size_t i, int64_t direction) {
  if (!node.has(i)) return Value();
  Ints shape = node.shape(i);
  if (shape.empty() || shape[0] <= direction) node.reject("input {} of shape {}", i, shape_text(shape));
  return reshape(sliced(node.in(i), 0, direction, direction + 1), Ints(shape.begin() + 1, shape.end()));
}

Cell cell_of(const Node& node, const Kind& kind, int64_t direction, int64_t hidden) {
  Cell cell{of_direction(node, 2, direction), Value(), of_direction(node, 7, direction), hidden};
  if (Value bias = of_direction(node, 3, direction))
    // Biases of the input and of the state lie one behind the other: (2 * gates * hidden).
    cell.bias = sliced(bias, 0, kind.gates * hidden, 2 * kind.gates * hidden);
  cell.clip = node.real("clip", 0);
  cell.reset_last = node.integer("linear_before_reset", 0) != 0;
  cell.coupled = node.integer("input_forget", 0) != 0;
  std::vector<std::string> names = node.texts("activations");
  std::vector<double> alphas = node.reals("activation_alpha"), betas = node.reals("activation_beta");
  for (size_t i = 0; i < kind.activations.size(); ++i) {
    // Those of the second direction follow those of the first.
    size_t at = static_cast<size_t>(direction) * kind.activations.size() + i;
    Activation found = activation(node, at < names.size() ? names[at] : kind.activations[i]);
    if (at < alphas.size()) found.alpha = alphas[at];
    if (at < betas.size()) found.beta = betas[at];
    cell.activations.push_back(found);
  }
  return cell;
}

/// What a direction gives: the hidden state of each step, in the order of time, and the last state.
struct Run {
  Values steps;
  State last;
};

/// Element t along the first dimension, which vanishes. The position is an operand and no constant of the
/// program: steps differ in it alone, and it is a view of the whole where memory is aligned.
Value at_step(const Value& whole, int64_t t) {
  Ints shape = shape_of(whole);
  Value step =
      emit("take", {whole, int_constant({t})}, make<relay::TakeAttrs>(0, std::optional<int64_t>(0), "fast"));
  return reshape(step, Ints(shape.begin() + 1, shape.end()));
}

/// What the inputs of all steps add to the gates, by groups: (length, batch, gates * hidden) each. One large
/// product a group; only the product with the state is left to each step.
Values input_products(const Node& node, const Kind& kind, const Cell& cell, const Value& x,
                      int64_t direction) {
  Ints shape = shape_of(x);
  Value rows = reshape(x, {shape[0] * shape[1], shape[2]}), weight = of_direction(node, 1, direction),
        bias = of_direction(node, 3, direction);
  Values products;
  for (int64_t begin = 0; int64_t end : kind.groups) {
    Value product = emit("nn.dense", {rows, sliced(weight, 0, begin * cell.hidden, end * cell.hidden)});
    if (bias) product = plus(product, sliced(bias, 0, begin * cell.hidden, end * cell.hidden));
    products.push_back(reshape(product, {shape[0], shape[1], (end - begin) * cell.hidden}));
    begin = end;
  }
  return products;
}

/// Steps of x (length, batch, size). Beyond an element's own length its state stays and its output is 0.
Run run_direction(const Node& node, const Kind& kind, const Cell& cell, const Value& x, int64_t direction,
                  bool backward, State state) {
  Ints shape = shape_of(x);
  const Values products = input_products(node, kind, cell, x, direction);
  Value within;  // (length, batch, 1): the step is one of the element's own
  if (node.has(4))
    within =
        less(cast_to(counted(shape[0], {shape[0], 1, 1}), node.dtype(4)), reshape(node.in(4), {shape[1], 1}));
  Run run{Values(static_cast<size_t>(shape[0])), state};
  for (int64_t i = 0; i < shape[0]; ++i) {
    int64_t t = backward ? shape[0] - 1 - i : i;
    Values inputs;
    for (const Value& product : products) inputs.push_back(at_step(product, t));
    State next = kind.step(cell, inputs, run.last);
    Value shown = next.hidden;
    if (within) {
      Value here = at_step(within, t);
      shown = choose(here, next.hidden, number(next.hidden, 0));
      // Backwards this skips the padding at the end of short sequences: the state starts at their last
      // element.
      next.hidden = choose(here, next.hidden, run.last.hidden);
      if (next.cell) next.cell = choose(here, next.cell, run.last.cell);
    }
    run.last = next;
    // (length, directions, batch, hidden), as the output has it.
    run.steps[static_cast<size_t>(t)] = reshape(shown, {1, 1, shape[1], cell.hidden});
  }
  return run;
}

Values recurrent(const Node& node) {
  const Kind& kind = kind_of(node);
  bool batch_first = node.integer("layout", 0) != 0;
  if (node.rank(0) != 3 || node.rank(1) != 3 || node.rank(2) != 3)
    node.reject("data and weights must be of rank 3");
  Value x = batch_first ? transposed(node.in(0), {1, 0, 2}) : node.in(0);
  if (int64_t steps = shape_of(x)[0]; steps < 1 || steps > Node::kMostSteps)
    node.reject("{} steps, must be 1 to {}", steps, Node::kMostSteps);
  int64_t batch = shape_of(x)[1], hidden = node.dim(2, 2);
  std::string way = node.text("direction", "forward");
  if (way != "forward" && way != "reverse" && way != "bidirectional")
    node.reject("direction `{}` is unknown", way);
  auto initial = [&](size_t i, int64_t direction) {
    if (!node.has(i)) return constant(zeros(node.constant_shape({batch, hidden}), node.dtype(0)));
    // (directions, batch, hidden), or (batch, directions, hidden) with the batch first.
    if (!batch_first) return of_direction(node, i, direction);
    return reshape(sliced(node.in(i), 1, direction, direction + 1), {batch, hidden});
  };
  Values outputs, hiddens, cells;
  for (int64_t direction = 0; direction < (way == "bidirectional" ? 2 : 1); ++direction) {
    State start{initial(5, direction), kind.op == std::string("LSTM") ? initial(6, direction) : Value()};
    Run run = run_direction(node, kind, cell_of(node, kind, direction, hidden), x, direction,
                            way == "reverse" || direction == 1, start);
    // (length, 1, batch, hidden) of this direction.
    outputs.push_back(concatenated(run.steps, 0));
    hiddens.push_back(reshape(run.last.hidden, {1, batch, hidden}));
    if (run.last.cell) cells.push_back(reshape(run.last.cell, {1, batch, hidden}));
  }
  auto joined = [&](const Values& parts, int64_t axis, const Ints& batch_at_front) {
    Value all = concatenated(parts, axis);
    return batch_first ? transposed(all, batch_at_front) : all;
  };
  Values results{joined(outputs, 1, {2, 0, 1, 3}), joined(hiddens, 0, {1, 0, 2})};
  if (!cells.empty()) results.push_back(joined(cells, 0, {1, 0, 2}));
  return results;
}

constexpr Converter kConverters[] = {
    {"RNN", recurrent, Arithmetic::kWide},
    {"GRU", recurrent, Arithmetic::kWide},
    {"LSTM", recurrent, Arithmetic::kWide},
};
}  // namespace

std::span<const Converter> recurrent_converters() { return kConverters; }

}  // namespace lathe::onnx
