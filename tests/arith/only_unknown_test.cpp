#include "core/arith/only_unknown.h"

#include <gtest/gtest.h>

#include "core/arith/simplify.h"

namespace lathe {
namespace {

TEST(OnlyUnknown, IsTheOneVariableThatHasNoValue) {
  const Var k = var("k"), n = var("n");
  const auto knows_n = [&](const VarNode* variable) { return variable == n.get(); };
  const auto found = only_unknown(Expr(k) * 2 + n * 3 - Expr(k) * 5, knows_n);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->variable, k.get());
  EXPECT_EQ(found->coefficient, -3);
  EXPECT_TRUE(prove_equal(found->rest, Expr(n) * 3));
  const auto knows_none = [](const VarNode*) { return false; };
  EXPECT_FALSE(only_unknown(Expr(k) + n, knows_none)) << "two";
  EXPECT_FALSE(only_unknown(Expr(n) + 1, knows_n)) << "none";
  EXPECT_FALSE(only_unknown(Expr(k) * n, knows_n)) << "a coefficient that is no number";
  EXPECT_FALSE(only_unknown(floordiv(Expr(k), Expr(2)), knows_n)) << "several values of k give one";
  EXPECT_FALSE(only_unknown(Expr(k) - k + n, knows_n)) << "it has no say";
}

TEST(OnlyUnknown, IsToldRoundedDownAndNeverNegative) {
  const OnlyUnknown twice{nullptr, 2, Expr(0)}, less{nullptr, -1, Expr(0)};
  EXPECT_EQ(twice.told_by(7, 1), 3);
  EXPECT_EQ(twice.told_by(8, 1), 3);
  EXPECT_EQ(twice.told_by(0, 1), 0);
  EXPECT_EQ(less.told_by(3, 10), 7);
  EXPECT_EQ(less.told_by(11, 10), 0);
  EXPECT_EQ(less.told_by(INT64_MIN, 0), 0);
  EXPECT_EQ(twice.told_by(INT64_MAX, -1), 0) << "beyond any number";
}

}  // namespace
}  // namespace lathe
