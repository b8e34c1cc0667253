#include "tuner/quantize_model.h"

#include <algorithm>
#include <limits>

#include "core/relay/analysis/call_type.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/pass.h"
#include "core/relay/passes/quantize.h"
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
  for (const Expr& tensor : tensors)
    for (const char* op : {"min", "max"}) results.push_back(relay::typed_call(op, {tensor}, attrs));
  auto copy = mutate(*function);
  copy->body = relay::typed_tuple(results);
  copy->result_type = copy->body->checked_type;
  copy->checked_type = nullptr;
  return relay::make_module(seal(std::move(copy)));
}

std::vector<relay::ValueRange> observe(const relay::Module& ranges, const Target& target,
                                       const CalibrationOptions& options) {
  auto module = runtime::Module::from_image(compile_model(ranges, target));
  runtime::Executor executor(module, runtime::serial_parallel());
  const runtime::Plan& plan = module->plan();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<relay::ValueRange> seen(plan.outputs.size() / 2, {kInfinity, -kInfinity});
  for (int64_t sample = 0; sample < options.samples; ++sample) {
    for (size_t i = 0; i < plan.inputs.size(); ++i) {
      const runtime::Value& value = plan.values[plan.inputs[i].value];
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

}  // namespace

relay::Module quantize_model(const relay::Module& module, const Target& target,
                             const CalibrationOptions& options) {
  using enum relay::PassId;
  constexpr relay::PassId kFoldBatchNorms[] = {kInferType,    kSimplifyInference, kCanonicalizeOps,
                                               kSimplifyExpr, kFoldConstant,      kFoldScaleAxis,
                                               kFoldConstant};
  relay::Module folded =
      relay::run_passes(module, kFoldBatchNorms, {.target = target, .evaluate = constant_evaluator()});
  auto calibrate = [&](const Ref<relay::Function>& function, const std::vector<Expr>& tensors) {
    return observe(ranges_of(function, tensors), target, options);
  };
  return relay::quantize(folded, calibrate);
}

}  // namespace lathe::tuner
