#include "core/arith/one_to_one.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace lathe {
namespace {

struct OneToOne : testing::Test {
  Var i = var("i"), j = var("j"), k = var("k"), n = var("n");

  /// Of loops over i, j, k.
  bool holds(const std::vector<Expr>& values, int64_t of_i, int64_t of_j = 1, int64_t of_k = 1) {
    Analyzer context;
    context.bind_range(i, of_i);
    context.bind_range(j, of_j);
    context.bind_range(k, of_k);
    context.bind(n, {0, 1000});
    const Var vars[] = {i, j, k};
    return one_to_one(values, vars, context);
  }
};

TEST_F(OneToOne, DigitsOfANumber) {
  EXPECT_TRUE(holds({Expr(i) * 8 + j}, 4, 8));
  EXPECT_TRUE(holds({Expr(i) * -8 + j + n}, 4, 8));
  EXPECT_FALSE(holds({Expr(i) * 8 + j}, 4, 9));
  EXPECT_FALSE(holds({Expr(i) + j}, 3, 3));
  EXPECT_FALSE(holds({Expr(i) * 2 + Expr(j) * 2}, 3, 3));
  EXPECT_FALSE(holds({i}, 4, 2)) << "j repeats it";
  EXPECT_FALSE(holds({floordiv(Expr(i), 2) * 3}, 4));
  EXPECT_FALSE(holds({Expr(0)}, 2));
  EXPECT_TRUE(holds({Expr(0)}, 1));
}

TEST_F(OneToOne, SeveralValues) {
  EXPECT_TRUE(holds({i, j}, 4, 8));
  EXPECT_TRUE(holds({Expr(i) + j, i}, 3, 3)) << "the second says what the first lacks";
  EXPECT_FALSE(holds({Expr(i) + j, Expr(i) + j}, 3, 3));
  EXPECT_TRUE(holds({i, Expr(i) * n + j}, 4, 8));
}

TEST_F(OneToOne, DivisionsOfFusedLoops) {
  EXPECT_TRUE(holds({floordiv(Expr(i), 24), floormod(Expr(i), 24)}, 72));
  EXPECT_TRUE(holds({floordiv(Expr(i), 24), floormod(floordiv(Expr(i), 6), 4), floormod(Expr(i), 6)}, 72));
  Expr fused = Expr(i) * 16 + j;
  EXPECT_TRUE(holds({floordiv(fused, 24), floormod(fused, 24)}, 6, 16));
  EXPECT_TRUE(holds({floordiv(fused, 7), floormod(fused, 7)}, 6, 16));
  EXPECT_FALSE(holds({floordiv(fused, 24), floormod(fused, 12)}, 6, 16));
  EXPECT_FALSE(holds({floordiv(Expr(i), 24)}, 72));
  EXPECT_FALSE(holds({floormod(Expr(i), 24)}, 72));
}

/// Sums of random terms: what is said to be one to one is, by trying all points.
TEST_F(OneToOne, IsNeverSaidOfWhatRepeats) {
  std::mt19937 random(7);
  auto below = [&](int limit) { return static_cast<int64_t>(random() % static_cast<uint32_t>(limit)); };
  int said = 0;
  for (int round = 0; round < 3000; ++round) {
    const int64_t extents[] = {1 + below(7), 1 + below(5), 1 + below(4)};
    auto sum = [&] {
      return Expr(i) * (below(13) - 2) + Expr(j) * (below(9) - 2) + Expr(k) * (below(5) - 1);
    };
    std::vector<Expr> values;
    for (int64_t count = 1 + below(2); count > 0; --count) {
      Expr value = sum();
      int64_t divisor = 1 + below(9);
      if (below(2)) {
        values.push_back(floordiv(value, divisor));
        value = floormod(value, divisor);
      }
      values.push_back(value);
    }
    if (!holds(values, extents[0], extents[1], extents[2])) continue;
    ++said;
    std::set<std::vector<int64_t>> seen;
    for (int64_t a = 0; a < extents[0]; ++a)
      for (int64_t b = 0; b < extents[1]; ++b)
        for (int64_t c = 0; c < extents[2]; ++c) {
          std::vector<int64_t> at;
          for (const Expr& value : values)
            at.push_back(int_value(simplify(substitute(value, {{i.get(), a}, {j.get(), b}, {k.get(), c}}))));
          ASSERT_TRUE(seen.insert(at).second) << "round " << round;
        }
  }
  EXPECT_GT(said, 300);
}

TEST_F(OneToOne, SumsThatNeverMeet) {
  Analyzer context;
  context.bind_range(i, 4);
  context.bind_range(j, 8);
  context.bind_range(k, 4);
  EXPECT_TRUE(never_equal(i, Expr(k) + 4, context)) << "by their bounds";
  EXPECT_FALSE(never_equal(i, Expr(k) + 3, context));
  EXPECT_TRUE(never_equal(Expr(i) * 14 + 3, Expr(k) * 14 + 5, context)) << "by their remainders";
  EXPECT_FALSE(never_equal(Expr(i) * 14 + 3, Expr(k) * 14 + 17, context));
  EXPECT_TRUE(never_equal(Expr(i) * 24 + j, Expr(k) * 24 + Expr(j) + 8, context));
  EXPECT_TRUE(never_equal(Expr(i) * 24 + j, Expr(n) * 24 + 16, context)) << "by both";
  EXPECT_FALSE(never_equal(Expr(i) * 24 + j, Expr(n) * 24 + 7, context));
  EXPECT_FALSE(never_equal(Expr(i) * 24 - j, Expr(n) * 24 - 7, context));
  EXPECT_TRUE(never_equal(Expr(i) * 24 - j, Expr(n) * 24 - 8, context));
}

}  // namespace
}  // namespace lathe
