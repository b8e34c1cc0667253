#include "core/relay/passes/narrow_constants.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/calls.h"
#include "core/relay/analysis/narrow_costs.h"
#include "core/relay/functor.h"
#include "core/tir/machine.h"

namespace lathe::relay {
namespace {

/// The same numbers in half of the bits.
std::optional<Tensor> exactly_half(const Tensor& values) {
  Tensor result(values.shape(), kFloat16);
  const float* from = values.as<float>();
  auto* to = result.as<uint16_t>();
  for (int64_t i = 0; i < values.size(); ++i) {
    to[i] = float_to_half(from[i]);
    if (half_to_float(to[i]) != from[i]) return std::nullopt;
  }
  return result;
}

/// Which parameters of a kernel are weights of matrix products of few rows, and nothing else.
std::vector<bool> weights_of_few_rows(const Function& kernel, const Target& target) {
  std::unordered_map<const Node*, int> weights, others;
  post_order(kernel.body, [&](const NodeRef& node) {
    const Call* call = node.as<Call>();
    const bool few = call && is_matrix_product(*call) && !has_many_rows(Expr(call), target);
    node->for_each_child([&](const NodeRef& child) {
      const bool weight = few && child == call->args[1] && child != call->args[0];
      ++(weight ? weights : others)[child.get()];
    });
  });
  std::vector<bool> result;
  for (const Var& param : kernel.params)
    result.push_back(weights.count(param.get()) && !others.count(param.get()));
  return result;
}

class ConstantNarrower final : public ExprMutator {
 public:
  explicit ConstantNarrower(const Target& target) : target_(target) {}

 private:
  Expr visit_call(const Ref<Call>& e) override {
    const Expr visited = visit_default(e);
    const auto* kernel = e->callee.as<Function>();
    if (!kernel || !kernel->attrs.primitive) return visited;
    const std::vector<bool> narrowable = weights_of_few_rows(*kernel, target_);
    auto call = mutate(*visited.as<Call>());
    std::vector<bool> narrowed(narrowable.size());
    for (size_t i = 0; i < narrowable.size(); ++i) {
      const auto* weights = e->args[i].as<Constant>();
      if (!narrowable[i] || !weights) continue;
      if (weights->value.dtype() != kFloat32 || weights->value.bytes() < far_bytes(target_)) continue;
      const std::optional<Tensor> half = exactly_half(weights->value);
      if (!half) continue;
      call->args[i] = typed_constant(*half);
      narrowed[i] = true;
    }
    if (std::find(narrowed.begin(), narrowed.end(), true) == narrowed.end()) return visited;
    Expr& known = kernels_[{kernel, narrowed}];
    if (!known) known = with_narrow(*kernel, narrowed);
    call->callee = known;
    return seal(std::move(call));
  }

  /// The kernel that takes these parameters as float16.
  static Expr with_narrow(const Function& kernel, const std::vector<bool>& narrowed) {
    auto result = mutate(kernel);
    std::unordered_map<const Node*, Expr> values;
    std::vector<Type> types;
    for (size_t i = 0; i < narrowed.size(); ++i) {
      Var& param = result->params[i];
      if (narrowed[i]) {
        auto half = mutate(*make_var(param->name));
        half->checked_type = tensor_type(param->checked_type.as<TensorType>()->shape, kFloat16);
        half->annotation = half->checked_type;
        const Var taken = seal(std::move(half));
        values[param.get()] = cast(taken, kFloat32);
        param = taken;
      }
      types.push_back(param->checked_type);
    }
    result->body = substitute(kernel.body, values);
    result->checked_type = func_type(std::move(types), kernel.result_type);
    return seal(std::move(result));
  }

  const Target& target_;
  std::map<std::pair<const Function*, std::vector<bool>>, Expr> kernels_;  // equal ones stay one
};

}  // namespace

Module narrow_constants(const Module& module, const Target& target) {
  if (!target.converts_half()) return module;
  return map_functions(module, [&](const Ref<Function>& function) {
    return function->attrs.primitive ? function : ConstantNarrower(target).visit_as(function);
  });
}

}  // namespace lathe::relay
