#include "tuner/final_build.h"

#include <gtest/gtest.h>

#include "core/codegen/host_target.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"

namespace lathe::tuner {
namespace {

using relay::Call;
using relay::Expr;
using relay::Function;

template <typename T>
Expr typed(const Ref<T>& expr, const relay::Type& type) {
  auto copy = mutate(*expr);
  copy->checked_type = type;
  return seal(std::move(copy));
}

relay::Var param(const char* name, const relay::Type& type) {
  return typed(relay::make_var(name, type), type).cast<relay::VarNode>();
}

const relay::Type kMatrix = relay::tensor_type(std::vector<int64_t>{8, 8}, kFloat32);

/// fn(x, w) { relu(dense(x, w)) }, a new node each time.
Expr dense_relu() {
  relay::Var x = param("x", kMatrix), w = param("w", kMatrix);
  Expr dense = typed(relay::call("nn.dense", {x, w}, make<relay::DenseAttrs>()).cast<Call>(), kMatrix);
  Expr relu = typed(relay::call("nn.relu", {dense}).cast<Call>(), kMatrix);
  return make<Function>(std::vector<relay::TypeVar>(), std::vector<relay::Var>{x, w}, kMatrix, relu,
                        relay::FunctionAttrs{.primitive = true});
}

/// relu(w relu(w x)) by loops.
Tensor expected(const Tensor& x, const Tensor& w) {
  Tensor result = x;
  for (int layer = 0; layer < 2; ++layer) {
    Tensor next = zeros({8, 8}, kFloat32);
    for (int64_t i = 0; i < 8; ++i)
      for (int64_t j = 0; j < 8; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < 8; ++k) sum += result.value(i * 8 + k) * w.value(j * 8 + k);
        next.set(i * 8 + j, std::max(sum, 0.0));
      }
    result = next;
  }
  return result;
}

TEST(FinalBuild, EqualFunctionsShareAKernelAndTheResultIsRight) {
  Tensor x = random_tensor({8, 8}, kFloat32, 1), w = random_tensor({8, 8}, kFloat32, 2);
  relay::Var data = param("data", kMatrix);
  Expr weight = relay::constant(w);
  Expr first = typed(make<Call>(dense_relu(), std::vector<Expr>{data, weight}), kMatrix);
  Expr second = typed(make<Call>(dense_relu(), std::vector<Expr>{first, weight}), kMatrix);
  relay::Module module = relay::make_module(
      make<Function>(std::vector<relay::TypeVar>(), std::vector<relay::Var>{data}, kMatrix, second));
  Target target = codegen::host_target();
  runtime::ModuleImage image = final_build(module, target, default_schedules(target));
  ASSERT_EQ(image.plan.steps.size(), 2u);
  EXPECT_EQ(image.plan.steps[0].kernel, "dense_relu_0");
  EXPECT_EQ(image.plan.steps[1].kernel, "dense_relu_0");
  EXPECT_EQ(image.plan.target, to_text(target));

  runtime::Executor executor(runtime::Module::from_image(std::move(image)), runtime::serial_parallel());
  executor.set_input(0, x);
  executor.run();
  EXPECT_LT(max_relative_error(executor.output(0), expected(x, w)), 1e-5);
}

TEST(FinalBuild, AScheduleThatFailsIsTheUsersError) {
  relay::Var data = param("data", kMatrix);
  Expr call = typed(make<Call>(dense_relu(), std::vector<Expr>{data, data}), kMatrix);
  relay::Module module = relay::make_module(
      make<Function>(std::vector<relay::TypeVar>(), std::vector<relay::Var>{data}, kMatrix, call));
  auto refuse = [](const tir::Func&) -> tir::Func { fail("no schedule today"); };
  EXPECT_THROW(final_build(module, codegen::host_target(), refuse), Error);
}

}  // namespace
}  // namespace lathe::tuner
