#include "tuner/optimize.h"

#include "core/codegen/host_target.h"
#include "core/relay/analysis/call_type.h"
#include "core/relay/interpret_closed.h"
#include "core/relay/pass.h"
#include "core/relay/passes/fuse_ops.h"
#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"
#include "tuner/final_build.h"

namespace lathe::tuner {
namespace {

/// Compiling takes some 50 ms a kernel; the interpreter, some 20 ns an element and operator.
constexpr int64_t kInterpretedElements = 1 << 16;

/// Elements of all results on the way, as a measure of what interpreting costs. What several expressions
/// share counts in each of them.
int64_t elements_of(const std::vector<relay::Expr>& exprs) {
  int64_t sum = 0;
  for (const relay::Expr& expr : exprs) {
    post_order(expr, [&](const NodeRef& node) {
      const auto* call = node.as<relay::Call>();
      const auto* type = call ? call->checked_type.as<relay::TensorType>() : nullptr;
      if (type) sum += shape_size(relay::constant_shape(*type));
    });
  }
  return sum;
}

/// A function of no parameters that gives a tuple of them.
Ref<relay::Function> function_of(const std::vector<relay::Expr>& closed) {
  auto function = std::make_unique<relay::Function>();
  function->body = relay::typed_tuple(closed);
  function->result_type = function->body->checked_type;
  function->checked_type = relay::func_type({}, function->result_type);
  return seal(std::move(function));
}

/// By code for this machine, whatever the model is compiled for.
std::vector<Tensor> compiled_values(const std::vector<relay::Expr>& closed) {
  const Target target = codegen::host_target();
  relay::Module fused = relay::fuse_ops(relay::make_module(function_of(closed)));
  auto module = runtime::Module::from_image(final_build(fused, target, default_schedules(target)));
  runtime::Executor executor(module, runtime::serial_parallel());
  executor.run();
  std::vector<Tensor> values;
  // Outputs live in the executor's memory, which goes with it.
  for (size_t i = 0; i < closed.size(); ++i) values.push_back(executor.output(i).clone());
  return values;
}

}  // namespace

relay::Evaluate constant_evaluator() {
  return [](const std::vector<relay::Expr>& closed) {
    return elements_of(closed) <= kInterpretedElements ? relay::interpret_closed(closed)
                                                       : compiled_values(closed);
  };
}

relay::Module optimize(const relay::Module& module, const Target& target) {
  return relay::run_passes(module, relay::inference_pipeline(),
                           {.target = target, .evaluate = constant_evaluator()});
}

}  // namespace lathe::tuner
