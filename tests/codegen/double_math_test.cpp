// Elementary functions of float64 against libm in long double, in units in the last place.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/codegen/host_target.h"
#include "tests/codegen/run_kernel.h"

namespace lathe::codegen {
namespace {
struct FunctionCase {
  Intrinsic function;
  long double (*exact)(long double);
  double low, high, ulps;
};

long double sigmoid(long double x) { return 1 / (1 + std::exp(-x)); }
constexpr FunctionCase kFunctions[] = {
    {Intrinsic::kExp, std::exp, -708.3, 709.7, 1},  {Intrinsic::kExp, std::exp, -0.4, 0.4, 1},
    {Intrinsic::kExp, std::exp, -745.1, -708.4, 1}, {Intrinsic::kLog, std::log, 1e-300, 1e300, 1},
    {Intrinsic::kLog, std::log, 0.6, 1.6, 1},       {Intrinsic::kLog, std::log, 5e-324, 2e-308, 1},
    {Intrinsic::kTanh, std::tanh, -22, 22, 3},      {Intrinsic::kTanh, std::tanh, -0.4, 0.4, 3},
    {Intrinsic::kTanh, std::tanh, -1e-9, 1e-9, 3},  {Intrinsic::kSigmoid, sigmoid, -40, 40, 3},
};

double ulp_error(double got, long double exact) {
  const auto nearest = static_cast<double>(exact);
  const double scale = std::abs(nearest);
  const double ulp = std::nextafter(scale, std::numeric_limits<double>::infinity()) - scale;
  return static_cast<double>(std::abs(got - exact) / ulp);
}

std::vector<double> values_of(Intrinsic f, const std::vector<double>& inputs, const Target& target,
                              int lanes) {
  const auto n = static_cast<int64_t>(inputs.size());
  tir::Buffer x = tir::buffer("x", {n}, kFloat64), y = tir::buffer("y", {n}, kFloat64);
  Var i = var("i");
  Expr at = lanes == 1 ? Expr(i) : ramp(i * lanes, Expr(1), lanes);
  auto map =
      make<tir::FuncNode>("map", std::vector{x, y}, int64_t{1},
                          tir::for_loop(i, n / lanes, tir::store(y, {at}, intrinsic(f, tir::load(x, {at})))));
  std::vector<Tensor> params{tensor_of(inputs, {n}, kFloat64), Tensor({n}, kFloat64)};
  run_kernel(map, target, params);
  const auto results = params[1].span<double>();
  return {results.begin(), results.end()};
}

TEST(DoubleMath, IsAccurate) {
  constexpr int kPoints = 1 << 15;
  for (const FunctionCase& c : kFunctions) {
    std::vector<double> inputs;
    for (int i = 0; i < kPoints; ++i) inputs.push_back(c.low + (c.high - c.low) * i / (kPoints - 1));
    for (const auto& [text, lanes] : {std::pair("cpu", 8), {"cpu", 1}, {"cpu:mcpu=nehalem", 2}}) {
      const std::vector<double> got = values_of(c.function, inputs, resolve_target(text), lanes);
      double worst = 0, at = 0;
      for (int i = 0; i < kPoints; ++i) {
        const double error = ulp_error(got[i], c.exact(inputs[i]));
        if (!(error <= worst)) worst = error, at = inputs[i];
      }
      EXPECT_LE(worst, c.ulps) << spelling(c.function) << "(" << at << ") on " << text;
    }
  }
}

TEST(DoubleMath, KeepsSpecialValues) {
  constexpr double kInf = std::numeric_limits<double>::infinity(),
                   kNan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> inputs{0.0,  -0.0, kInf, -kInf, kNan,  1e300,  -1e300, 1e-320,
                                   -1.0, 1.0,  710,  -746,  1e-30, -1e-30, 2e-308, -2e-308};
  for (const FunctionCase& c : kFunctions) {
    const std::vector<double> got = values_of(c.function, inputs, host_target(), 8);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto exact = static_cast<double>(c.exact(inputs[i]));
      if (std::isnan(exact))
        EXPECT_TRUE(std::isnan(got[i])) << spelling(c.function) << "(" << inputs[i] << ") = " << got[i];
      else if (std::isinf(exact) || exact == 0)
        EXPECT_EQ(got[i], exact) << spelling(c.function) << "(" << inputs[i] << ")";
      else
        EXPECT_LE(ulp_error(got[i], exact), c.ulps) << spelling(c.function) << "(" << inputs[i] << ")";
      if (exact == 0) {
        EXPECT_EQ(std::signbit(got[i]), std::signbit(exact)) << spelling(c.function);
      }
    }
  }
}

}  // namespace
}  // namespace lathe::codegen
