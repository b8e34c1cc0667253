#include <cmath>
#include <limits>

#include "tests/relay/ops/op_rows.h"

namespace lathe::relay {
namespace {

Attrs over(Ints axis, bool keepdims = false, bool exclude = false) {
  return attrs<ReduceAttrs>([&](auto& a) { a.axis = axis, a.keepdims = keepdims, a.exclude = exclude; });
}

/// f over all elements of a (2, 3, 4) input whose index agrees with `fixed` where it is not -1.
double fold(const Values& x, const Index& fixed, double start, double (*f)(double, double)) {
  for (int64_t n = 0; n < 24; ++n) {
    Index i{n / 12, n / 4 % 3, n % 4};
    bool inside = true;
    for (size_t d = 0; d < 3; ++d) inside &= fixed[d] < 0 || fixed[d] == i[d];
    if (inside) start = f(start, x(0, i));
  }
  return start;
}
double plus(double a, double b) { return a + b; }
double larger(double a, double b) { return std::max(a, b); }

TEST(ReduceOps, NothingGivesTheNeutralElement) {
  check_rows({
      {"sum of nothing",
       "sum",
       over({1}),
       {{2, 0, 4}},
       {2, 4},
       [](const Values&, const Index&) { return 0.0; }},
      {"prod of nothing",
       "prod",
       over({1}),
       {{2, 0, 4}},
       {2, 4},
       [](const Values&, const Index&) { return 1.0; }},
  });
}

TEST(ReduceOps, MatchTheDefinition) {
  std::vector<Index> in{{2, 3, 4}};
  check_rows({
      {"sum all",
       "sum",
       {},
       in,
       {},
       [](const Values& x, const Index&) {
         return fold(x, {-1, -1, -1}, 0, plus);
       }},
      {"sum axis",
       "sum",
       over({1}),
       in,
       {2, 4},
       [](const Values& x, const Index& i) {
         return fold(x, {i[0], -1, i[1]}, 0, plus);
       }},
      {"sum keepdims",
       "sum",
       over({-1, 0}, true),
       in,
       {1, 3, 1},
       [](const Values& x, const Index& i) {
         return fold(x, {-1, i[1], -1}, 0, plus);
       }},
      {"sum of the others",
       "sum",
       over({1}, false, true),
       in,
       {3},
       [](const Values& x, const Index& i) {
         return fold(x, {-1, i[0], -1}, 0, plus);
       }},
      {"max",
       "max",
       over({2}),
       in,
       {2, 3},
       [](const Values& x, const Index& i) {
         return fold(x, {i[0], i[1], -1}, -1e30, larger);
       }},
      {"min",
       "min",
       over({2}),
       in,
       {2, 3},
       [](const Values& x, const Index& i) {
         return fold(x, {i[0], i[1], -1}, 1e30, [](double a, double b) { return std::min(a, b); });
       }},
      {"prod",
       "prod",
       over({0}),
       in,
       {3, 4},
       [](const Values& x, const Index& i) {
         return fold(x, {-1, i[0], i[1]}, 1, [](double a, double b) { return a * b; });
       }},
      {"mean",
       "mean",
       over({1, 2}),
       in,
       {2},
       [](const Values& x, const Index& i) {
         return fold(x, {i[0], -1, -1}, 0, plus) / 12;
       }},
      {"logsumexp",
       "logsumexp",
       over({1}, true),
       in,
       {2, 1, 4},
       [](const Values& x, const Index& i) {
         return std::log(fold(x, {i[0], -1, i[2]}, 0, [](double a, double b) { return a + std::exp(b); }));
       }},
      {"argmax",
       "argmax",
       attrs<ArgReduceAttrs>([](auto& a) { a.axis = Ints{2}; }),
       in,
       {2, 3},
       [](const Values& x, const Index& i) {
         int64_t best = 0;
         for (int64_t k = 1; k < 4; ++k)
           if (x(0, {i[0], i[1], k}) > x(0, {i[0], i[1], best})) best = k;
         return static_cast<double>(best);
       }},
      {"variance",
       "variance",
       over({2}),
       {{2, 3, 4}, {2, 3, 1}},
       {2, 3},
       [](const Values& x, const Index& i) {
         double sum = 0;
         for (int64_t k = 0; k < 4; ++k) sum += std::pow(x(0, {i[0], i[1], k}) - x(1, {i[0], i[1], 0}), 2);
         return sum / 4;
       }},
      {"softmax",
       "nn.softmax",
       attrs<SoftmaxAttrs>([](auto& a) { a.axis = 1; }),
       in,
       {2, 3, 4},
       [](const Values& x, const Index& i) {
         return std::exp(x(0, i)) /
                fold(x, {i[0], -1, i[2]}, 0, [](double a, double b) { return a + std::exp(b); });
       }},
      {"log_softmax",
       "nn.log_softmax",
       {},
       in,
       {2, 3, 4},
       [](const Values& x, const Index& i) {
         return x(0, i) -
                std::log(fold(x, {i[0], i[1], -1}, 0, [](double a, double b) { return a + std::exp(b); }));
       }},
  });
}

TEST(ReduceOps, TiesGoToTheFirstOrTheLast) {
  Tensor x = tensor_of<float>({1, 3, 3, 0, 0, 3}, {6}, kFloat32);
  auto position = [&](const char* op, bool last) {
    return run_op(op, attrs<ArgReduceAttrs>([&](auto& a) { a.select_last_index = last; }), {x})[0].integer(0);
  };
  EXPECT_EQ(position("argmax", false), 1);
  EXPECT_EQ(position("argmax", true), 5);
  EXPECT_EQ(position("argmin", false), 3);
  EXPECT_EQ(position("argmin", true), 4);
}

TEST(ReduceOps, NaNCountsAsEqualToTheExtreme) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  auto positions = [](const char* op, std::vector<float> values, bool last) {
    Tensor x = tensor_of(values, {static_cast<int64_t>(values.size())}, kFloat32);
    return run_op(op, attrs<ArgReduceAttrs>([&](auto& a) { a.select_last_index = last; }), {x})[0].integer(0);
  };
  for (const char* op : {"argmax", "argmin"}) {
    SCOPED_TRACE(op);
    EXPECT_EQ(positions(op, {kNaN, kNaN, kNaN}, false), 0);
    EXPECT_EQ(positions(op, {kNaN, kNaN, kNaN}, true), 2);
    EXPECT_EQ(positions(op, {0, kNaN, 1, -1, 0}, false), 1);
    EXPECT_EQ(positions(op, {1, -1, 0, kNaN, 0}, true), 3);
  }
  EXPECT_EQ(positions("argmax", {3, kNaN}, false), 0);
  EXPECT_EQ(positions("argmax", {-INFINITY, -INFINITY}, true), 1);
}

TEST(ReduceOps, LogSumExpOfInfinities) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  auto of = [](std::vector<float> values) {
    return run_op("logsumexp", {}, {tensor_of(values, {2}, kFloat32)})[0].value(0);
  };
  EXPECT_EQ(of({-INFINITY, -INFINITY}), -INFINITY);
  EXPECT_EQ(of({INFINITY, 0}), INFINITY);
  EXPECT_EQ(of({INFINITY, -INFINITY}), INFINITY);
  EXPECT_EQ(of({-INFINITY, 2}), 2);
  EXPECT_TRUE(std::isnan(of({kNaN, 0})));
}

TEST(ReduceOps, Refuse) {
  EXPECT_EQ(relation_error("sum", over({3}), {{2, 3, 4}}),
            "sum: axis 3 of a tensor of rank 3, must be from -3 to 2");
  EXPECT_EQ(relation_error("all", {}, {{2}}),
            "all: argument 1 has elements of float32, must have bool; insert a cast");
  const auto place = [](const char* op, Ints axis, const Index& shape) {
    return relation_error(op, attrs<ArgReduceAttrs>([&](auto& a) { a.axis = axis; }), {shape});
  };
  EXPECT_EQ(place("argmax", {1}, {2, 0}), "argmax: (2, 0) has no elements along axis 1");
  EXPECT_EQ(place("argmin", {0, 2}, {2, 3, 0}), "argmin: (2, 3, 0) has no elements along axis 2");
  EXPECT_EQ(place("argmax", {1}, {0, 3}), "no error");
}

}  // namespace
}  // namespace lathe::relay
