// Elementary functions against libm in float64, in units in the last place of float32.
#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <random>

#include "core/codegen/host_target.h"
#include "tests/codegen/run_kernel.h"

namespace lathe::codegen {
namespace {
struct FunctionCase {
  Intrinsic function;
  double (*exact)(double);
  float low, high;
  double ulps;
  double floor = 0;  // results nearer to zero than this are judged by absolute error
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
constexpr FunctionCase kFunctions[] = {
    {Intrinsic::kExp, std::exp, -87.336f, 88.7f, 1.5},
    {Intrinsic::kExp, std::exp, -0.01f, 0.01f, 1.0},
    {Intrinsic::kLog, std::log, 1e-38f, 1e38f, 1.5},
    {Intrinsic::kLog, std::log, 0.7f, 1.4f, 1.5},
    {Intrinsic::kLog, std::log, 1e-45f, 1e-39f, 1.5},
    {Intrinsic::kTanh, std::tanh, -12, 12, 6},
    {Intrinsic::kTanh, std::tanh, -0.7f, 0.7f, 6},
    {Intrinsic::kSigmoid, sigmoid, -30, 30, 3},
    {Intrinsic::kErf, std::erf, -5, 5, 6},
    {Intrinsic::kErf, std::erf, -1, 1, 6},
    {Intrinsic::kSin, std::sin, -8192, 8192, 2, 1e-3},
    {Intrinsic::kCos, std::cos, -8192, 8192, 2, 1e-3},
    {Intrinsic::kSin, std::sin, -3.2f, 3.2f, 2},
    {Intrinsic::kSin, std::sin, -3e8f, 3e8f, 2},
    {Intrinsic::kCos, std::cos, 0, 1e30f, 2},
    {Intrinsic::kTan, std::tan, -1e6f, 1e6f, 4},
    {Intrinsic::kTan, std::tan, -1.5f, 1.5f, 4},
    {Intrinsic::kTan, std::tan, -100, 100, 5},
    {Intrinsic::kAsin, std::asin, -1, 1, 3},
    {Intrinsic::kAcos, std::acos, -1, 1, 3},
    {Intrinsic::kAtan, std::atan, -5, 5, 3},
    {Intrinsic::kAtan, std::atan, -1e6f, 1e6f, 3},
    {Intrinsic::kSinh, std::sinh, -89.4f, 89.4f, 4},
    {Intrinsic::kSinh, std::sinh, -1.5f, 1.5f, 4},
    {Intrinsic::kCosh, std::cosh, -89.4f, 89.4f, 3},
    {Intrinsic::kAsinh, std::asinh, -3000, 3000, 4},
    {Intrinsic::kAsinh, std::asinh, -1, 1, 4},
    {Intrinsic::kAcosh, std::acosh, 1, 2.2f, 3},
    {Intrinsic::kAcosh, std::acosh, 2, 1e38f, 3},
    {Intrinsic::kAtanh, std::atanh, -0.9999999f, 0.9999999f, 3},
};

double ulp_error(float got, double exact, double floor) {
  float nearest = static_cast<float>(exact);
  float scale = std::max(std::abs(nearest), static_cast<float>(floor));
  double ulp = static_cast<double>(std::nextafter(scale, std::numeric_limits<float>::infinity())) - scale;
  return std::abs(got - exact) / ulp;
}

tir::Func map_func(Intrinsic f, int64_t n, int lanes) {
  tir::Buffer x = tir::buffer("x", {n}, kFloat32), y = tir::buffer("y", {n}, kFloat32);
  Var i = var("i");
  Expr at = lanes == 1 ? Expr(i) : ramp(i * lanes, Expr(1), lanes);
  return make<tir::FuncNode>(
      "map", std::vector{x, y}, int64_t{1},
      tir::for_loop(i, n / lanes, tir::store(y, {at}, intrinsic(f, tir::load(x, {at})))));
}

void expect_accurate(const char* target_text, const FunctionCase& c, int lanes) {
  constexpr int64_t kPoints = 1 << 16;
  Tensor x({kPoints}, kFloat32), y({kPoints}, kFloat32);
  for (int64_t i = 0; i < kPoints; ++i)
    x.as<float>()[i] = static_cast<float>(c.low + (static_cast<double>(c.high) - c.low) * i / (kPoints - 1));
  std::vector<Tensor> params{x, y};
  run_kernel(map_func(c.function, kPoints, lanes), resolve_target(target_text), params);
  double worst = 0, at = 0;
  for (int64_t i = 0; i < kPoints; ++i) {
    double error = ulp_error(y.as<float>()[i], c.exact(x.as<float>()[i]), c.floor);
    if (!(error <= worst)) worst = error, at = x.as<float>()[i];
  }
  EXPECT_LE(worst, c.ulps) << spelling(c.function) << "(" << at << ") on " << target_text;
}

TEST(VectorMath, IsAccurate) {
  for (const FunctionCase& c : kFunctions) {
    expect_accurate("cpu", c, 16);
    expect_accurate("cpu:mcpu=nehalem", c, 4);  // no fused multiply-add
  }
  expect_accurate("cpu", kFunctions[0], 1);
}

TEST(VectorMath, KeepsSpecialValues) {
  constexpr float kInf = std::numeric_limits<float>::infinity(),
                  kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> inputs{0.0f,  -0.0f, kInf,  -kInf,   kNan, 1e30f, -1e30f, 1e-42f,
                                  -1.0f, 1.0f,  89.0f, -105.0f, 0.5f, -0.5f, 3.0f,   -3.0f};
  for (const FunctionCase& c : kFunctions) {
    std::vector<Tensor> params{tensor_of(inputs, {16}, kFloat32), Tensor({16}, kFloat32)};
    run_kernel(map_func(c.function, 16, 16), host_target(), params);
    for (size_t i = 0; i < inputs.size(); ++i) {
      auto exact = static_cast<float>(c.exact(inputs[i]));
      float got = params[1].as<float>()[i];
      if (std::isnan(exact) || std::isinf(exact) || exact == 0)
        EXPECT_TRUE(std::isnan(exact) ? std::isnan(got) : got == exact)
            << spelling(c.function) << "(" << inputs[i] << ") = " << got << ", must be " << exact;
      else
        EXPECT_NEAR(got, exact, std::abs(exact) * 1e-6) << spelling(c.function) << "(" << inputs[i] << ")";
    }
  }
}

/// Without a division, and rounded as by one: the last bits of random numbers, and what has none to round.
TEST(VectorMath, QuotientsByConstantsAreRounded) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr int64_t kPoints = 1 << 14;
  Tensor x({kPoints}, kFloat32), y({kPoints}, kFloat32);
  std::mt19937 random(5);
  std::uniform_int_distribution<uint32_t> bits(0x20000000, 0x5fffffff);
  for (int64_t i = 0; i < kPoints; ++i) x.as<float>()[i] = std::bit_cast<float>(bits(random));
  const std::vector<float> special{0.0f, -0.0f, kInf, -kInf, std::nanf(""), 3e38f, -3e38f, 1e-20f};
  std::copy(special.begin(), special.end(), x.as<float>());
  for (float c : {3.0f, 1.41421356f, -0.1f, 1.7320508f, 1.9999999f, 255.0f, 1e-20f, 4.0f, 1e38f}) {
    tir::Buffer from = tir::buffer("x", {kPoints}, kFloat32), to = tir::buffer("y", {kPoints}, kFloat32);
    Var i = var("i");
    const Expr at = ramp(i * 16, Expr(1), 16);
    const Expr quotient = binary(BinaryOp::kDiv, tir::load(from, {at}), broadcast(Expr(double{c}), 16));
    std::vector<Tensor> params{x, y};
    run_kernel(make<tir::FuncNode>("divide", std::vector{from, to}, int64_t{1},
                                   tir::for_loop(i, kPoints / 16, tir::store(to, {at}, quotient))),
               host_target(), params);
    for (int64_t k = 0; k < kPoints; ++k) {
      const float exact = x.as<float>()[k] / c, got = y.as<float>()[k];
      if (std::isnan(exact))
        EXPECT_TRUE(std::isnan(got)) << x.as<float>()[k] << " / " << c;
      else
        ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(exact))
            << x.as<float>()[k] << " / " << c << " is " << exact << ", not " << got;
    }
  }
}

/// A softmax makes zeros of what a mask leaves out; subnormal numbers take a hundred cycles, there and where
/// they are multiplied afterwards.
TEST(VectorMath, WhatIsLeftOutByAMaskIsZero) {
  const std::vector<float> inputs{
      -1e9f, -1e30f, -std::numeric_limits<float>::infinity(), -1e4f, -104, -103,
      -200,  -100,   std::numeric_limits<float>::lowest(),    -95,   -90,  -87.34f};
  for (const Target& target : {resolve_target("cpu"), resolve_target("cpu:mcpu=nehalem")}) {
    std::vector<Tensor> params{tensor_of(inputs, {12}, kFloat32), Tensor({12}, kFloat32)};
    std::feclearexcept(FE_UNDERFLOW);
    run_kernel(map_func(Intrinsic::kExp, 12, 4), target, params);
    EXPECT_EQ(std::fetestexcept(FE_UNDERFLOW), 0) << target.cpu;
    for (size_t i = 0; i < inputs.size(); ++i) EXPECT_EQ(params[1].as<float>()[i], 0) << inputs[i];
  }
}

TEST(VectorMath, ConstantPowersAreThoseOfLibm) {
  constexpr float kInf = std::numeric_limits<float>::infinity(),
                  kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> inputs{0.0f, -0.0f, kInf,  -kInf, kNan, 1.5f,  -1.5f, 1e-42f,
                                  7.0f, 1.0f,  89.0f, -0.1f, 0.5f, -0.5f, 3.0f,  -3.0f};
  for (double exponent : {1.0, 2.0, 3.0, 4.0, 7.0, 0.5, -0.5, -1.0, -2.0, -3.0, 0.0, 1.7, 33.0}) {
    tir::Buffer x = tir::buffer("x", {16}, kFloat32), y = tir::buffer("y", {16}, kFloat32);
    Var i = var("i");
    Expr at = ramp(i * 16, Expr(1), 16);
    Expr power = binary(BinaryOp::kPow, tir::load(x, {at}), broadcast(fimm(kFloat32, exponent), 16));
    std::vector<Tensor> params{tensor_of(inputs, {16}, kFloat32), Tensor({16}, kFloat32)};
    run_kernel(make<tir::FuncNode>("map", std::vector{x, y}, int64_t{1},
                                   tir::for_loop(i, 1, tir::store(y, {at}, power))),
               host_target(), params);
    for (size_t k = 0; k < inputs.size(); ++k) {
      float exact = std::pow(inputs[k], static_cast<float>(exponent)), got = params[1].as<float>()[k];
      if (std::isnan(exact) || std::isinf(exact) || exact == 0)
        EXPECT_TRUE(std::isnan(exact) ? std::isnan(got) : got == exact)
            << inputs[k] << "^" << exponent << " = " << got << ", must be " << exact;
      else
        EXPECT_NEAR(got, exact, std::abs(exact) * 1e-6) << inputs[k] << "^" << exponent;
    }
  }
}
/// Any numbers with any numbers, those with properties of their own first.
std::vector<std::pair<float, float>> pairs_of_numbers() {
  constexpr float kInf = std::numeric_limits<float>::infinity(),
                  kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> numbers{0.0f,   -0.0f,  kInf,    -kInf,       kNan,      1.0f,   -1.0f,   2.0f,
                                   -2.0f,  3.0f,   -3.0f,   0.5f,        -0.5f,     1e-42f, -1e-42f, 1e38f,
                                   3e-39f, 127.5f, -149.0f, 16777217.0f, 0.999999f, 7.7f};
  std::vector<std::pair<float, float>> pairs;
  for (float x : numbers)
    for (float y : numbers) pairs.emplace_back(x, y);
  for (int i = 0; i < 20000; ++i)
    pairs.emplace_back(std::exp2(static_cast<float>(i % 173) - 86) * (1 + static_cast<float>(i) / 20000),
                       (static_cast<float>(i * 7919 % 20001) - 10000) / 7000);
  return pairs;
}

/// What sixteen lanes of `op` give for each pair (the last few of them left out).
std::vector<float> of_pairs(BinaryOp op, const std::vector<std::pair<float, float>>& pairs,
                            const char* target) {
  const auto n = static_cast<int64_t>(pairs.size() / 16 * 16);
  std::vector<float> a, b;
  for (auto [x, y] : pairs) a.push_back(x), b.push_back(y);
  a.resize(static_cast<size_t>(n)), b.resize(a.size());
  tir::Buffer x = tir::buffer("x", {n}, kFloat32), y = tir::buffer("y", {n}, kFloat32),
              z = tir::buffer("z", {n}, kFloat32);
  Var i = var("i");
  Expr at = ramp(i * 16, Expr(1), 16);
  std::vector<Tensor> params{tensor_of(a, {n}, kFloat32), tensor_of(b, {n}, kFloat32), Tensor({n}, kFloat32)};
  run_kernel(
      make<tir::FuncNode>(
          "map", std::vector{x, y, z}, int64_t{1},
          tir::for_loop(i, n / 16, tir::store(z, {at}, binary(op, tir::load(x, {at}), tir::load(y, {at}))))),
      resolve_target(target), params);
  return {params[2].as<float>(), params[2].as<float>() + n};
}

TEST(VectorMath, PowersAreThoseOfLibm) {
  const auto pairs = pairs_of_numbers();
  for (const char* target : {"cpu", "cpu:mcpu=nehalem"}) {
    const std::vector<float> results = of_pairs(BinaryOp::kPow, pairs, target);
    for (size_t k = 0; k < results.size(); ++k) {
      const float x = pairs[k].first, y = pairs[k].second, got = results[k];
      double exact = std::pow(static_cast<double>(x), static_cast<double>(y));
      auto nearest = static_cast<float>(exact);
      bool special = std::isnan(nearest) || std::isinf(nearest) || nearest == 0;
      bool right = std::isnan(nearest) ? std::isnan(got)
                   : special           ? got == nearest
                                       : ulp_error(std::abs(got), std::abs(exact), 0) <= 1;
      EXPECT_TRUE(right) << x << "^" << y << " = " << got << ", must be " << nearest << " on " << target;
      if (!std::isnan(nearest)) {
        EXPECT_EQ(std::signbit(got), std::signbit(nearest)) << x << "^" << y;
      }
    }
  }
}

float with_sign_of_divisor(float rest, float y) {
  return rest == 0 ? std::copysign(rest, y) : (rest < 0) != (y < 0) ? rest + y : rest;
}

/// Exact, quotients from 0 to 2^277 included, and those next to whole numbers.
TEST(VectorMath, RemaindersAreThoseOfLibm) {
  auto pairs = pairs_of_numbers();
  std::mt19937 random(7);
  for (int i = 0; i < 200000; ++i) {
    const auto x = std::bit_cast<float>(static_cast<uint32_t>(random())),
               y = std::bit_cast<float>(static_cast<uint32_t>(random()));
    pairs.emplace_back(x, y);
    const float multiple = y * static_cast<float>(random() >> (random() % 31));
    pairs.emplace_back(i % 3 == 0 ? multiple : std::nextafter(multiple, i % 3 == 1 ? 0.0f : y * HUGE_VALF),
                       y);
  }
  for (const char* target : {"cpu", "cpu:mcpu=nehalem"}) {
    for (BinaryOp op : {BinaryOp::kMod, BinaryOp::kFloorMod}) {
      const std::vector<float> results = of_pairs(op, pairs, target);
      for (size_t k = 0; k < results.size(); ++k) {
        const auto [x, y] = pairs[k];
        float exact = std::fmod(x, y);
        if (op == BinaryOp::kFloorMod) exact = with_sign_of_divisor(exact, y);
        ASSERT_TRUE(std::isnan(exact) ? std::isnan(results[k])
                                      : std::bit_cast<uint32_t>(exact) == std::bit_cast<uint32_t>(results[k]))
            << x << " " << spelling(op) << " " << y << " = " << results[k] << ", must be " << exact << " on "
            << target;
      }
    }
  }
}
}  // namespace
}  // namespace lathe::codegen
