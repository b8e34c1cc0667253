#include "tuner/optimize.h"

#include "core/codegen/host_target.h"
#include "core/program/extents.h"
#include "core/program/open_stretch.h"
#include "core/program/ports.h"
#include "core/program/shorten.h"
#include "core/program/stretches.h"
#include "core/relay/analysis/call_type.h"
#include "core/relay/functor.h"
#include "core/relay/interpret_closed.h"
#include "core/relay/pass.h"
#include "core/relay/passes/fuse_ops.h"
#include "core/relay/passes/infer_type.h"
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

/// What is written of dataflow blocks goes when they are inlined: it is looked at before.
void check_dataflow_blocks(const relay::Module& module) {
  bool found = false;
  for (const auto& [name, function] : module->functions)
    post_order(function, [&](const NodeRef& node) { found |= node.as<relay::Dataflow>() != nullptr; });
  if (found) relay::infer_type(module);
}

/// A graph with a size that types do not tell, as a sum of (n) and (m), of which either may be 1, or with one
/// that is 1 or a number: a program tells such cases apart.
bool has_untold_sizes(const relay::Module& module) {
  const auto main = module->functions.find("main");
  if (main == module->functions.end()) return false;
  const bool open =
      std::any_of(main->second->params.begin(), main->second->params.end(), [](const relay::Var& param) {
        const auto* type = param->annotation.as<relay::TensorType>();
        return !type || !relay::has_constant_shape(*type);
      });
  if (!open) return false;
  const relay::Module typed = relay::infer_type(module);
  return program::has_unknown_dims(typed) || program::has_cases(typed);
}

}  // namespace

relay::Evaluate constant_evaluator() {
  return [](const std::vector<relay::Expr>& closed) {
    return elements_of(closed) <= kInterpretedElements ? relay::interpret_closed(closed)
                                                       : compiled_values(closed);
  };
}

relay::Module optimize_program(const relay::Module& module, const Target& target) {
  using enum relay::PassId;
  // What holds for programs as well as for graphs; all else is for the stretches. Values bound by let stay
  // so: what is outside a loop does not move into it.
  constexpr relay::PassId kProgramPasses[] = {kSimplifyExpr, kEliminateCommonSubexpr, kFoldConstant,
                                              kDeadCode, kInferType};
  const relay::PassContext context{.target = target, .evaluate = constant_evaluator()};
  check_dataflow_blocks(module);
  relay::Module typed = relay::run_passes(
      module, std::vector{kInlineDataflow, kInferType, kSpecialize, kWidenHalves, kInferType}, context);
  typed = relay::map_functions(typed, [](const auto& function) { return program::shorten(function); });
  typed = relay::run_passes(typed, kProgramPasses, context);
  auto outlined = mutate(*program::outline_stretches(typed));
  for (auto& [name, function] : outlined->functions) {
    if (!program::is_stretch(*function)) continue;
    const relay::Module fused =
        relay::run_passes(relay::make_module(function), relay::inference_pipeline(), context);
    // Passes leave attributes as they are.
    function = fused->functions.at("main");
  }
  return seal(std::move(outlined));
}

relay::Module optimize(const relay::Module& module, const Target& target) {
  if (program::is_program(module) || has_untold_sizes(module)) {
    relay::Module outlined = optimize_program(module, target);
    // Throw where main has another type than a module can have.
    program::input_ports(*outlined->functions.at("main"));
    program::output_ports(*outlined->functions.at("main"));
    return outlined;
  }
  check_dataflow_blocks(module);
  return relay::run_passes(module, relay::inference_pipeline(),
                           {.target = target, .evaluate = constant_evaluator()});
}

}  // namespace lathe::tuner
