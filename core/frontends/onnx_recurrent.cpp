// Recurrent networks, one step of the sequence after another: of a given length the graph has all steps,
// which run the same kernels (decision 046); of one that is open the program has a loop.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/arith/simplify.h"
#include "core/frontends/onnx_activation.h"
#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_program.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/text.h"

namespace lathe::onnx {
namespace {
using relay::Ints;
using Dims = std::vector<Expr>;

/// (batch, hidden) each; a plain network and a GRU have no cell.
struct State {
  Value hidden, cell;
};

/// One direction of a network.
struct Cell {
  Value weight;  // (gates * hidden, hidden): from the state to the gates; null where the state is all zeros
  Value bias;    // (gates * hidden) of it; null for none
  Value peepholes;  // LSTM: (3 * hidden); null for none
  int64_t hidden = 0;
  double clip = 0;  // of a gate's sum before its activation; 0: none
  std::vector<Activation> activations;
  bool reset_last = false, coupled = false;  // linear_before_reset, input_forget

  Value activate(size_t i, const Value& x) const {
    return activations[i](clip > 0 ? clamped(x, -clip, clip) : x);
  }
  /// Gate i of several side by side.
  Value gate(const Value& gates, int64_t i) const {
    return sliced(gates, static_cast<int64_t>(type_of(gates).shape.size()) - 1, i * hidden, (i + 1) * hidden);
  }
  /// What the state adds to gates [begin, end).
  Value recurrent(const Value& state, int64_t begin, int64_t end) const {
    // Slices of a constant weight are folded when the model is built.
    Value sum = weight ? emit("nn.dense", {state, sliced(weight, 0, begin * hidden, end * hidden)})
                       : number(state, 0);
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
  // "The input of activations", which clip bounds, are the gates' sums alone: so ONNX Runtime reads it.
  return {times(out, cell.activations[2](state)), state};
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
  if (node.rank(i) < 1 || node.dim(i, 0) <= direction)
    node.reject("input {} of type {}", i, relay::print(node.in(i)->checked_type));
  const Dims& shape = node.dims(i);
  return reshape_to(sliced(node.in(i), 0, direction, direction + 1), {shape.begin() + 1, shape.end()});
}

/// Those of the second direction follow those of the first. Their parameters are lists of their own, from
/// which each activation that has some takes the next.
std::vector<Activation> activations_of(const Node& node, const Kind& kind, int64_t direction) {
  const std::vector<std::string> names = node.texts("activations");
  const std::vector<double> alphas = node.reals("activation_alpha"), betas = node.reals("activation_beta");
  const size_t count = kind.activations.size(), first = static_cast<size_t>(direction) * count;
  auto alpha = alphas.begin(), beta = betas.begin();
  std::vector<Activation> all;
  for (size_t i = 0; i < first + count; ++i) {
    Activation found = activation(node, i < names.size() ? names[i] : kind.activations[i % count]);
    if (found.parameters > 0 && alpha != alphas.end()) found.alpha = *alpha++;
    if (found.parameters > 1 && beta != betas.end()) found.beta = *beta++;
    all.push_back(found);
  }
  return {all.begin() + static_cast<std::ptrdiff_t>(first), all.end()};
}

Cell cell_of(const Node& node, const Kind& kind, int64_t direction, int64_t hidden) {
  Cell cell{of_direction(node, 2, direction), Value(), of_direction(node, 7, direction), hidden};
  if (Value bias = of_direction(node, 3, direction))
    // Biases of the input and of the state lie one behind the other: (2 * gates * hidden).
    cell.bias = sliced(bias, 0, kind.gates * hidden, 2 * kind.gates * hidden);
  cell.clip = node.real("clip", 0);
  cell.reset_last = node.integer("linear_before_reset", 0) != 0;
  cell.coupled = node.integer("input_forget", 0) != 0;
  cell.activations = activations_of(node, kind, direction);
  return cell;
}

/// Surely: made of zeros by what moves elements about.
bool is_all_zeros(const Value& value) {
  if (const auto* constant = value.as<relay::Constant>()) {
    const auto* bytes = static_cast<const char*>(constant->value.data());
    return std::all_of(bytes, bytes + constant->value.bytes(), [](char byte) { return byte == 0; });
  }
  static const auto* makers = new std::set<std::string>{"zeros", "zeros_like", "zeros_by", "zeros_of"};
  static const auto* movers = new std::set<std::string>{"broadcast_to", "broadcast_to_like", "reshape",
                                                        "reshape_like", "reshape_to",        "strided_slice",
                                                        "transpose",    "expand_dims",       "squeeze"};
  const auto* call = value.as<relay::Call>();
  const auto* op = call ? call->callee.as<relay::OpNode>() : nullptr;
  if (!op) return false;
  return makers->count(op->name) || (movers->count(op->name) && is_all_zeros(call->args[0]));
}

/// What the inputs of all steps add to the gates, by groups: (length, batch, gates * hidden) each. One large
/// product a group; only the product with the state is left to each step.
Values input_products(const Node& node, const Kind& kind, const Cell& cell, const Value& x,
                      int64_t direction) {
  const Dims shape = dims_of(x);
  Value rows = reshape_to(x, {simplify(shape[0] * shape[1]), shape[2]}),
        weight = of_direction(node, 1, direction), bias = of_direction(node, 3, direction);
  Values products;
  for (int64_t begin = 0; int64_t end : kind.groups) {
    Value product = emit("nn.dense", {rows, sliced(weight, 0, begin * cell.hidden, end * cell.hidden)});
    if (bias) product = plus(product, sliced(bias, 0, begin * cell.hidden, end * cell.hidden));
    products.push_back(reshape_to(product, {shape[0], shape[1], (end - begin) * cell.hidden}));
    begin = end;
  }
  return products;
}

/// One direction over x (length, batch, size).
struct Sequence {
  const Kind& kind;
  const Cell& cell;
  Values products;  // of all steps
  Value within;     // (length, batch, 1): the step is one of the element's own; null where all are
  Dims shape;       // of x
  bool backward;
  bool from_zeros;  // the state that it starts with is all zeros
};

/// A step's state, and the hidden one as it is shown. Beyond an element's own length its state stays and its
/// output is 0.
struct After {
  State state;
  Value shown;
};
After after_step(const Sequence& sequence, const Values& inputs, const Value& within, const State& before) {
  State next = sequence.kind.step(sequence.cell, inputs, before);
  Value shown = next.hidden;
  if (within) {
    shown = choose(within, next.hidden, number(next.hidden, 0));
    // Backwards this skips the padding at the end of short sequences: the state starts at their last element.
    next.hidden = choose(within, next.hidden, before.hidden);
    if (next.cell) next.cell = choose(within, next.cell, before.cell);
  }
  return {next, shown};
}

/// What a direction gives: the hidden state of each step, in the order of time, (length, 1, batch, hidden),
/// and the last state.
struct Run {
  Value steps;
  State last;
};

Run unrolled(const Sequence& sequence, State state) {
  const int64_t length = int_value(sequence.shape[0]);
  // The position is an operand and no constant of the program: steps differ in it alone, and what it takes is
  // a view of the whole where memory is aligned.
  auto at = [](const Value& whole, int64_t t) { return row_of(whole, int_constant({t})); };
  Values steps(static_cast<size_t>(length));
  for (int64_t i = 0; i < length; ++i) {
    const int64_t t = sequence.backward ? length - 1 - i : i;
    Values inputs;
    for (const Value& product : sequence.products) inputs.push_back(at(product, t));
    After after = after_step(sequence, inputs, sequence.within ? at(sequence.within, t) : Value(), state);
    state = after.state;
    steps[static_cast<size_t>(t)] = reshape_to(after.shown, {1, 1, sequence.shape[1], sequence.cell.hidden});
  }
  return {concatenated(steps, 0), state};
}

/// The first step from a state of zeros is not worth its product with them: it stands in front of the loop,
/// where there is one.
Run in_a_loop(const Sequence& sequence, const State& start) {
  const Value count = number_of(sequence.shape[0]), last = minus(count, scalar(kInt64, 1));
  const DataType dtype = type_of(start.hidden).dtype;
  const Dims row{1, sequence.shape[1], sequence.cell.hidden};
  Values first{scalar(kInt64, 0), repeated_to(scalar(dtype, 0), {sequence.shape[0], row[0], row[1], row[2]}),
               start.hidden};
  if (start.cell) first.push_back(start.cell);
  auto step = [&](const Sequence& by, const Values& state) {
    const Value t = sequence.backward ? minus(last, state[0]) : state[0];
    Values inputs;
    for (const Value& product : by.products) inputs.push_back(row_of(product, t));
    const After after = after_step(by, inputs, by.within ? row_of(by.within, t) : Value(),
                                   {state[2], start.cell ? state[3] : Value()});
    Values result{plus(state[0], scalar(kInt64, 1)), with_row(state[1], t, reshape_to(after.shown, row)),
                  after.state.hidden};
    if (start.cell) result.push_back(after.state.cell);
    return result;
  };
  auto more = [&](const Values& state) { return less(state[0], count); };
  if (sequence.from_zeros) {
    Cell rest = sequence.cell;
    rest.weight = Value();
    Sequence from_rest{sequence.kind,     rest, sequence.products, sequence.within, sequence.shape,
                       sequence.backward, true};
    first = branch(more(first), step(from_rest, first), first);
  }
  const Values all = loop_while(first, more, [&](const Values& state) { return step(sequence, state); });
  return {all[1], {all[2], start.cell ? all[3] : Value()}};
}

Run run_direction(const Node& node, const Kind& kind, const Cell& cell, const Value& x, int64_t direction,
                  bool backward, const State& start) {
  const Dims shape = dims_of(x);
  Sequence sequence{kind,
                    cell,
                    input_products(node, kind, cell, x, direction),
                    Value(),
                    shape,
                    backward,
                    is_all_zeros(start.hidden)};
  if (node.has(4))
    sequence.within = less(cast_to(counted_along(shape[0], 0, 3), node.dtype(4)),
                           reshape_to(with_dims(node.in(4), {shape[1]}), {shape[1], 1}));
  const int64_t* length = as_int(shape[0]);
  return length && *length >= 1 && *length <= Node::kMostSteps ? unrolled(sequence, start)
                                                               : in_a_loop(sequence, start);
}

/// The inputs, of which weights, biases and states that are open have the sizes that the attributes say.
Values of_stated_sizes(const Node& node, int64_t gates, int64_t directions, bool batch_first) {
  const int64_t hidden = node.integer("hidden_size", 0);
  const Expr batch = node.dims(0)[batch_first ? 0 : 1], all(directions);
  const Dims state = batch_first ? Dims{batch, all, hidden} : Dims{all, batch, hidden};
  const std::map<size_t, Dims> sizes{{1, {all, gates * hidden, node.dims(0)[2]}},
                                     {2, {all, gates * hidden, hidden}},
                                     {3, {all, 2 * gates * hidden}},
                                     {5, state},
                                     {6, state},
                                     {7, {all, 3 * hidden}}};
  Values inputs;
  for (size_t i = 0; i < node.inputs(); ++i) {
    inputs.push_back(node.has(i) ? node.in(i) : Value());
    if (hidden > 0 && sizes.count(i) && inputs[i] && has_open_dims(inputs[i]))
      inputs[i] = with_dims(inputs[i], sizes.at(i));
  }
  return inputs;
}

Values recurrent(const Node& given) {
  const Kind& kind = kind_of(given);
  bool batch_first = given.integer("layout", 0) != 0;
  if (given.rank(0) != 3 || given.rank(1) != 3 || given.rank(2) != 3)
    given.reject("data and weights must be of rank 3");
  const std::string way = given.text("direction", "forward");
  if (way != "forward" && way != "reverse" && way != "bidirectional")
    given.reject("direction `{}` is unknown", way);
  const int64_t directions = way == "bidirectional" ? 2 : 1;
  const Node node =
      given.as(given.op(), of_stated_sizes(given, kind.gates, directions, batch_first), given.opset());
  Value x = batch_first ? transposed(node.in(0), {1, 0, 2}) : node.in(0);
  const Expr batch = dims_of(x)[1];
  const int64_t hidden = node.dim(2, 2);
  auto initial = [&](size_t i, int64_t direction) {
    if (!node.has(i)) return repeated_to(scalar(node.dtype(0), 0), {batch, hidden});
    // (directions, batch, hidden), or (batch, directions, hidden) with the batch first.
    if (!batch_first) return with_dims(of_direction(node, i, direction), {batch, hidden});
    return with_dims(reshape_to(sliced(node.in(i), 1, direction, direction + 1), {node.dims(i)[0], hidden}),
                     {batch, hidden});
  };
  Values outputs, hiddens, cells;
  for (int64_t direction = 0; direction < directions; ++direction) {
    State start{initial(5, direction), kind.op == std::string("LSTM") ? initial(6, direction) : Value()};
    Run run = run_direction(node, kind, cell_of(node, kind, direction, hidden), x, direction,
                            way == "reverse" || direction == 1, start);
    // (length, 1, batch, hidden) of this direction.
    outputs.push_back(run.steps);
    hiddens.push_back(reshape_to(run.last.hidden, {1, batch, hidden}));
    if (run.last.cell) cells.push_back(reshape_to(run.last.cell, {1, batch, hidden}));
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
