#include "core/frontends/onnx_activation.h"

#include <limits>

#include "core/frontends/onnx_arithmetic.h"
#include "core/relay/ops/attrs_nn.h"

namespace lathe::onnx {
namespace {

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
/// The operator of this name leaves alpha itself out.
Value thresholded_relu(const Value& x, double alpha, double) {
  return choose(less(x, number(x, alpha)), number(x, 0), x);
}
Value scaled_tanh(const Value& x, double alpha, double beta) {
  return times(number(x, alpha), emit("tanh", {times(x, number(x, beta))}));
}
Value hard_sigmoid(const Value& x, double alpha, double beta) { return hard_sigmoid_of(x, alpha, beta); }
Value clip(const Value& x, double low, double high) { return clamped(x, low, high); }
Value elu(const Value& x, double alpha, double) { return elu_of(x, alpha); }
Value softsign(const Value& x, double, double) { return softsign_of(x); }
Value softplus(const Value& x, double, double) { return softplus_of(x); }

constexpr Activation kActivations[] = {
    {"Relu", call<kRelu>},
    {"Tanh", call<kTanh>},
    {"Sigmoid", call<kSigmoid>},
    {"Affine", affine, 2, 1, 0},
    {"LeakyRelu", leaky_relu, 1, 0.01},
    {"ThresholdedRelu", thresholded_relu, 1, 1},
    {"ScaledTanh", scaled_tanh, 2, 1, 1},
    {"HardSigmoid", hard_sigmoid, 2, 0.2, 0.5},
    {"Elu", elu, 1, 1},
    {"Softsign", softsign},
    {"Softplus", softplus},
    {"Clip", clip, 2, -std::numeric_limits<float>::max(), std::numeric_limits<float>::max()},
};

}  // namespace

Activation activation(const Node& node, const std::string& name) {
  for (const Activation& row : kActivations)
    if (name == row.name) return row;
  node.reject("activation `{}` is not supported", name);
}

}  // namespace lathe::onnx
