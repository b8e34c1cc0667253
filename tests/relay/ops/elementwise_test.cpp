#include <cmath>

#include "tests/relay/ops/op_rows.h"

namespace lathe::relay {
namespace {

Reference unary(double (*f)(double)) {
  return [=](const Values& x, const Index& i) { return f(x(0, i)); };
}

TEST(ElementwiseOps, UnaryMatchTheirFunctions) {
  struct Unary {
    const char* op;
    double (*function)(double);
  };
  const Unary kRows[] = {
      {"exp", std::exp},
      {"tanh", std::tanh},
      {"sin", std::sin},
      {"cos", std::cos},
      {"tan", std::tan},
      {"atan", std::atan},
      {"sinh", std::sinh},
      {"cosh", std::cosh},
      {"asinh", std::asinh},
      {"erf", std::erf},
      {"floor", std::floor},
      {"ceil", std::ceil},
      {"round", std::nearbyint},
      {"trunc", std::trunc},
      {"abs", std::fabs},
      {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"sign", [](double x) { return x > 0   ? 1.0
                                     : x < 0 ? -1.0
                                             : 0.0; }},
      {"negative", [](double x) { return -x; }},
      {"copy", [](double x) { return x; }},
      {"zeros_like", [](double) { return 0.0; }},
      {"ones_like", [](double) { return 1.0; }},
      {"isnan", [](double) { return 0.0; }},
      {"isfinite", [](double) { return 1.0; }},
      {"logical_not", [](double x) { return x == 0 ? 1.0 : 0.0; }},
      {"nn.relu", [](double x) { return std::max(x, 0.0); }},
      {"nn.leaky_relu", [](double x) { return x > 0 ? x : 0.25 * x; }},
  };
  for (const Unary& row : kRows) check_rows({{row.op, row.op, {}, {{2, 3}}, {2, 3}, unary(row.function)}});
}

TEST(ElementwiseOps, UnaryOfPositiveNumbers) {
  Tensor x = tensor_of<float>({0.25f, 0.5f, 1.0f, 4.0f}, {4}, kFloat32);
  auto check = [&](const char* op, double (*f)(double), int64_t count) {
    Tensor y = run_op(op, {}, {x})[0];
    for (int64_t i = 0; i < count; ++i) EXPECT_NEAR(y.value(i), f(x.value(i)), 1e-5) << op;
  };
  check("log", std::log, 4);
  check("log2", std::log2, 4);
  check("log10", std::log10, 4);
  check("sqrt", std::sqrt, 4);
  check(
      "rsqrt", [](double v) { return 1 / std::sqrt(v); }, 4);
  check("asin", std::asin, 3);
  check("acos", std::acos, 3);
  check("atanh", std::atanh, 2);
}

TEST(ElementwiseOps, BinaryBroadcast) {
  struct Row {
    const char* op;
    double (*function)(double, double);
  };
  const Row kRows[] = {
      {"add", [](double a, double b) { return a + b; }},
      {"subtract", [](double a, double b) { return a - b; }},
      {"multiply", [](double a, double b) { return a * b; }},
      {"divide", [](double a, double b) { return a / b; }},
      {"mod", [](double a, double b) { return std::fmod(a, b); }},
      {"floor_mod", [](double a, double b) { return a - std::floor(a / b) * b; }},
      {"floor_divide", [](double a, double b) { return std::floor(a / b); }},
      {"trunc_divide", [](double a, double b) { return std::trunc(a / b); }},
      {"minimum", [](double a, double b) { return std::min(a, b); }},
      {"maximum", [](double a, double b) { return std::max(a, b); }},
      {"equal", [](double a, double b) { return a == b ? 1.0 : 0.0; }},
      {"not_equal", [](double a, double b) { return a != b ? 1.0 : 0.0; }},
      {"less", [](double a, double b) { return a < b ? 1.0 : 0.0; }},
      {"less_equal", [](double a, double b) { return a <= b ? 1.0 : 0.0; }},
      {"greater", [](double a, double b) { return a > b ? 1.0 : 0.0; }},
      {"greater_equal", [](double a, double b) { return a >= b ? 1.0 : 0.0; }},
  };
  for (const Row& row : kRows)
    check_rows({{row.op, row.op, {}, {{2, 3, 4}, {3, 1}}, {2, 3, 4}, [&](const Values& x, const Index& i) {
                   return row.function(x(0, i), x(1, {i[1], 0}));
                 }}});
}

TEST(ElementwiseOps, ExtremesAreNanWhereOneIs) {
  const float nan = std::nanf("");
  const Tensor a = tensor_of<float>({1, nan, 1, nan}, {4}, kFloat32),
               b = tensor_of<float>({2, 2, nan, nan}, {4}, kFloat32);
  for (const char* op : {"minimum", "maximum"}) {
    const Tensor y = run_op(op, {}, {a, b})[0];
    EXPECT_EQ(y.value(0), op == std::string("maximum") ? 2 : 1);
    for (int64_t i = 1; i < 4; ++i) EXPECT_TRUE(std::isnan(y.value(i))) << op << " " << i;
  }
}

TEST(ElementwiseOps, IntegersTruncateAndFloor) {
  Tensor a = tensor_of<int32_t>({7, -7, 7, -7}, {4}, kInt32),
         b = tensor_of<int32_t>({2, 2, -2, -2}, {4}, kInt32);
  auto values = [&](const char* op) {
    Tensor y = run_op(op, {}, {a, b})[0];
    return std::vector<int64_t>{y.integer(0), y.integer(1), y.integer(2), y.integer(3)};
  };
  EXPECT_EQ(values("divide"), (std::vector<int64_t>{3, -3, -3, 3}));
  EXPECT_EQ(values("floor_divide"), (std::vector<int64_t>{3, -4, -4, 3}));
  EXPECT_EQ(values("mod"), (std::vector<int64_t>{1, -1, 1, -1}));
  EXPECT_EQ(values("floor_mod"), (std::vector<int64_t>{1, 1, -1, -1}));
  EXPECT_EQ(values("bitwise_and"), (std::vector<int64_t>{2, 0, 6, -8}));
  EXPECT_EQ(values("power"), (std::vector<int64_t>{49, 49, 0, 0}));
}

TEST(ElementwiseOps, IntegersByZeroGiveZero) {
  for (DataType type : {kInt8, kUInt8, kInt64}) {
    Tensor a = full({3}, type, 7), zero = zeros({3}, type);
    for (const char* op : {"divide", "mod", "floor_divide", "floor_mod", "trunc_divide", "trunc_mod"}) {
      Tensor result = run_op(op, {}, {a, zero})[0];
      for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(result.integer(i), 0) << op << " of " << to_string(type);
    }
  }
}

TEST(ElementwiseOps, Channels) {
  Attrs first = attrs<ChannelAttrs>([](auto&a) { a.axis = 0; }),
        last = attrs<ChannelAttrs>([](auto&a) { a.axis = -1; });
  check_rows({
      {"bias_add",
       "nn.bias_add",
       {},
       {{2, 3, 4}, {3}},
       {2, 3, 4},
       [](const Values& x, const Index& i) { return x(0, i) + x(1, {i[1]}); }},
      {"bias_add last",
       "nn.bias_add",
       last,
       {{2, 3}, {3}},
       {2, 3},
       [](const Values& x, const Index& i) { return x(0, i) + x(1, {i[1]}); }},
      {"prelu",
       "nn.prelu",
       first,
       {{2, 3}, {2}},
       {2, 3},
       [](const Values& x, const Index& i) { return x(0, i) > 0 ? x(0, i) : x(0, i) * x(1, {i[0]}); }},
      {"clip",
       "clip",
       attrs<ClipAttrs>([](auto& a) { a.a_min = -0.5, a.a_max = 0.25; }),
       {{8}},
       {8},
       [](const Values& x, const Index& i) { return std::min(std::max(x(0, i), -0.5), 0.25); }},
      {"cast",
       "cast",
       attrs<CastAttrs>([](auto& a) { a.dtype = kInt32; }),
       {{8}},
       {8},
       [](const Values& x, const Index& i) { return std::trunc(x(0, i)); }},
      {"where",
       "where",
       {},
       {{2, 1}, {2, 3}, {3}},
       {2, 3},
       [](const Values& x, const Index& i) {
         return x(0, {i[0], 0}) != 0 ? x(1, i) : x(2, {i[1]});
       }},
  });
}

TEST(ElementwiseOps, Refuse) {
  EXPECT_EQ(relation_error("add", {}, {{2, 3}, {4}}), "add: shapes (2, 3) and (4) do not broadcast");
  EXPECT_EQ(relation_error("nn.bias_add", {}, {{2, 3}, {4}}),
            "nn.bias_add: argument 2 has shape (4), must have (3)");
  try {
    infer_op("add", {}, {tensor_type(Index{2}, kFloat32), tensor_type(Index{2}, kInt8)});
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "add: element types float32 and int8 differ; insert a cast");
  }
}

}  // namespace
}  // namespace lathe::relay
