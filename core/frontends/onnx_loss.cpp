// Losses of classifications: scores (n, classes, d1, ...), labels (n, d1, ...).
#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_dims.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::onnx {
namespace {
using relay::Ints;

Value total(const Value& x) { return emit("sum", {x}, make<relay::ReduceAttrs>(std::optional<Ints>())); }

/// 1, or its class's weight, for each label; 0 for those to be ignored.
Value weights_of(const Node& node, const Value& labels, const Value& kept, DataType dtype) {
  Value weights = scalar(dtype, 1);
  if (node.has(2))
    weights = emit("take", {node.in(2), labels},
                   make<relay::TakeAttrs>(int64_t{0}, std::optional<int64_t>(0), std::string("clip")));
  return choose(kept, weights, scalar(dtype, 0));
}

/// The loss of logarithms of probabilities.
Value negative_log_likelihood(const Node& node, const Value& scores) {
  const std::vector<Expr> shape = dims_of(scores);
  std::vector<Expr> wanted = shape;
  if (shape.size() < 2) node.reject("scores of rank {}, must be 2 or more", shape.size());
  wanted.erase(wanted.begin() + 1);
  DataType dtype = type_of(scores).dtype;
  Value labels = cast_to(with_dims(node.in(1), wanted), kInt64), kept = constant(full({}, kBool, 1));
  if (node.has_attr("ignore_index")) {
    kept = emit("not_equal", {labels, number(labels, static_cast<double>(node.integer("ignore_index", 0)))});
    // An ignored label may name no class; it reads class 0 and gets the weight 0.
    labels = choose(kept, labels, number(labels, 0));
  }
  std::vector<Expr> one_class = shape;
  one_class[1] = 1;
  Value picked = reshape_to(
      emit("gather", {scores, reshape_to(labels, one_class)}, make<relay::GatherAttrs>(int64_t{1})), wanted);
  Value weights = repeated_to(weights_of(node, labels, kept, dtype), wanted);
  Value losses = times(emit("negative", {picked}), weights);
  std::string reduction = node.text("reduction", "mean");
  if (reduction == "none") return losses;
  if (reduction == "sum") return total(losses);
  if (reduction != "mean") node.reject("reduction `{}` is not none, sum or mean", reduction);
  // The mean is weighted: by the sum of weights, not the number of labels.
  return over(total(losses), total(weights));
}

Values negative_log_likelihood_loss(const Node& node) { return {negative_log_likelihood(node, node.in(0))}; }

Values softmax_cross_entropy_loss(const Node& node) {
  Value logarithms = emit("nn.log_softmax", {node.in(0)}, make<relay::SoftmaxAttrs>(int64_t{1}));
  return {negative_log_likelihood(node, logarithms), logarithms};
}

constexpr Converter kConverters[] = {
    {"NegativeLogLikelihoodLoss", negative_log_likelihood_loss, Arithmetic::kWide},
    {"SoftmaxCrossEntropyLoss", softmax_cross_entropy_loss, Arithmetic::kWide},
};
}  // namespace

std::span<const Converter> loss_converters() { return kConverters; }

}  // namespace lathe::onnx
