// Vectors of indices that are quotients and remainders, as reshaped tensors leave them: their digits, and the
// loads at such places.
#include <gtest/gtest.h>

#include <functional>

#include "core/codegen/address.h"
#include "core/codegen/host_target.h"
#include "tests/codegen/run_kernel.h"

namespace lathe::codegen {
namespace {
constexpr int kLanes = 16;
constexpr int64_t kSteps = 40;

Expr all(int64_t c) { return broadcast(Expr(c), kLanes); }

/// What a kernel stores of value(i) at vector i of 40.
Tensor stored(std::vector<tir::Buffer> inputs, std::vector<Tensor> tensors, DataType dtype,
              const std::function<Expr(const Expr& i)>& value) {
  tir::Buffer y = tir::buffer("y", {kSteps * kLanes}, dtype);
  Var i = var("i");
  const auto count = static_cast<int64_t>(inputs.size());
  inputs.push_back(y);
  tensors.push_back(Tensor({kSteps * kLanes}, dtype));
  auto store = tir::store(y, {ramp(i * kLanes, Expr(1), kLanes)}, value(i));
  run_kernel(make<tir::FuncNode>("digits", inputs, count, tir::for_loop(i, kSteps, store)), host_target(),
             tensors);
  return tensors.back();
}

int64_t floor_of(int64_t a, int64_t c) { return a / c - (a % c < 0); }

TEST(Digits, OfEvenlySpacedLanesAreExact) {
  for (int64_t c : {3, 5, 9, 16, 17, 75, 302, 4099, 1999999, 2097169})
    for (int64_t stride : {1, 2, 7, 130000})
      for (int64_t shift : {0, -4, 1999995}) {
        auto line = [&](const Expr& i) { return ramp(i * 1237 + shift, Expr(stride), kLanes); };
        const Tensor quotients =
            stored({}, {}, kInt64, [&](const Expr& i) { return floordiv(line(i), all(c)); });
        const Tensor remainders =
            stored({}, {}, kInt64, [&](const Expr& i) { return floormod(line(i), all(c)); });
        for (int64_t k = 0; k < kSteps * kLanes; ++k) {
          const int64_t x = k / kLanes * 1237 + shift + k % kLanes * stride;
          ASSERT_EQ(quotients.as<int64_t>()[k], floor_of(x, c)) << x << " // " << c;
          ASSERT_EQ(remainders.as<int64_t>()[k], x - floor_of(x, c) * c) << x << " % " << c;
        }
      }
}

/// Rows of c of a line of numbers lie c + 3 apart in memory, and planes of 5 rows 2 rows further.
TEST(Digits, LoadsOverTheEndOfARow) {
  for (int64_t c : {7, 16, 17, 301}) {
    const int64_t rows = 7, planes = 2000 / (5 * c) + 1, width = c + 3;
    tir::Buffer x = tir::buffer("x", {planes, rows, width}, kFloat32);
    Tensor tensor({planes, rows, width}, kFloat32);
    for (int64_t k = 0; k < planes * rows * width; ++k) tensor.as<float>()[k] = static_cast<float>(k);
    const auto place = [&](const Expr& i) {
      const Expr line = ramp(i * 37, Expr(1), kLanes);
      return tir::load(x, {floordiv(line, all(5 * c)), floormod(floordiv(line, all(c)), all(5)),
                           floormod(line, all(c)) + all(3)});
    };
    const auto expected = [&](int64_t n) {
      return static_cast<float>((n / (5 * c) * rows + n / c % 5) * width + n % c + 3);
    };
    const Tensor loaded = stored({x}, {tensor}, kFloat32, place);
    // Lanes that are not wanted may lie anywhere: here beyond the end of the tensor.
    const Tensor masked = stored({x}, {tensor}, kFloat32, [&](const Expr& i) {
      return select(binary(BinaryOp::kLt, ramp(i * 37, Expr(1), kLanes), all(700)), place(i),
                    broadcast(Expr(-1.0), kLanes));
    });
    for (int64_t k = 0; k < kSteps * kLanes; ++k) {
      const int64_t n = k / kLanes * 37 + k % kLanes;
      ASSERT_EQ(loaded.as<float>()[k], expected(n)) << n << " in rows of " << c;
      ASSERT_EQ(masked.as<float>()[k], n < 700 ? expected(n) : -1) << n << " in rows of " << c;
    }
  }
}

/// Each from a place of its own: a pointer that is kept for one is not taken for another's.
TEST(Digits, SeveralLoadsOverTheEndsOfRows) {
  constexpr int64_t kWidth = 20, kLoads = 12;
  tir::Buffer x = tir::buffer("x", {kLoads, kWidth}, kFloat32);
  Tensor tensor({kLoads, kWidth}, kFloat32);
  for (int64_t k = 0; k < tensor.size(); ++k) tensor.as<float>()[k] = static_cast<float>(k);
  const Tensor sums = stored({x}, {tensor}, kFloat32, [&](const Expr& i) {
    Expr sum;
    for (int64_t row = 0; row < kLoads; ++row) {
      const Expr line = ramp(i * (row + 2) + row, Expr(1), kLanes);
      const Expr part = tir::load(x, {Expr(row), floormod(line, all(kWidth))});
      sum = sum ? sum + part : part;
    }
    return sum;
  });
  for (int64_t k = 0; k < kSteps * kLanes; ++k) {
    float expected = 0;
    for (int64_t row = 0; row < kLoads; ++row)
      expected += static_cast<float>(row * kWidth + (k / kLanes * (row + 2) + row + k % kLanes) % kWidth);
    ASSERT_EQ(sums.as<float>()[k], expected) << k;
  }
}

TEST(BrokenLine, IsOneJump) {
  const Expr line = ramp(Expr(var("i")) * 5, Expr(1), kLanes);
  const auto access = [&](int64_t plane, int64_t row, int64_t width) {
    std::vector<Expr> indices{floordiv(line, all(plane)), floormod(floordiv(line, all(row)), all(4)),
                              floormod(line, all(row))};
    return flatten(tir::buffer("x", {99, 6, width}, kFloat32), indices);
  };
  EXPECT_TRUE(broken_line(access(80, 20, 24)));
  EXPECT_TRUE(broken_line(access(80, 20, 24))->first.is_dense());
  EXPECT_FALSE(broken_line(access(48, 12, 24)));  // two jumps in 16 lanes
  EXPECT_FALSE(broken_line(access(90, 20, 24)));  // a plane ends within a row
}

}  // namespace
}  // namespace lathe::codegen
