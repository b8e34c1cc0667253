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

/// The type of x with sizes of its own, and what is said of it when nothing is given.
std::string said_of(std::vector<std::vector<Expr>> shapes, const OpenDims& open = {}) {
  std::vector<relay::Var> params;
  for (std::vector<Expr>& shape : shapes)
    params.push_back(relay::make_var(std::string(1, static_cast<char>('x' + params.size())),
                                     relay::tensor_type(std::move(shape), kFloat32)));
  const auto module = relay::make_module(
      make<Function>(std::vector<relay::TypeVar>(), params, relay::Type(), relay::Expr(params[0])));
  const std::string said = thrown_by([&] { bind_shapes(module, {}, open); });
  const size_t example = said.find("--shape");
  return example == std::string::npos ? said : said.substr(example);
}

TEST(BindShapes, GivesAnExampleThatFits) {
  const Expr k = var("k"), n = var("n");
  EXPECT_EQ(said_of({{k * 2}}), "--shape x=2");
  EXPECT_EQ(said_of({{3, k * 2}}), "--shape x=3x128");
  EXPECT_EQ(said_of({{k * 2 + n, n}}), "--shape x=130x128");
  EXPECT_EQ(said_of({{k - 4}}), "--shape x=1");
  EXPECT_EQ(said_of({{k * 2}, {k}}), "--shape x=2") << "which tells the other";
  EXPECT_EQ(said_of({{k * 3}, {n, k}}), "--shape y=1x128");
  EXPECT_EQ(said_of({{k + n}}), "--shape x=2") << "what is given tells all that it has to";
}

TEST(BindShapes, ExpressionsOfOpenDimensionsStayOpen) {
  const Expr k = var("k"), n = var("n");
  EXPECT_EQ(said_of({{k * 2 + n, n}}, {.all = true}), "no error");
  EXPECT_EQ(said_of({{k * 2}, {n}}, {.named = {{"k", {}}, {"n", {}}}}), "no error");
  EXPECT_EQ(said_of({{k * 2}}, {.named = {{"n", {}}}}),
            "--open n: no input has an open dimension of this name; those are k");
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

/// Whichever stands first.
TEST(BindShapes, SettlesWhatWaitsForAnotherInput) {
  Var k = var("k"), m = var("m");
  const relay::Var x = relay::make_var("x", relay::tensor_type({Expr(k) + m}, kFloat32)),
                   y = relay::make_var("y", relay::tensor_type({Expr(m) * 3, k}, kFloat32)),
                   z = relay::make_var("z", relay::tensor_type({Expr(m) * 3}, kFloat32));
  const auto bound = [](std::vector<relay::Var> params, const InputShapes& shapes) {
    const relay::Expr body = params[0];
    return bind_shapes(relay::make_module(make<Function>(std::vector<relay::TypeVar>(), std::move(params),
                                                         relay::Type(), body)),
                       shapes);
  };
  const InputShapes shapes{{"x", {7}}, {"z", {6}}};
  EXPECT_EQ(
      constant_shape(
          *bound({x, z, y}, shapes)->functions.at("main")->params[2]->annotation.as<relay::TensorType>()),
      (std::vector<int64_t>{6, 5}));
  EXPECT_EQ(thrown_by([&] {
              bound({x, y}, {{"x", {7}}, {"y", {6, 4}}});
            }),
            "input `y` has shape (6, 4): dimension 0 must be m * 3")
      << "y tells k, and with it x tells m, which is not y's";
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
