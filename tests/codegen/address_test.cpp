#include "core/codegen/address.h"

#include <gtest/gtest.h>

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

TEST(Flatten, ScalarsToo) {
  Expr at = Expr(var("i")) * 5;
  std::vector<Expr> indices{floordiv(at, 7), floormod(at, 7)};
  FlatAccess access = flatten(tir::buffer("x", {8, 7}, kFloat32), indices);
  ASSERT_EQ(access.terms.size(), 1u);
  EXPECT_EQ(access.terms[0].second, 5);
}

}  // namespace
}  // namespace lathe::codegen
