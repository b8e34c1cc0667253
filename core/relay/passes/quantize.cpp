#include "core/relay/passes/quantize.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/calls.h"
#include "core/relay/analysis/narrow_tensors.h"
#include "core/relay/functor.h"
#include "core/relay/ops/rule.h"
#include "core/support/error.h"

namespace lathe::relay {
namespace {

const TensorType* type_of(const Expr& e) { return e->checked_type.as<TensorType>(); }

/// A product that has a form on quantized operands, of a tensor with constant weights or with another tensor.
bool is_product(const Call& call) {
  const Op* op = operator_of(Expr(&call));
  if (!op || op->narrow != NarrowRule::kProduct || !op->product->quantized || !is_real_tensor(Expr(&call)))
    return false;
  // Constant data (a table looked up, say) is folded, not quantized.
  return is_real_tensor(call.args[0]) && is_real_tensor(call.args[1]) && !call.args[0].as<Constant>() &&
         op->product->axes(call.attrs, type_of(call.args[0])->shape.size(),
                           type_of(call.args[1])->shape.size());
}

/// REQUIRES: is_product(call).
/// Which axes of the operands are its channels and its sums.
ProductAxes axes_of(const Call& call) {
  return *operator_of(Expr(&call))
              ->product->axes(call.attrs, type_of(call.args[0])->shape.size(),
                              type_of(call.args[1])->shape.size());
}

/// A product with constant weights and a vector of constants added along its channels, one for each.
bool is_bias(const Call& call) {
  const Op* op = operator_of(Expr(&call));
  if (!op || op->narrow != NarrowRule::kSum || !operator_of(call.args[0])) return false;
  const Call& product = *call.args[0].as<Call>();
  const auto* bias = call.args[1].as<Constant>();
  if (!bias || !is_product(product) || !product.args[1].as<Constant>()) return false;
  ProductAxes axes = axes_of(product);
  auto after = static_cast<int64_t>(type_of(call.args[0])->shape.size()) - 1 - axes.result;
  const Tensor& weight = product.args[1].as<Constant>()->value;
  std::vector<int64_t> shape{weight.shape()[static_cast<size_t>(axes.weight)]};
  shape.insert(shape.end(), static_cast<size_t>(after), 1);
  return bias->value.shape() == shape;
}

/// The tensor whose elements `e` is made of, by operators that move or choose them: quantized there, once.
Expr source_of(Expr e) {
  while (Expr from = chosen_from(e)) e = from;
  return e;
}

/// A tensor as it is quantized: to int8 about 0, as products take their second operand, or to uint8.
using Key = std::pair<const Node*, bool>;

/// Whether `e`, which is narrow, is int8: where it is the second operand of products and nothing else.
/// One that is read as either operand is quantized both ways for the products, and as uint8 for others.
bool is_symmetric(const NarrowTensors& tensors, const Expr& e) {
  return tensors.readers(e).weight && !tensors.readers(e).data;
}

/// real = (integer - zero) * scale.
struct Scale {
  DataType dtype;
  float scale;
  int64_t zero;
};

/// uint8 over the range and 0; int8 about 0.
/// 0 itself is exact in both: padding and relu put it everywhere.
Scale scale_of(const ValueRange& range, bool symmetric) {
  double low = std::min(range.low, 0.0), high = std::max(range.high, 0.0);
  if (symmetric) {
    double largest = std::max(-low, high);
    return {kInt8, static_cast<float>(largest > 0 ? largest / 127 : 1), 0};
  }
  auto scale = static_cast<float>(high > low ? (high - low) / 255 : 1);
  // Whole and within the type: 0 must be one of the 256 values.
  return {
      kUInt8, scale,
      std::clamp<int64_t>(static_cast<int64_t>(std::nearbyint(-low / static_cast<double>(scale))), 0, 255)};
}

/// By the nodes before rewriting, which the module keeps alive.
using Ranges = std::unordered_map<const Node*, ValueRange>;

class Quantizer final : public ExprMutator {
 public:
  Quantizer(const NarrowTensors& tensors, const NarrowTensors::IsProduct& is_product, const Ranges& ranges)
      : tensors_(tensors), is_product_(is_product), ranges_(ranges) {}

 private:
  Expr visit_call(const Ref<Call>& e) override {
    // A bias first: it is also a sum, and rewrites the product inside on its way.
    if (is_bias(*e) && is_product_(*e->args[0].as<Call>())) return biased(*e);
    if (is_product_(*e)) return product(*e);
    const Op* op = operator_of(e);
    if (!op) return visit_default(e);
    // What a concatenation chooses from is a tuple, which chosen_from does not answer with.
    bool chosen = chosen_from(e) || (is_choice(*e) && e->args[0].as<Tuple>());
    if (chosen && tensors_.is_narrow(e)) return quantized(e, is_symmetric(tensors_, e));
    bool willing = (op->narrow == NarrowRule::kSum && tensors_.sums_narrow(*e)) ||
                   (op->narrow == NarrowRule::kMean && op->mean);
    return willing ? with_quantized_operands(*e) : visit_default(e);
  }

  /// Those of them that are narrow.
  Expr with_quantized_operands(const Call& call) {
    auto read = [&](const Expr& e) {
      return tensors_.is_narrow(e) && !e.as<Constant>() ? quantized(e, is_symmetric(tensors_, e)) : visit(e);
    };
    auto copy = mutate(call);
    for (Expr& arg : copy->args) arg = read(arg);
    return seal(std::move(copy));
  }

  /// `original` rewritten, through 8 bits and back; of elements chosen from a tensor, those of that.
  Expr quantized(const Expr& original, bool symmetric) {
    if (Expr known = quantized_[{original.get(), symmetric}]) return known;
    return quantized_[{original.get(), symmetric}] = quantized_anew(original, symmetric);
  }
  Expr quantized_anew(const Expr& original, bool symmetric) {
    if (Expr from = chosen_from(original)) return chosen_anew(original, quantized(from, symmetric));
    return at_scale(original, scale_of(ranges_.at(original.get()), symmetric));
  }

  /// The operator that made `original` from another tensor, of `from` instead.
  Expr chosen_anew(const Expr& original, const Expr& from) {
    auto copy = mutate(*original.as<Call>());
    copy->args[0] = from;
    for (size_t i = 1; i < copy->args.size(); ++i) copy->args[i] = visit(copy->args[i]);
    return seal(std::move(copy));
  }

  /// What is made of several tensors: of all at one scale, so that integers are put together.
  Expr at_scale(const Expr& original, const Scale& s) {
    if (Expr from = chosen_from(original)) return chosen_anew(original, at_scale(from, s));
    const auto* call = original.as<Call>();
    const auto* tuple = call && is_choice(*call) ? call->args[0].as<Tuple>() : nullptr;
    if (!tuple) return through_8_bits(visit(original), s);
    std::vector<Expr> items;
    for (const Expr& item : tuple->items) items.push_back(at_scale(item, s));
    return chosen_anew(original, typed_tuple(items));
  }

  static Expr through_8_bits(const Expr& e, const Scale& s) {
    Expr scale = typed_constant(full({}, kFloat32, s.scale));
    Expr zero = typed_constant(full({}, s.dtype, static_cast<double>(s.zero)));
    auto attrs = make<QuantizeAttrs>(s.dtype, int64_t{0});
    Expr integers = typed_call("qnn.quantize", {e, scale, zero}, attrs);
    return typed_call("qnn.dequantize", {integers, scale, zero}, attrs);
  }

  struct Weights {
    Tensor integers, scale;
  };

  /// int8, symmetric, one scale a channel along `axis`.
  static Weights quantized_weights(const Tensor& weight, int64_t axis) {
    // `inner`: elements of one step along the axis, so element i is of channel i / inner % channels.
    int64_t channels = weight.shape()[static_cast<size_t>(axis)], inner = 1;
    for (size_t d = static_cast<size_t>(axis) + 1; d < weight.shape().size(); ++d) inner *= weight.shape()[d];
    Weights result{Tensor(weight.shape(), kInt8), Tensor({channels}, kFloat32)};
    // Symmetric about 0, -127 to 127: then no product needs a correction for the weight's zero point.
    const float* values = weight.as<float>();
    float* scales = result.scale.as<float>();
    std::fill(scales, scales + channels, 0.0f);
    auto scale_at = [&](int64_t i) -> float& { return scales[i / inner % channels]; };
    for (int64_t i = 0; i < weight.size(); ++i) scale_at(i) = std::max(scale_at(i), std::abs(values[i]));
    for (int64_t c = 0; c < channels; ++c) scales[c] = scales[c] > 0 ? scales[c] / 127 : 1;
    for (int64_t i = 0; i < weight.size(); ++i)
      result.integers.as<int8_t>()[i] =
          static_cast<int8_t>(std::clamp(std::nearbyint(values[i] / scale_at(i)), -127.0f, 127.0f));
    return result;
  }

  /// The integers as they are stored, behind a dequantize with zero points of 0.
  static Expr dequantized_channels(const Tensor& integers, const Tensor& scale, int64_t axis) {
    Tensor zero = zeros(scale.shape(), integers.dtype());
    return typed_call("qnn.dequantize",
                      {typed_constant(integers), typed_constant(scale), typed_constant(zero)},
                      make<QuantizeAttrs>(integers.dtype(), axis));
  }

  /// Still the operator on real numbers: its operands are what changes.
  Expr product(const Call& call) {
    auto copy = mutate(call);
    copy->args[0] = quantized(call.args[0], false);
    if (const auto* constant = call.args[1].as<Constant>()) {
      int64_t axis = axes_of(call).weight;
      Weights weights = quantized_weights(constant->value, axis);
      copy->args[1] = dequantized_channels(weights.integers, weights.scale, axis);
    } else {
      copy->args[1] = quantized(call.args[1], true);
    }
    return seal(std::move(copy));
  }

  /// The bias at the scale of the sums it is added to.
  Expr biased(const Call& call) {
    const Call& inner = *call.args[0].as<Call>();
    ProductAxes axes = axes_of(inner);
    const Tensor& bias = call.args[1].as<Constant>()->value;
    Tensor scale = quantized_weights(inner.args[1].as<Constant>()->value, axes.weight).scale;
    float data_scale = scale_of(ranges_.at(source_of(inner.args[0]).get()), false).scale;
    // Sums of products of integers are at scale data * weight, of each channel; a bias at that scale is added
    // to them as it is (fake_quantization_to_integer).
    Tensor integers({bias.size()}, kInt32);
    for (int64_t c = 0; c < bias.size(); ++c) {
      scale.as<float>()[c] *= data_scale;
      double value = std::nearbyint(bias.value(c) / scale.value(c));
      integers.set_integer(c, static_cast<int64_t>(std::clamp(value, -2147483647.0, 2147483647.0)));
    }
    return typed_call("nn.bias_add", {visit(call.args[0]), dequantized_channels(integers, scale, 0)},
                      make<ChannelAttrs>(axes.result));
  }

  const NarrowTensors& tensors_;
  const NarrowTensors::IsProduct& is_product_;
  const Ranges& ranges_;           // of sources
  std::map<Key, Expr> quantized_;  // by tensor before rewriting
};

/// Each once, operands first.
std::vector<Expr> sources_of(const NarrowTensors& tensors) {
  std::vector<Expr> sources;
  std::unordered_set<const Node*> seen;
  for (const Expr& e : tensors.all()) {
    Expr source = source_of(e);
    if (!source.as<Constant>() && seen.insert(source.get()).second) sources.push_back(source);
  }
  return sources;
}

/// An operand that a product reads narrow. `loss`: what 8 bits take of it, a scalar; null where a sum's terms
/// are a window's, of several axes.
struct NarrowOperand {
  const Node* product;
  Expr tensor;
  Expr loss;
};

/// What rounding to 256 steps over the tensor's range does to a row along `axis`, of the root of the row's
/// mean square, in the mean of rows; a row that is lost counts 1. The root of the mean square of the error of
/// a step is a step / sqrt(12).
Expr loss_of(const Expr& tensor, int64_t axis, bool symmetric) {
  auto along = make<ReduceAttrs>(std::optional(Ints{axis})), all = make<ReduceAttrs>(std::optional<Ints>());
  auto number = [](double value) { return typed_constant(full({}, kFloat32, value)); };
  auto call = [](const char* op, const Expr& a, const Expr& b) { return typed_call(op, {a, b}); };
  Expr low = call("minimum", typed_call("min", {tensor}, all), number(0));
  Expr high = call("maximum", typed_call("max", {tensor}, all), number(0));
  if (symmetric) {
    high = call("maximum", high, typed_call("negative", {low}));
    low = typed_call("negative", {high});
  }
  Expr error = call("multiply", call("subtract", high, low), number(1 / (255 * std::sqrt(12.0))));
  Expr squares = typed_call("mean", {call("multiply", tensor, tensor)}, along);
  // error / root, and 0 for rows of zeros, which are exact.
  Expr of_rows = call("divide", call("multiply", typed_call("sqrt", {squares}), error),
                      call("add", squares, number(1e-30)));
  return typed_call("mean", {call("minimum", of_rows, number(1))}, all);
}

std::vector<NarrowOperand> narrow_operands(const Ref<Function>& function,
                                           const NarrowTensors::IsProduct& is_product) {
  std::vector<NarrowOperand> operands;
  post_order(function->body, [&](const NodeRef& node) {
    const Call* call = node.as<Call>();
    if (!call || !is_product(*call)) return;
    const ProductAxes axes = axes_of(*call);
    const bool rows = axes.of_data && axes.summed.size() == 1;
    const Expr &data = call->args[0], &weight = call->args[1];
    operands.push_back({call, data, rows ? loss_of(data, *axes.of_data, false) : Expr()});
    if (!weight.as<Constant>())
      operands.push_back({call, weight, rows ? loss_of(weight, axes.summed.front(), true) : Expr()});
  });
  return operands;
}

}  // namespace

Module quantize(const Module& module, const NarrowCosts& costs, const Calibrate& calibrate) {
  auto main = module->functions.find("main");
  if (main == module->functions.end()) fail("quantize: the module has no function @main");
  const NarrowTensors::IsProduct gains = [&](const Call& call) {
    return is_product(call) && costs.pays(call, kInt8);
  };
  NarrowTensors wanted(main->second, gains);
  const std::vector<Expr> sources = sources_of(wanted);
  if (sources.empty()) {
    // Samples that do not fit are refused all the same.
    calibrate(main->second, {});
    return module;
  }
  const std::vector<NarrowOperand> operands = narrow_operands(main->second, gains);
  std::vector<Expr> observed = sources;
  for (const NarrowOperand& operand : operands)
    if (operand.loss) observed.push_back(operand.loss);
  const std::vector<ValueRange> seen = calibrate(main->second, observed);
  CHECK(seen.size() == observed.size(), "{} tensors, {} ranges", observed.size(), seen.size());
  Ranges ranges;
  for (size_t i = 0; i < observed.size(); ++i) ranges[observed[i].get()] = seen[i];
  // Attention's weights are between 0 and 1, and most of a long row less than half a step of that range.
  constexpr double kMostLoss = 0.1;
  std::unordered_set<const Node*> too_coarse;
  for (const NarrowOperand& operand : operands) {
    const ValueRange& range = ranges.at(source_of(operand.tensor).get());
    const double loss = operand.loss ? ranges.at(operand.loss.get()).high : 0;
    if (!std::isfinite(range.high - range.low) || loss > kMostLoss) too_coarse.insert(operand.product);
  }
  const NarrowTensors::IsProduct pays = [&](const Call& call) {
    return gains(call) && !too_coarse.count(&call);
  };
  NarrowTensors tensors(main->second, pays);
  Quantizer quantizer(tensors, pays, ranges);
  auto copy = mutate(*module);
  // Other functions stay: ranges are known of tensors inside @main alone.
  copy->functions["main"] = quantizer.visit_as(main->second);
  return seal(std::move(copy));
}

}  // namespace lathe::relay
