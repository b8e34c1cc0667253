// Elementary functions of float64 against libm in long double, in units in the last place.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "core/codegen/host_target.h"
#include "tests/codegen/assembly.h"
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
    {Intrinsic::kExp, std::exp, -708.3, 709.7, 1},
    {Intrinsic::kExp, std::exp, -0.4, 0.4, 1},
    {Intrinsic::kExp, std::exp, -745.1, -708.4, 1},
    {Intrinsic::kLog, std::log, 1e-300, 1e300, 1},
    {Intrinsic::kLog, std::log, 0.6, 1.6, 1},
    {Intrinsic::kLog, std::log, 5e-324, 2e-308, 1},
    {Intrinsic::kTanh, std::tanh, -22, 22, 3},
    {Intrinsic::kTanh, std::tanh, -0.4, 0.4, 3},
    {Intrinsic::kTanh, std::tanh, -1e-9, 1e-9, 3},
    {Intrinsic::kSigmoid, sigmoid, -40, 40, 3},
    {Intrinsic::kErf, std::erf, -6.5, 6.5, 2},
    {Intrinsic::kErf, std::erf, -1.1, 1.1, 2},
    {Intrinsic::kErf, std::erf, -1e-9, 1e-9, 2},
    {Intrinsic::kAtan, std::atan, -1, 1, 2},
    {Intrinsic::kAtan, std::atan, -20, 20, 2},
    {Intrinsic::kAtan, std::atan, -1e12, 1e12, 2},
    {Intrinsic::kAtan, std::atan, -1e-9, 1e-9, 2},
    {Intrinsic::kSin, std::sin, -7, 7, 2},
    {Intrinsic::kSin, std::sin, -2e6, 2e6, 2},
    {Intrinsic::kSin, std::sin, -1e-9, 1e-9, 2},
    {Intrinsic::kCos, std::cos, -7, 7, 2},
    {Intrinsic::kCos, std::cos, -2e6, 2e6, 2},
    {Intrinsic::kTan, std::tan, -7, 7, 4},
    {Intrinsic::kTan, std::tan, -2e6, 2e6, 4},
    {Intrinsic::kTan, std::tan, -1e-9, 1e-9, 4},
    {Intrinsic::kSinh, std::sinh, -710, 710, 3},
    {Intrinsic::kSinh, std::sinh, -1, 1, 3},
    {Intrinsic::kSinh, std::sinh, -1e-9, 1e-9, 3},
    {Intrinsic::kCosh, std::cosh, -710, 710, 2},
    {Intrinsic::kCosh, std::cosh, -1, 1, 2},
    {Intrinsic::kAsin, std::asin, -1, 1, 4},
    {Intrinsic::kAsin, std::asin, -1e-9, 1e-9, 4},
    {Intrinsic::kAcos, std::acos, -1, 1, 4},
    {Intrinsic::kAcos, std::acos, 0.999, 1, 4},
    {Intrinsic::kAsinh, std::asinh, -20, 20, 4},
    {Intrinsic::kAsinh, std::asinh, -1e300, 1e300, 4},
    {Intrinsic::kAsinh, std::asinh, -1e-9, 1e-9, 4},
    {Intrinsic::kAcosh, std::acosh, 1, 20, 4},
    {Intrinsic::kAcosh, std::acosh, 1, 1.001, 4},
    {Intrinsic::kAcosh, std::acosh, 1, 1e300, 4},
    {Intrinsic::kAtanh, std::atanh, -0.9999, 0.9999, 4},
    {Intrinsic::kAtanh, std::atanh, -1e-9, 1e-9, 4},
};

double ulp_error(double got, long double exact) {
  const auto nearest = static_cast<double>(exact);
  const double scale = std::abs(nearest);
  const double ulp = std::nextafter(scale, std::numeric_limits<double>::infinity()) - scale;
  return static_cast<double>(std::abs(got - exact) / ulp);
}

/// f of the elements of `inputs`, which have one length, in vectors of `lanes`.
std::vector<double> mapped(const std::vector<std::vector<double>>& inputs, const Target& target, int lanes,
                           const std::function<Expr(const std::vector<Expr>&)>& f) {
  const auto n = static_cast<int64_t>(inputs[0].size());
  Var i = var("i");
  Expr at = lanes == 1 ? Expr(i) : ramp(i * lanes, Expr(1), lanes);
  std::vector<tir::Buffer> buffers;
  std::vector<Expr> elements;
  std::vector<Tensor> params;
  for (const std::vector<double>& input : inputs) {
    buffers.push_back(tir::buffer(fmt::format("x{}", buffers.size()), {n}, kFloat64));
    elements.push_back(tir::load(buffers.back(), {at}));
    params.push_back(tensor_of(input, {n}, kFloat64));
  }
  buffers.push_back(tir::buffer("y", {n}, kFloat64));
  params.emplace_back(std::vector{n}, kFloat64);
  run_kernel(make<tir::FuncNode>("map", buffers, int64_t{1},
                                 tir::for_loop(i, n / lanes, tir::store(buffers.back(), {at}, f(elements)))),
             target, params);
  const auto results = params.back().span<double>();
  return {results.begin(), results.end()};
}

std::vector<double> values_of(Intrinsic f, const std::vector<double>& inputs, const Target& target,
                              int lanes) {
  return mapped({inputs}, target, lanes, [f](const std::vector<Expr>& x) { return intrinsic(f, x[0]); });
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

std::vector<double> special_numbers() {
  constexpr double kInf = std::numeric_limits<double>::infinity(),
                   kNan = std::numeric_limits<double>::quiet_NaN();
  return {0.0,        -0.0,        kInf,  -kInf,   kNan,
          1.0,        -1.0,        2.0,   -2.0,    3.0,
          -3.0,       0.5,         -0.5,  5e-324,  -5e-324,
          1e308,      -1e308,      127.5, -149,    7.7,
          0x1p53 + 2, -0x1p53 - 1, 1e300, -1e-300, 0x1.fffffffffffffp-1};
}

/// Special numbers with each other; results from the least subnormal number to infinity; bases next to 1.
TEST(DoubleMath, PowersAreThoseOfLibm) {
  const std::vector<double> numbers = special_numbers();
  std::vector<double> bases, exponents;
  auto add = [&](double x, double y) { bases.push_back(x), exponents.push_back(y); };
  for (double x : numbers)
    for (double y : numbers) add(x, y);
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> scale(-1000, 1000), logarithm(-746, 711), near(-1e-3, 1e-3);
  for (int i = 0; i < 30000; ++i) {
    const double any = std::exp2(scale(random)), close = 1 + near(random);
    add(any, logarithm(random) / std::log(any));
    add(close, logarithm(random) / std::log(close));
    add(-any, std::round(logarithm(random) / std::log(any)));
  }
  bases.resize(bases.size() / 8 * 8), exponents.resize(bases.size());
  for (const auto& [text, lanes] : {std::pair("cpu", 8), {"cpu", 1}, {"cpu:mcpu=nehalem", 2}}) {
    const std::vector<double> got =
        mapped({bases, exponents}, resolve_target(text), lanes,
               [](const std::vector<Expr>& x) { return binary(BinaryOp::kPow, x[0], x[1]); });
    for (size_t i = 0; i < got.size(); ++i) {
      const long double exact =
          std::pow(static_cast<long double>(bases[i]), static_cast<long double>(exponents[i]));
      const auto nearest = static_cast<double>(exact);
      const bool special = !std::isfinite(nearest) || nearest == 0;
      const bool right = std::isnan(nearest) ? std::isnan(got[i])
                         : special ? got[i] == nearest && std::signbit(got[i]) == std::signbit(nearest)
                                   : ulp_error(got[i], exact) <= 1;
      ASSERT_TRUE(right) << bases[i] << "^" << exponents[i] << " = " << got[i] << ", must be " << nearest
                         << " on " << text;
    }
  }
}

/// Exact, quotients from 0 to 2^2098 included, and those next to whole numbers.
TEST(DoubleMath, RemaindersAreThoseOfLibm) {
  const std::vector<double> numbers = special_numbers();
  std::vector<double> dividends, divisors;
  auto add = [&](double x, double y) { dividends.push_back(x), divisors.push_back(y); };
  for (double x : numbers)
    for (double y : numbers) add(x, y);
  std::mt19937_64 random(7);
  for (int i = 0; i < 50000; ++i) {
    add(std::bit_cast<double>(random()), std::bit_cast<double>(random()));
    const auto y = std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 200) - 100);
    const double multiple = y * static_cast<double>(random() >> (random() % 63));
    add(i % 3 == 0 ? multiple : std::nextafter(multiple, i % 3 == 1 ? 0.0 : HUGE_VAL), i % 2 ? y : -y);
  }
  dividends.resize(dividends.size() / 8 * 8), divisors.resize(dividends.size());
  for (const auto& [text, lanes] : {std::pair("cpu", 8), {"cpu:mcpu=nehalem", 2}}) {
    const std::vector<double> got =
        mapped({dividends, divisors}, resolve_target(text), lanes,
               [](const std::vector<Expr>& x) { return binary(BinaryOp::kMod, x[0], x[1]); });
    for (size_t i = 0; i < got.size(); ++i) {
      const double exact = std::fmod(dividends[i], divisors[i]);
      ASSERT_TRUE(std::isnan(exact) ? std::isnan(got[i])
                                    : std::bit_cast<uint64_t>(exact) == std::bit_cast<uint64_t>(got[i]))
          << dividends[i] << " mod " << divisors[i] << " = " << got[i] << ", must be " << exact << " on "
          << text;
    }
  }
}

/// A call for each lane takes as long as a vector does.
TEST(DoubleMath, CallsNoLibrary) {
  tir::Buffer x = tir::buffer("x", {8}, kFloat64), y = tir::buffer("y", {8}, kFloat64);
  const Expr at = ramp(Expr(0), Expr(1), 8), element = tir::load(x, {at});
  const std::vector<std::pair<const char*, Expr>> values{
      {"erf", intrinsic(Intrinsic::kErf, element)},      {"atan", intrinsic(Intrinsic::kAtan, element)},
      {"sinh", intrinsic(Intrinsic::kSinh, element)},    {"cosh", intrinsic(Intrinsic::kCosh, element)},
      {"asin", intrinsic(Intrinsic::kAsin, element)},    {"acos", intrinsic(Intrinsic::kAcos, element)},
      {"asinh", intrinsic(Intrinsic::kAsinh, element)},  {"acosh", intrinsic(Intrinsic::kAcosh, element)},
      {"atanh", intrinsic(Intrinsic::kAtanh, element)},  {"pow", binary(BinaryOp::kPow, element, element)},
      {"fmod", binary(BinaryOp::kMod, element, element)}};
  for (const auto& [name, value] : values) {
    const std::vector<tir::Buffer> buffers{x, y};
    const auto f = make<tir::FuncNode>(std::string("map"), buffers, int64_t{1}, tir::store(y, {at}, value));
    EXPECT_EQ(count(assembly_of(f, resolve_target("cpu:mcpu=haswell")), fmt::format("{}@", name)), 0) << name;
  }
}

}  // namespace
}  // namespace lathe::codegen
