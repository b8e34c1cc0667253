#include "core/codegen/address.h"

#include <gtest/gtest.h>

#include "core/arith/simplify.h"

namespace lathe::codegen {
namespace {

constexpr int kLanes = 16;

/// The access of a vector of neighbours, by quotients and remainders, into rows of `row` elements.
FlatAccess by_quotient(const Expr& first, int64_t divisor, int64_t row) {
  Expr lanes = ramp(first, Expr(1), kLanes), by = broadcast(Expr(divisor), kLanes);
  std::vector<Expr> indices{floordiv(lanes, by), floormod(lanes, by)};
  return flatten(tir::buffer("x", {8, row}, kFloat32), indices);
}

TEST(Flatten, RowsThatFollowEachOtherAreOneLine) {
  Var step = var("step");
  FlatAccess line = by_quotient(step * 64 + 3, 37, 37);
  EXPECT_TRUE(line.is_dense());
  EXPECT_EQ(line.constant, 3);
  EXPECT_EQ(line.lanes, kLanes);
  ASSERT_EQ(line.terms.size(), 1u);
  EXPECT_EQ(line.terms[0].first, Expr(step));
  EXPECT_EQ(line.terms[0].second, 64);
}

TEST(Flatten, RowsWithGapsAreGathered) {
  FlatAccess apart = by_quotient(Expr(var("step")), 37, 40);
  EXPECT_FALSE(apart.is_dense());
  EXPECT_EQ(apart.vector_terms.size(), 2u);
}

// (t % 27) * 16 of a fused loop over 27 * 16 = 18 * 24 elements: its remainder by 24 is that of t * 16.
TEST(Flatten, RemaindersByAnotherExpressionAreJoined) {
  Var t = var("t");
  const Expr place = floormod(t, 27) * 16, by = broadcast(Expr(24), kLanes);
  const auto lanes = [](const Expr& first) { return ramp(first, Expr(1), kLanes); };
  const auto access = [&](const Expr& row, const Expr& column) {
    std::vector<Expr> indices{floordiv(lanes(row), by), floormod(lanes(column), by)};
    return flatten(tir::buffer("x", {18, 24}, kFloat32), indices);
  };
  FlatAccess line = access(place, t * 16);
  EXPECT_TRUE(line.is_dense());
  ASSERT_EQ(line.terms.size(), 1u);
  EXPECT_TRUE(structural_equal(line.terms[0].first, floormod(t, 27)));
  EXPECT_EQ(line.terms[0].second, 16);
  // 26 * 16 is no multiple of 24, and t * 8 another number.
  EXPECT_FALSE(access(floormod(t, 26) * 16, t * 16).is_dense());
  EXPECT_FALSE(access(place, t * 8).is_dense());
}

TEST(Flatten, DigitsOfThreeDimensionsAreOneLine) {
  const Expr lanes = ramp(Expr(var("row")) * 5, Expr(1), kLanes);
  const auto by = [](int64_t c) { return broadcast(Expr(c), kLanes); };
  const auto access = [&](int64_t middle) {
    std::vector<Expr> indices{floordiv(lanes, by(45 * 48)), floormod(floordiv(lanes, by(45)), by(middle)),
                              floormod(lanes, by(45))};
    return flatten(tir::buffer("x", {48, middle, 45}, kFloat32), indices);
  };
  FlatAccess line = access(48);
  EXPECT_TRUE(line.is_dense());
  ASSERT_EQ(line.terms.size(), 1u);
  EXPECT_EQ(line.terms[0].second, 5);
  EXPECT_FALSE(access(47).is_dense());
}

// A place below 0 in some lanes, as the second of two joined tensors has: (x - 4) // 81 % 32 is simplified to
// ((x + 77) // 81 + 31) % 32.
TEST(Flatten, ShiftedDigitsAreOneLine) {
  const Expr row = var("row"), lane = var("lane");
  const Expr place = row * 9 + lane - 4;
  std::vector<Expr> indices;
  for (const Expr& e : {floordiv(place, 32 * 81), floormod(floordiv(place, 81), 32), floormod(place, 81)})
    indices.push_back(simplify(e));
  const FlatAccess scalars = flatten(tir::buffer("x", {32, 32, 81}, kFloat32), indices);
  EXPECT_EQ(scalars.constant, -4);
  ASSERT_EQ(scalars.terms.size(), 2u);
  const auto by = [](int64_t c) { return broadcast(Expr(c), kLanes); };
  const auto from = [&](int64_t shift) { return ramp(row * 9 + shift, Expr(1), kLanes); };
  const auto access = [&](int64_t digit_shift) {
    indices = {floordiv(from(2588), by(2592)) - by(1),
               floormod(floordiv(from(77), by(81)) + by(digit_shift), by(32)), floormod(from(77), by(81))};
    return flatten(tir::buffer("x", {32, 32, 81}, kFloat32), indices);
  };
  EXPECT_TRUE(access(31).is_dense());
  EXPECT_EQ(access(31).constant, -4);
  EXPECT_FALSE(access(30).is_dense());
}

// Vectors of 16 over rows of 7: 16*i is 2*i in 7s, which the simplifier takes out of quotients.
TEST(Flatten, DigitsOfVectorsThatFitNoRowAreOneLine) {
  const Expr i = var("i"), lane = var("lane"), place = i * 16 + lane;
  std::vector<Expr> scalars{simplify(floordiv(place, 49)), simplify(floormod(floordiv(place, 7), 7)),
                            simplify(floormod(place, 7))};
  EXPECT_EQ(flatten(tir::buffer("x", {256, 7, 7}, kFloat32), scalars).terms.size(), 2u);
  const auto by = [](int64_t c) { return broadcast(Expr(c), kLanes); };
  const auto access = [&](int64_t shift) {
    const Expr rest = ramp(i * 2, Expr(1), kLanes);
    std::vector<Expr> indices{floordiv(ramp(i * 16, Expr(1), kLanes), by(49)),
                              floormod(broadcast(i * shift, kLanes) + floordiv(rest, by(7)), by(7)),
                              floormod(rest, by(7))};
    return flatten(tir::buffer("x", {256, 7, 7}, kFloat32), indices);
  };
  EXPECT_TRUE(access(2).is_dense());
  EXPECT_FALSE(access(3).is_dense());
}

// A vector of 8 that stays within the first digit, which is the same for all lanes.
TEST(Flatten, DigitsOfAVectorWithinTheFirstAreOneLine) {
  const Expr step = var("step"), lanes = ramp(step * 8, Expr(1), 8);
  const auto by = [](int64_t c) { return broadcast(Expr(c), 8); };
  std::vector<Expr> indices{floordiv(step, 216), floormod(floordiv(lanes, by(27)), by(64)),
                            floormod(lanes, by(27))};
  EXPECT_TRUE(flatten(tir::buffer("x", {64, 64, 27}, kFloat32), indices).is_dense());
  // Vectors that begin anywhere may cross an end.
  const Expr others = ramp(step * 5, Expr(1), 8);
  indices = {floordiv(step, 216), floormod(floordiv(others, by(27)), by(64)), floormod(others, by(27))};
  EXPECT_FALSE(flatten(tir::buffer("x", {64, 64, 27}, kFloat32), indices).is_dense());
}

TEST(Flatten, ScalarsToo) {
  Expr at = Expr(var("i")) * 5;
  std::vector<Expr> indices{floordiv(at, 7), floormod(at, 7)};
  FlatAccess access = flatten(tir::buffer("x", {8, 7}, kFloat32), indices);
  ASSERT_EQ(access.terms.size(), 1u);
  EXPECT_EQ(access.terms[0].second, 5);
}

}  // namespace
}  // namespace lathe::codegen
