#include "core/relay/passes/fold_constant.h"

#include <gtest/gtest.h>

#include "core/relay/analysis/call_type.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::relay {
namespace {

Expr number(double value) { return typed_constant(full({}, kFloat32, value)); }

/// add and multiply of scalars, by recursion.
double value_of(const Expr& e) {
  if (const Constant* constant = e.as<Constant>()) return constant->value.value(0);
  const Call* call = e.as<Call>();
  double a = value_of(call->args[0]), b = value_of(call->args[1]);
  return call->callee.as<OpNode>()->name == "add" ? a + b : a * b;
}

struct Calls {
  int count = 0;
  std::vector<Tensor> operator()(const std::vector<Expr>& closed) {
    ++count;
    std::vector<Tensor> values;
    for (const Expr& e : closed) values.push_back(full({}, kFloat32, value_of(e)));
    return values;
  }
};

Module module_of(const Var& x, const Expr& body) {
  return make_module(make<Function>(std::vector<TypeVar>(), std::vector<Var>{x}, Type(), body));
}

Var scalar_param() {
  auto copy = mutate(*make_var("x", tensor_type(std::vector<int64_t>{}, kFloat32)));
  copy->checked_type = copy->annotation;
  return seal(std::move(copy));
}

TEST(FoldConstant, FoldsTheLargestExpressionsInOneGo) {
  Var x = scalar_param();
  Expr six = typed_call("multiply", {number(2), number(3)});
  Expr ten = typed_call("add", {six, number(4)});
  Expr body = typed_call("add", {typed_call("multiply", {x, ten}), six});
  Calls calls;
  Module folded = fold_constant(module_of(x, body), std::ref(calls));
  EXPECT_EQ(calls.count, 1);
  const Call* add = folded->functions.at("main")->body.as<Call>();
  EXPECT_EQ(value_of(add->args[0].as<Call>()->args[1]), 10);
  EXPECT_EQ(value_of(add->args[1]), 6);
  EXPECT_TRUE(add->args[0].as<Call>()->args[1].as<Constant>());
  EXPECT_TRUE(add->args[1].as<Constant>());
}

TEST(FoldConstant, FoldsTheItemsOfATupleAndTheResult) {
  Var x = scalar_param();
  Expr sum = typed_call("add", {number(2), number(3)});
  Calls calls;
  Module folded = fold_constant(module_of(x, typed_tuple({sum, number(1)})), std::ref(calls));
  EXPECT_EQ(value_of(folded->functions.at("main")->body.as<Tuple>()->items[0]), 5);
}

TEST(FoldConstant, LeavesAModuleWithNothingToFoldAsItIs) {
  Var x = scalar_param();
  Module module = module_of(x, typed_call("add", {x, number(1)}));
  Calls calls;
  EXPECT_EQ(fold_constant(module, std::ref(calls)), module);
  EXPECT_EQ(calls.count, 0);
}

/// Zeros of each expression's shape.
const Evaluate kZeros = [](const std::vector<Expr>& closed) {
  std::vector<Tensor> values;
  for (const Expr& e : closed)
    values.push_back(zeros(constant_shape(*e->checked_type.as<TensorType>()), kFloat32));
  return values;
};

/// 32 MiB of one number, which is folded.
TEST(FoldConstant, LeavesWhatIsRepeatedUntilItIsLarge) {
  Var x = scalar_param();
  auto repeated = [&](int64_t rows) {
    const Expr five = typed_call("add", {number(2), number(3)});
    const Expr many = typed_call("broadcast_to", {five}, make<InitAttrs>(std::vector<int64_t>{rows, 1024}));
    const Module folded = fold_constant(module_of(x, typed_call("add", {x, many})), kZeros);
    return folded->functions.at("main")->body.as<Call>()->args[1];
  };
  EXPECT_TRUE(repeated(4096).as<Constant>()) << "16 MiB";
  const Expr large = repeated(8192);
  ASSERT_TRUE(large.as<Call>());
  EXPECT_TRUE(large.as<Call>()->args[0].as<Constant>());
}

/// Scales of blocks: what they are multiplied by is as large.
TEST(FoldConstant, FoldsWhatIsRepeatedOnTheWay) {
  Var x = scalar_param();
  const Expr scales = typed_constant(zeros({1, 1024}, kFloat32)),
             weights = typed_constant(zeros({8192, 1024}, kFloat32));
  const Expr many = typed_call("broadcast_to", {scales}, make<InitAttrs>(std::vector<int64_t>{8192, 1024}));
  const Module module = module_of(x, typed_call("add", {x, typed_call("multiply", {weights, many})}));
  EXPECT_TRUE(fold_constant(module, kZeros)->functions.at("main")->body.as<Call>()->args[1].as<Constant>());
}

}  // namespace
}  // namespace lathe::relay
