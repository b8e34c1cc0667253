#include "tuner/bind_shapes.h"

#include <gtest/gtest.h>

#include "tests/thrown_by.h"

namespace lathe::tuner {
namespace {

using relay::Call;
using relay::Function;

/// fn(a: (n, 4), b: (n, ?), c: (2)) { f(a, b, c) }
relay::Module dynamic_module() {
  Var n = var("n");
  relay::Var a = relay::make_var("a", relay::tensor_type({n, 4}, kFloat32));
  relay::Var b =
      relay::make_var("b", relay::tensor_type({n, Expr(Ref<ExprNode>(make<Any>(kInt64)))}, kFloat32));
  relay::Var c = relay::make_var("c", relay::tensor_type(std::vector<int64_t>{2}, kFloat32));
  relay::Expr body = make<Call>(make<relay::OpNode>("f"), std::vector<relay::Expr>{a, b, c});
  return relay::make_module(
      make<Function>(std::vector<relay::TypeVar>(), std::vector<relay::Var>{a, b, c}, relay::Type(), body));
}

std::string error_of(const InputShapes& shapes) {
  return thrown_by([&] { bind_shapes(dynamic_module(), shapes); });
}

TEST(BindShapes, SettlesSymbolicAndUnknownDimensions) {
  relay::Module bound = bind_shapes(dynamic_module(), {{"b", {5, 7}}});
  const Function& main = *bound->functions.at("main");
  auto shape = [&](size_t i) { return constant_shape(*main.params[i]->annotation.as<relay::TensorType>()); };
  EXPECT_EQ(shape(0), (std::vector<int64_t>{5, 4}));
  EXPECT_EQ(shape(1), (std::vector<int64_t>{5, 7}));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(main.body.as<Call>()->args[i], main.params[i]) << "uses follow";
}

TEST(BindShapes, SaysWhatDoesNotFit) {
  EXPECT_EQ(
      error_of({}),
      "the model leaves dimensions of its inputs open: `a` is [n, 4], `b` is [n, ?]; say what they are, as "
      "in --shape b=1x128");
  EXPECT_EQ(error_of({{"a", {5, 4}}}),
            "the model leaves dimensions of its inputs open: `b` is [5, ?]; say what they are, as in --shape "
            "b=5x128");
  EXPECT_EQ(error_of({{"a", {5, 4}}, {"b", {6, 1}}}), "dimension n is 5 in input `a` and 6 in input `b`");
  EXPECT_EQ(error_of({{"a", {5, 3}}}), "input `a` has shape (5, 3): dimension 1 must be 4");
  EXPECT_EQ(error_of({{"a", {5}}}), "input `a` has 1 dimensions, must have 2");
  EXPECT_EQ(error_of({{"d", {5}}}), "the model has no input `d`; did you mean `a`?");
}

TEST(BindShapes, SettlesWhatAnExpressionTells) {
  Var k = var("k"), n = var("n");
  const relay::Var x = relay::make_var("x", relay::tensor_type({Expr(k) * 2 + n, n}, kFloat32)),
                   y = relay::make_var("y", relay::tensor_type({Expr(k)}, kFloat32));
  const auto module = relay::make_module(make<Function>(
      std::vector<relay::TypeVar>(), std::vector<relay::Var>{x, y}, relay::Type(), relay::Expr(y)));
  const relay::Module bound = bind_shapes(module, {{"x", {13, 3}}});
  const Function& main = *bound->functions.at("main");
  EXPECT_EQ(constant_shape(*main.params[0]->annotation.as<relay::TensorType>()),
            (std::vector<int64_t>{13, 3}));
  EXPECT_EQ(constant_shape(*main.params[1]->annotation.as<relay::TensorType>()), (std::vector<int64_t>{5}));
  EXPECT_EQ(thrown_by([&] {
              bind_shapes(module, {{"x", {12, 3}}});
            }),
            "input `x` has shape (12, 3): dimension 0 must be (k * 2) + n");
  EXPECT_EQ(thrown_by([&] {
              bind_shapes(module, {{"x", {2, 3}}});
            }),
            "input `x` has shape (2, 3): dimension 0 must be (k * 2) + n");
  EXPECT_EQ(thrown_by([&] {
              bind_shapes(module, {{"x", {13, 3}}, {"y", {4}}});
            }),
            "input `x` has shape (13, 3): dimension 0 must be (k * 2) + n");
}

/// A .relay file is any module.
TEST(BindShapes, RefusesAModuleWithoutMain) {
  try {
    bind_shapes(make<relay::ModuleNode>(), {});
    FAIL() << "must throw";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the model has no function @main");
  }
}

}  // namespace
}  // namespace lathe::tuner
