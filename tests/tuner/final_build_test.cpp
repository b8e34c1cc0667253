#include "tuner/final_build.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "core/codegen/host_target.h"
#include "core/models/zoo.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"
#include "core/tir/prologue.h"
#include "core/tir/text.h"
#include "schedules/schedule.h"
#include "tuner/optimize.h"
#include "tuner/tasks.h"

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

/// relu(w x) by loops.
Tensor layer(const Tensor& x, const Tensor& w) {
  Tensor result = zeros({8, 8}, kFloat32);
  for (int64_t i = 0; i < 8; ++i)
    for (int64_t j = 0; j < 8; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < 8; ++k) sum += x.value(i * 8 + k) * w.value(j * 8 + k);
      result.set(i * 8 + j, std::max(sum, 0.0));
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
  EXPECT_LT(max_relative_error(executor.output(0), layer(layer(x, w), w)), 1e-5);
}

/// The default schedule, after the weights (what the dense block reads second) were copied to a transposed
/// layout by statements of their own.
tir::Func with_packed_weights(const tir::Func& workload) {
  schedule::Schedule s(workload);
  schedule::BlockHandle dense = s.get_block("b0");
  schedule::BlockHandle packed = s.cache_read(dense, 1, tir::Scope::kGlobal);
  s.transform_layout(packed, 0, {1, 8, 0, 8});
  return s.func();
}

TEST(FinalBuild, APrologueIsRunAtBuildTimeForEachSetOfWeights) {
  Tensor x = random_tensor({8, 8}, kFloat32, 1), w = random_tensor({8, 8}, kFloat32, 2),
         u = random_tensor({8, 8}, kFloat32, 3);
  relay::Var data = param("data", kMatrix);
  Expr shared = relay::constant(w), other = relay::constant(u), result = data;
  Expr callee = dense_relu();
  for (const Expr& weight : {shared, other, shared})
    result = typed(make<Call>(callee, std::vector<Expr>{result, weight}), kMatrix);
  // The last layer's weights are not constant: a kernel of its own, without prologue.
  result = typed(make<Call>(callee, std::vector<Expr>{result, data}), kMatrix);
  relay::Module module = relay::make_module(
      make<Function>(std::vector<relay::TypeVar>(), std::vector<relay::Var>{data}, kMatrix, result));
  Target target = codegen::host_target();
  runtime::ModuleImage image = final_build(module, target, with_packed_weights);
  ASSERT_EQ(image.plan.steps.size(), 4u);
  for (size_t step : {1, 2}) EXPECT_EQ(image.plan.steps[step].kernel, image.plan.steps[0].kernel);
  EXPECT_NE(image.plan.steps[3].kernel, image.plan.steps[0].kernel);
  EXPECT_EQ(image.constants.size(), 2u);  // packed w and packed u; w and u themselves are gone
  EXPECT_EQ(image.constants[0].data.value(1), w.value(8));

  Tensor expected_output = x;
  for (const Tensor& weight : {w, u, w, x}) expected_output = layer(expected_output, weight);
  runtime::Executor executor(runtime::Module::from_image(std::move(image)), runtime::serial_parallel());
  executor.set_input(0, x);
  executor.run();
  EXPECT_LT(max_relative_error(executor.output(0), expected_output), 1e-5);
}

TEST(FinalBuild, AsksForTheProgramsThatTasksAre) {
  const Target target = codegen::host_target();
  relay::Module fused = optimize(models::build_model("dqn"), target);
  std::set<std::string> tuned, built;
  bool marked = false;
  for (const Task& task : extract_tasks(fused)) {
    tuned.insert(task.digest);
    marked |= tir::constant_params(task.workload) != 0;
  }
  EXPECT_TRUE(marked);
  std::mutex mutex;
  final_build(fused, target, [&](const tir::Func& workload) {
    std::lock_guard lock(mutex);
    built.insert(tir::workload_digest(workload));
    return workload;
  });
  EXPECT_EQ(built, tuned);
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
