#include "tuner/precision.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/codegen/host_target.h"
#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/calls.h"
#include "core/relay/analysis/narrow_tensors.h"
#include "core/relay/functor.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/pass.h"
#include "core/relay/passes/quantize.h"
#include "core/relay/passes/round_block_products.h"
#include "core/relay/passes/to_mixed_precision.h"
#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"
#include "tuner/compile.h"
#include "tuner/optimize.h"

namespace lathe::tuner {
namespace {

using relay::Expr;

/// The function with the least and the largest value of each tensor as its results.
relay::Module ranges_of(const Ref<relay::Function>& function, const std::vector<Expr>& tensors) {
  auto attrs = make<relay::ReduceAttrs>(std::optional<relay::Ints>());
  std::vector<Expr> results;
  // Two results a tensor, in order: outputs 2 i and 2 i + 1 are the range of tensor i.
  for (const Expr& tensor : tensors)
    for (const char* op : {"min", "max"}) results.push_back(relay::typed_call(op, {tensor}, attrs));
  auto copy = mutate(*function);
  // One run of the model gives all ranges; nothing but two numbers a tensor is kept.
  copy->body = relay::typed_tuple(results);
  copy->result_type = copy->body->checked_type;
  // The old type is of the old result; type inference sets the new one.
  copy->checked_type = nullptr;
  return relay::make_module(seal(std::move(copy)));
}

/// The samples in `given`, of an input such as `value`.
std::vector<Tensor> split_samples(const std::string& name, const runtime::Value& value, const Tensor& given) {
  std::vector<int64_t> shape = value.shape, rest = given.shape();
  bool stacked = !rest.empty() && std::vector(rest.begin() + 1, rest.end()) == shape;
  bool joined = !shape.empty() && rest.size() == shape.size() && shape.front() > 0 &&
                rest.front() % shape.front() == 0 &&
                std::equal(rest.begin() + 1, rest.end(), shape.begin() + 1);
  if (given.shape() != shape && !stacked && !joined)
    fail("--calibrate {}: the tensor has {}, an input of {} or several along the first axis are expected",
         name, shape_text(rest), shape_text(shape));
  if (given.dtype() != value.dtype)
    fail("--calibrate {}: the tensor is of {}, the input of {}", name, to_string(given.dtype()),
         to_string(value.dtype));
  for (int64_t i = 0; value.dtype.is_float() && i < given.size(); ++i)
    if (!std::isfinite(given.value(i))) fail("--calibrate {}: element {} is {}", name, i, given.value(i));
  const int64_t bytes = Tensor(shape, value.dtype).bytes();
  std::vector<Tensor> samples;
  for (int64_t at = 0; bytes > 0 && at < given.bytes(); at += bytes) {
    Tensor sample(shape, value.dtype);
    std::memcpy(sample.data(), static_cast<const char*>(given.data()) + at, static_cast<size_t>(bytes));
    samples.push_back(std::move(sample));
  }
  if (bytes == 0 && given.shape() == shape) samples.push_back(given);
  if (samples.empty()) fail("--calibrate {}: the tensor has no element", name);
  return samples;
}

/// What is given of each input of the plan, in order; nothing for those that are random.
std::vector<std::vector<Tensor>> samples_of(const runtime::Plan& plan, const CalibrationOptions& options) {
  std::vector<std::vector<Tensor>> samples(plan.inputs.size());
  for (const auto& [name, tensors] : options.inputs) {
    size_t input = runtime::find_input(plan, name);
    for (const Tensor& tensor : tensors)
      for (Tensor& sample : split_samples(name, plan.values[plan.inputs[input].value], tensor))
        samples[input].push_back(std::move(sample));
    const std::string& first = options.inputs.begin()->first;
    size_t expected = samples[runtime::find_input(plan, first)].size();
    if (samples[input].size() != expected)
      fail("--calibrate {}: has {} samples, {} has {}", name, samples[input].size(), first, expected);
  }
  return samples;
}

/// The union of the ranges over all samples.
std::vector<relay::ValueRange> observe(const relay::Module& ranges, const CalibrationOptions& options) {
  // It runs here and now, whatever the model is quantized for.
  auto module = runtime::Module::from_image(compile_model(ranges, codegen::host_target()));
  runtime::Executor executor(module, runtime::serial_parallel());
  const runtime::Plan& plan = module->plan();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<relay::ValueRange> seen(plan.outputs.size() / 2, {kInfinity, -kInfinity});
  const std::vector<std::vector<Tensor>> given = samples_of(plan, options);
  int64_t samples = options.samples;
  for (const std::vector<Tensor>& of_input : given)
    if (!of_input.empty()) samples = static_cast<int64_t>(of_input.size());
  for (int64_t sample = 0; sample < samples; ++sample) {
    for (size_t i = 0; i < plan.inputs.size(); ++i) {
      if (!given[i].empty()) {
        executor.set_input(i, given[i][static_cast<size_t>(sample)]);
        continue;
      }
      const runtime::Value& value = plan.values[plan.inputs[i].value];
      // Another seed for each sample and input, the same in each run.
      auto seed = options.seed + static_cast<uint64_t>(sample) * plan.inputs.size() + i;
      executor.set_input(i, random_tensor(value.shape, value.dtype, seed));
    }
    executor.run();
    for (size_t i = 0; i < seen.size(); ++i) {
      seen[i].low = std::min(seen[i].low, executor.output(2 * i).value(0));
      seen[i].high = std::max(seen[i].high, executor.output(2 * i + 1).value(0));
    }
  }
  return seen;
}

using enum relay::PassId;
/// Batch norms become scales and shifts, these fold into the weights before them: what is quantized or
/// narrowed are then the weights that run.
constexpr relay::PassId kFoldBatchNorms[] = {
    kInferType,   kWidenHalves,  kSimplifyInference, kConvTransposeToConv, kCanonicalizeOps, kConv3dToConv2d,
    kCropKernels, kSimplifyExpr, kKeepMatrices,      kFoldConstant,        kFoldScaleAxis,   kFoldConstant};

relay::Module run(const relay::Module& module, std::span<const relay::PassId> passes) {
  return relay::run_passes(module, passes, {.evaluate = constant_evaluator()});
}

struct Name {
  const char* text;
  Precision precision;
};
constexpr Name kPrecisions[] = {{"given", Precision::kGiven},
                                {"bf16", Precision::kBFloat16},
                                {"int8", Precision::kInt8},
                                {"float64", Precision::kFloat64}};

}  // namespace

relay::Module quantize_model(const relay::Module& module, const CalibrationOptions& options,
                             const relay::NarrowCosts& costs) {
  auto calibrate = [&](const Ref<relay::Function>& function, const std::vector<Expr>& tensors) {
    return observe(ranges_of(function, tensors), options);
  };
  return relay::quantize(run(module, kFoldBatchNorms), costs, calibrate);
}

Precision parse_precision(std::string_view text) {
  std::vector<std::string> names;
  for (const Name& name : kPrecisions) {
    if (text == name.text) return name.precision;
    names.emplace_back(name.text);
  }
  fail("--precision {}: must be given, bf16, int8 or float64{}", text, did_you_mean(text, names));
}

relay::Module at_precision(const relay::Module& module, Precision precision,
                           const relay::NarrowCosts& costs) {
  constexpr relay::PassId kWiden[] = {kToFloat64, kInferType};
  switch (precision) {
    case Precision::kGiven:
      return module;
    case Precision::kBFloat16:
      return relay::to_mixed_precision(run(module, kFoldBatchNorms), costs);
    case Precision::kInt8:
      return relay::let_blocks_round(quantize_model(module, {}, costs));
    case Precision::kFloat64:
      return run(module, kWiden);
  }
  CHECK(false, "precision {}", static_cast<int>(precision));
}

ProductCounts count_products(const relay::Module& module) {
  ProductCounts count;
  const auto main = module->functions.find("main");
  if (main == module->functions.end()) return count;
  auto is_dequantized = [](Expr e) {
    const relay::Op* op;
    // What moves or chooses elements stands between.
    while ((op = relay::operator_of(e)) && op->narrow == relay::NarrowRule::kChoice) {
      e = e.as<relay::Call>()->args[0];
      if (const auto* tuple = e.as<relay::Tuple>(); tuple && !tuple->items.empty()) e = tuple->items[0];
    }
    return op && std::string_view(op->name) == "qnn.dequantize";
  };
  post_order(main->second->body, [&](const NodeRef& node) {
    const auto* call = node.as<relay::Call>();
    const relay::Op* op = call ? relay::operator_of(node.cast<relay::RelayNode>()) : nullptr;
    if (!op || op->narrow != relay::NarrowRule::kProduct) return;
    ++count.all;
    count.float32 += relay::is_real_tensor(call->args[0]) && !is_dequantized(call->args[0]);
  });
  return count;
}

}  // namespace lathe::tuner
