#include "core/relay/passes/quantize.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "core/relay/analysis/call_type.h"
#include "core/relay/functor.h"
#include "core/relay/ops/rule.h"
#include "core/support/error.h"

namespace lathe::relay {
namespace {

const TensorType* type_of(const Expr& e) { return e->checked_type.as<TensorType>(); }

std::string_view op_name(const Expr& e) {
  const auto* call = e.as<Call>();
  const auto* op = call ? call->callee.as<OpNode>() : nullptr;
  return op ? std::string_view(op->name) : std::string_view();
}

/// A convolution or dense layer of float32 with constant weights.
bool is_product(const Expr& e) {
  if (op_name(e) != "nn.conv2d" && op_name(e) != "nn.dense") return false;
  const auto& args = e.as<Call>()->args;
  if (op_name(e) == "nn.conv2d" && !ops::is_plain(ops::attrs_as<ConvAttrs>(e.as<Call>()->attrs)))
    return false;
  return args[1].as<Constant>() && !args[0].as<Constant>() && type_of(args[0])->dtype == kFloat32 &&
         type_of(e)->dtype == kFloat32;
}

/// A product with a vector of constants added along its channels, one for each output channel.
bool is_bias(const Call& call) {
  if (op_name(Ref<Call>(&call)) != "add" || !is_product(call.args[0])) return false;
  const auto* bias = call.args[1].as<Constant>();
  const auto* weight = call.args[0].as<Call>()->args[1].as<Constant>();
  return bias && bias->value.size() == weight->value.shape()[0] &&
         bias->value.shape()[0] == weight->value.shape()[0];
}

/// The arguments of a call that are to be quantized.
std::vector<Expr> quantized_arguments(const Expr& e) {
  std::vector<Expr> arguments;
  const auto* call = e.as<Call>();
  std::string_view name = op_name(e);
  if (is_product(e) || name == "nn.max_pool2d" || name == "nn.global_avg_pool2d") arguments = {call->args[0]};
  if (name == "add" && std::none_of(call->args.begin(), call->args.end(),
                                    [](const Expr& arg) { return arg.as<Constant>() != nullptr; }))
    arguments = call->args;
  if (name == "concatenate" && call->args[0].as<Tuple>()) arguments = call->args[0].as<Tuple>()->items;
  std::erase_if(arguments, [](const Expr& arg) {
    return !type_of(arg) || type_of(arg)->dtype != kFloat32 || arg.as<Constant>();
  });
  return arguments;
}

std::vector<Expr> tensors_to_quantize(const Ref<Function>& function) {
  std::vector<Expr> tensors;
  std::unordered_set<const Node*> seen;
  post_order(function->body, [&](const NodeRef& node) {
    if (!node.as<Call>()) return;
    for (const Expr& argument : quantized_arguments(node.cast<RelayNode>()))
      if (seen.insert(argument.get()).second) tensors.push_back(argument);
  });
  return tensors;
}

struct Scale {
  float scale;
  int64_t zero;
};

/// uint8 over the range and 0.
Scale scale_of(const ValueRange& range) {
  double low = std::min(range.low, 0.0), high = std::max(range.high, 0.0);
  auto scale = static_cast<float>(high > low ? (high - low) / 255 : 1);
  return {scale, std::clamp<int64_t>(static_cast<int64_t>(std::nearbyint(-low / scale)), 0, 255)};
}

class Quantizer final : public ExprMutator {
 public:
  Quantizer(const std::vector<Expr>& tensors, const std::vector<ValueRange>& ranges) {
    CHECK(tensors.size() == ranges.size(), "{} tensors, {} ranges", tensors.size(), ranges.size());
    for (size_t i = 0; i < tensors.size(); ++i) scales_[tensors[i].get()] = scale_of(ranges[i]);
    // Operands come first: a pooling takes over what its operand has.
    for (const Expr& e : tensors) {
      if (op_name(e) != "nn.max_pool2d") continue;
      auto source = scales_.find(e.as<Call>()->args[0].get());
      if (source != scales_.end()) scales_[e.get()] = source->second;
    }
  }

 private:
  Expr visit_call(const Ref<Call>& e) override {
    if (is_bias(*e)) return biased(*e);
    if (is_product(e)) return product(*e);
    std::vector<Expr> replaced = quantized_arguments(e);
    if (replaced.empty()) return visit_default(e);
    auto chosen = [&](const Expr& arg) {
      bool quantize = std::find(replaced.begin(), replaced.end(), arg) != replaced.end();
      return quantize ? quantized(arg) : visit(arg);
    };
    auto copy = mutate(*e);
    for (Expr& arg : copy->args) {
      if (const auto* tuple = arg.as<Tuple>()) {
        std::vector<Expr> items;
        for (const Expr& item : tuple->items) items.push_back(chosen(item));
        arg = typed_tuple(items);
      } else {
        arg = chosen(arg);
      }
    }
    return seal(std::move(copy));
  }

  /// `original` rewritten, through uint8 and back.
  Expr quantized(const Expr& original) {
    Expr& memo = quantized_[original.get()];
    if (memo) return memo;
    const Scale& s = scales_.at(original.get());
    Expr scale = typed_constant(full({}, kFloat32, s.scale));
    Expr zero = typed_constant(full({}, kUInt8, static_cast<double>(s.zero)));
    auto attrs = make<QuantizeAttrs>(kUInt8, int64_t{0});
    Expr integers = typed_call("qnn.quantize", {visit(original), scale, zero}, attrs);
    memo = typed_call("qnn.dequantize", {integers, scale, zero}, attrs);
    return memo;
  }

  struct Weights {
    Tensor integers, scale;
  };

  /// int8, symmetric, one scale a channel (axis 0).
  static Weights quantized_weights(const Tensor& weight) {
    int64_t channels = weight.shape()[0], each = weight.size() / std::max<int64_t>(channels, 1);
    Weights result{Tensor(weight.shape(), kInt8), Tensor({channels}, kFloat32)};
    const float* values = weight.as<float>();
    for (int64_t c = 0; c < channels; ++c) {
      float largest = 0;
      for (int64_t i = 0; i < each; ++i) largest = std::max(largest, std::abs(values[c * each + i]));
      float scale = largest > 0 ? largest / 127 : 1;
      result.scale.as<float>()[c] = scale;
      for (int64_t i = 0; i < each; ++i)
        result.integers.as<int8_t>()[c * each + i] =
            static_cast<int8_t>(std::clamp(std::nearbyint(values[c * each + i] / scale), -127.0f, 127.0f));
    }
    return result;
  }

  static Expr dequantized_channels(const Tensor& integers, const Tensor& scale) {
    Tensor zero = zeros(scale.shape(), integers.dtype());
    return typed_call("qnn.dequantize",
                      {typed_constant(integers), typed_constant(scale), typed_constant(zero)},
                      make<QuantizeAttrs>(integers.dtype(), int64_t{0}));
  }

  Expr product(const Call& call) {
    Weights weights = quantized_weights(call.args[1].as<Constant>()->value);
    auto copy = mutate(call);
    copy->args = {quantized(call.args[0]), dequantized_channels(weights.integers, weights.scale)};
    return seal(std::move(copy));
  }

  /// The bias at the scale of the sums it is added to.
  Expr biased(const Call& call) {
    const Call& inner = *call.args[0].as<Call>();
    const Tensor& bias = call.args[1].as<Constant>()->value;
    Tensor scale = quantized_weights(inner.args[1].as<Constant>()->value).scale;
    float data_scale = scales_.at(inner.args[0].get()).scale;
    Tensor integers({bias.size()}, kInt32);
    for (int64_t c = 0; c < bias.size(); ++c) {
      scale.as<float>()[c] *= data_scale;
      double value = std::nearbyint(bias.value(c) / scale.value(c));
      integers.set_integer(c, static_cast<int64_t>(std::clamp(value, -2147483647.0, 2147483647.0)));
    }
    int64_t axis = op_name(call.args[0]) == "nn.conv2d" ? 1 : -1;
    return typed_call("nn.bias_add", {visit(call.args[0]), dequantized_channels(integers, scale)},
                      make<ChannelAttrs>(axis));
  }

  std::unordered_map<const Node*, Scale> scales_;    // of tensors before rewriting
  std::unordered_map<const Node*, Expr> quantized_;  // by tensor before rewriting
};

}  // namespace

Module quantize(const Module& module, const Calibrate& calibrate) {
  auto main = module->functions.find("main");
  if (main == module->functions.end()) fail("quantize: the module has no function @main");
  std::vector<Expr> tensors = tensors_to_quantize(main->second);
  if (tensors.empty()) return module;
  Quantizer quantizer(tensors, calibrate(main->second, tensors));
  auto copy = mutate(*module);
  copy->functions["main"] = quantizer.visit_as(main->second);
  return seal(std::move(copy));
}

}  // namespace lathe::relay
