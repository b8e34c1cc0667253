#include "core/arith/simplify.h"

#include <gtest/gtest.h>

#include <random>

#include "core/arith/poly.h"
#include "core/arith/rules.h"
#include "core/support/error.h"
#include "tests/arith/evaluate.h"
#include "tests/arith/random_expr.h"

namespace lathe {
namespace {

/// Text for test failures and exact expectations; every operation in parentheses.
std::string text(const Expr& e) {
  if (const int64_t* value = as_int(e)) return std::to_string(*value);
  if (const VarNode* v = e.as<VarNode>()) return v->name;
  if (const Not* n = e.as<Not>()) return "!" + text(n->a);
  if (const Select* s = e.as<Select>())
    return fmt::format("({} ? {} : {})", text(s->condition), text(s->if_true), text(s->if_false));
  if (const Binary* b = e.as<Binary>()) {
    if (b->op == BinaryOp::kMin || b->op == BinaryOp::kMax)
      return fmt::format("{}({}, {})", spelling(b->op), text(b->a), text(b->b));
    return fmt::format("({} {} {})", text(b->a), spelling(b->op), text(b->b));
  }
  return "<" + std::string(e->type().name) + ">";
}

struct SimplifyTest : testing::Test {
  Var i = var("i"), j = var("j"), k = var("k"), n = var("n"), m = var("m"), x = var("x"), y = var("y");
  Analyzer analyzer;
  void SetUp() override {
    analyzer.bind_range(i, 32);
    analyzer.bind_range(j, 8);
    analyzer.bind_range(k, 64);
    analyzer.bind(n, {1, INT64_MAX});
    analyzer.bind(m, {1, INT64_MAX});
  }
  std::string simplified(const Expr& e) {
    Expr result = analyzer.simplify(e);
    EXPECT_EQ(analyzer.simplify(result), result) << "not idempotent: " << text(e) << " -> " << text(result);
    return text(result);
  }
};

TEST_F(SimplifyTest, SumsHaveOneForm) {
  EXPECT_EQ(simplified(Expr(i) + j - i), "j");
  EXPECT_EQ(simplified((Expr(i) + 1) * 4 + Expr(j) * 16 - 3), "(((j * 16) + (i * 4)) + 1)");
  EXPECT_EQ(simplified(Expr(3) - i), "(3 - i)");
  EXPECT_EQ(simplified((Expr(n) + 1) * (Expr(n) - 1)), "((n * n) - 1)");
  Expr canonical = Expr(j) * 16 + i;
  EXPECT_EQ(analyzer.simplify(canonical), canonical);  // the same node
}

TEST_F(SimplifyTest, LoopsSplitAndFused) {
  EXPECT_EQ(simplified(floordiv(Expr(i) * 8 + j, 8)), "i");
  EXPECT_EQ(simplified(floormod(Expr(i) * 8 + j, 8)), "j");
  EXPECT_EQ(simplified(floordiv(Expr(i) * 8 + j, 16)), "(i // 2)");
  EXPECT_EQ(simplified(floormod(Expr(i) * 8 + j, 16)), "(((i %% 2) * 8) + j)");
  EXPECT_EQ(simplified(floordiv(Expr(x), 8) * 8 + floormod(Expr(x), 8)), "x");
  EXPECT_EQ(simplified(floordiv(Expr(x) + 3, 8) * 16 + floormod(Expr(x) + 3, 8) * 2), "((x * 2) + 6)");
  EXPECT_EQ(simplified(floordiv(floordiv(Expr(x), 4), 8)), "(x // 32)");
  EXPECT_EQ(simplified(floordiv(floormod(Expr(x), 32), 8)), "((x // 8) %% 4)");
  EXPECT_EQ(simplified(floormod(floordiv(Expr(x), 8), 4) * 8 + floormod(Expr(x), 8)), "(x %% 32)");
  EXPECT_EQ(simplified(floormod(floormod(Expr(x), 32), 8)), "(x %% 8)");
  EXPECT_EQ(simplified(Expr(x) - floordiv(Expr(x), 8) * 8), "(x %% 8)");
  EXPECT_EQ(simplified(floordiv(Expr(x) * 4 + 5, 4)), "(x + 1)");
  EXPECT_EQ(simplified(floordiv(Expr(k), 64)), "0");
  // Three loops fused and taken apart again.
  Expr fused = (Expr(i) * 8 + j) * 64 + k;
  EXPECT_EQ(simplified(floordiv(fused, 512)), "i");
  EXPECT_EQ(simplified(floormod(floordiv(fused, 64), 8)), "j");
  EXPECT_EQ(simplified(floormod(fused, 64)), "k");
}

TEST_F(SimplifyTest, SymbolicExtents) {
  Var a = var("a"), b = var("b");
  analyzer.bind_range(a, Expr(n));
  analyzer.bind_range(b, Expr(m));
  EXPECT_EQ(simplified(floordiv(Expr(a) * m + b, m)), "a");
  EXPECT_EQ(simplified(floormod(Expr(a) * m + b, m)), "b");
  // Without its partner it stays: how large it may be is known of a remainder.
  EXPECT_EQ(simplified(floormod(Expr(a) + 5, m)), "((a + 5) %% m)");
  EXPECT_EQ(simplified(floordiv(Expr(a) + 5, m) * m + floormod(Expr(a) + 5, m)), "(a + 5)");
  EXPECT_TRUE(analyzer.can_prove(less(Expr(a) * m + b, Expr(n) * m)));
  EXPECT_FALSE(analyzer.can_prove(less(Expr(a) + 1, n)));
  EXPECT_TRUE(analyzer.can_prove(less(Expr(a), Expr(n) + 1)));
  EXPECT_TRUE(prove_equal(floordiv(Expr(n) * 4, 4), n));
  EXPECT_EQ(analyzer.bound(a), (Bound{0, INT64_MAX}));
}

TEST_F(SimplifyTest, ComparisonsByBounds) {
  EXPECT_EQ(simplified(less(Expr(i) * 8 + j, 256)), "1");
  EXPECT_EQ(simplified(less(Expr(i) * 8 + j, 0)), "0");
  EXPECT_EQ(simplified(less(Expr(i) * 8 + j, 16)), "(i < 2)");
  EXPECT_EQ(simplified(less_equal(1, Expr(i))), "(0 < i)");
  EXPECT_EQ(simplified(less(Expr(x) * 4, 10)), "(x < 3)");
  EXPECT_EQ(simplified(less(floordiv(Expr(x), 3), 5)), "(x < 15)");
  EXPECT_EQ(simplified(less(5, floordiv(Expr(x) + y, 3))), "(17 < (x + y))");
  EXPECT_EQ(simplified(less(y, floordiv(Expr(x), 3) * -1)), "(((y * 3) + x) < 0)");
  // A column of 3 channels, of vectors of 16 elements.
  EXPECT_EQ(simplified(less(floordiv(Expr(x) * 16 + j, 3), 7)), "(((x * 16) + j) < 21)");
  // A quotient of which there are several, or by what nobody knows.
  EXPECT_EQ(simplified(less(floordiv(Expr(x), 3) * 2, floordiv(Expr(y), 5))), "((((x // 3) * 10) + 4) < y)");
  EXPECT_EQ(simplified(less(floordiv(Expr(x), n), 5)), "((x // n) < 5)");
  EXPECT_EQ(simplified(less(floordiv(Expr(x), int64_t{1} << 40), y)), "((x // 1099511627776) < y)")
      << "y * 2^40";
  EXPECT_EQ(simplified(equal(Expr(x) * 2, 5)), "0");
  EXPECT_EQ(simplified(equal(Expr(i), 40)), "0");
  EXPECT_EQ(simplified(logical_not(less(Expr(x), 5))), "(4 < x)");
  EXPECT_EQ(simplified(min(Expr(i), 40)), "i");
  EXPECT_EQ(simplified(max(min(Expr(x) + 1, Expr(x) + 3), Expr(x))), "(x + 1)");
  EXPECT_EQ(simplified(select(less(Expr(i), 32), Expr(x), Expr(y))), "x");
}

TEST_F(SimplifyTest, Logic) {
  Expr a = less(Expr(x), 3), b = less(Expr(x), 5);
  EXPECT_EQ(simplified(logical_and(a, b)), "(x < 3)");
  EXPECT_EQ(simplified(logical_or(a, b)), "(x < 5)");
  EXPECT_EQ(simplified(logical_and(a, logical_not(b))), "0");
  EXPECT_EQ(simplified(logical_or(b, logical_not(a))), "1");
  EXPECT_EQ(simplified(logical_and(logical_and(a, less(Expr(y), 1)), a)), "((x < 3) && (y < 1))");
}

TEST_F(SimplifyTest, AnyEqualsNothing) {
  Expr any = any_dim();
  EXPECT_FALSE(prove_equal(any, any));
  EXPECT_FALSE(prove_equal(any - any, 0));
  EXPECT_FALSE(prove_equal(floordiv(any, 4) * 4 + floormod(any, 4), any));
  EXPECT_EQ(analyzer.bound(any).min, 0);
}

TEST_F(SimplifyTest, FloatsAndNarrowIntegersKeepTheirShape) {
  Expr f = var("f", kFloat32);
  Expr sum = (f + fimm(kFloat32, 1)) - f;
  EXPECT_EQ(analyzer.simplify(sum), sum);
  EXPECT_EQ(analyzer.simplify(f * fimm(kFloat32, 1)), f);
  Expr narrow = var("b", kInt8);
  Expr compared = less(narrow, narrow + imm(kInt8, 1));  // false for 127
  EXPECT_EQ(analyzer.simplify(compared), compared);
  EXPECT_EQ(analyzer.bound(narrow), (Bound{-128, 127}));
}

/// Data wraps: what holds of places only as they are small does not hold of it.
TEST_F(SimplifyTest, ValuesMayWrap) {
  auto value = [&](const Expr& e) {
    Expr result = analyzer.simplify_value(e);
    EXPECT_EQ(analyzer.simplify_value(result), result) << text(e) << " -> " << text(result);
    return text(result);
  };
  const Expr data = cast(kInt64, var("data", kFloat32)), most(INT64_MAX), large(int64_t{1} << 62);
  EXPECT_EQ(value(less_equal(data, most)), "(<Cast> <= 9223372036854775807)");
  EXPECT_EQ(value(less_equal(data, 6)), "(<Cast> < 7)");
  EXPECT_EQ(value(less(data, data + 1)), "(<Cast> < (<Cast> + 1))");
  EXPECT_EQ(value(max(data, data + 1)), "max(<Cast>, (<Cast> + 1))");
  EXPECT_EQ(value(floordiv(data * 4 + 2, 4)), "(((<Cast> * 4) + 2) // 4)");
  EXPECT_EQ(value(floormod(Expr(i) * large, 10)), "((i * 4611686018427387904) %% 10)");
  EXPECT_EQ(value(logical_not(less(data, Expr(m)))), "(m <= <Cast>)");
  EXPECT_EQ(value(logical_and(less(data + 1, 5), less(data, 7))), "(((<Cast> + 1) < 5) && (<Cast> < 7))");
  // Sums and products are those of a ring, and places within are places.
  EXPECT_EQ(value((data + 1) * 2 - data - 2), "<Cast>");
  EXPECT_EQ(value(select(less_equal(Expr(i), 3), data * 0 + floordiv(Expr(i) * 4 + 2, 4), data)),
            "((i < 4) ? i : <Cast>)");
  // Of a place the same is simple.
  EXPECT_EQ(simplified(floordiv(data * 4 + 2, 4)), "<Cast>");
}

TEST_F(SimplifyTest, LinearForm) {
  Var vars[] = {i, j};
  auto form = linear_form(Expr(i) * 8 + (Expr(j) + x) * 3 - j, vars);
  ASSERT_TRUE(form);
  EXPECT_EQ(form->coefficients.at(i.get()), 8);
  EXPECT_EQ(form->coefficients.at(j.get()), 2);
  EXPECT_EQ(text(form->rest), "(x * 3)");
  EXPECT_FALSE(linear_form(Expr(i) * x, vars));
  EXPECT_FALSE(linear_form(floordiv(Expr(i), 2), vars));
}

TEST_F(SimplifyTest, DeepSumsAreFine) {
  Expr sum = i;
  for (int d = 0; d < 2000; ++d) sum = sum + j;
  EXPECT_EQ(simplified(sum), "((j * 2000) + i)");
}

class SimplifyProperty : public testing::TestWithParam<uint32_t> {};

TEST_P(SimplifyProperty, KeepsTheValueWithinBoundsAndIsIdempotent) {
  RandomExpr random(GetParam());
  for (int round = 0; round < 400; ++round) {
    Expr e = round % 3 ? random.index(1 + round % 4) : random.condition(1 + round % 3);
    Expr simple = random.analyzer().simplify(e), again = random.analyzer().simplify(simple);
    ASSERT_EQ(simple, again) << text(e) << "\n-> " << text(simple) << "\n-> " << text(again);
    Bound bound = random.analyzer().bound(e);
    for (int trial = 0; trial < 20; ++trial) {
      Values values = random.values();
      auto before = evaluate(e, values);
      if (!before) continue;
      ASSERT_EQ(before, evaluate(simple, values)) << text(e) << "\n-> " << text(simple);
      ASSERT_TRUE(bound.min <= *before && *before <= bound.max) << text(e) << ": " << *before;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, SimplifyProperty, testing::Range(0u, 100u));

/// Random expressions over loops of symbolic extent.
class SymbolicExpr {
 public:
  explicit SymbolicExpr(uint32_t seed) : random_(seed) {
    for (const Var& size : {n_, m_}) analyzer_.bind(size, {1, INT64_MAX});
    analyzer_.bind_range(a_, n_);
    analyzer_.bind_range(b_, m_);
    analyzer_.bind_range(c_, Expr(n_) * 4);
  }
  const Analyzer& analyzer() const { return analyzer_; }

  Expr index(int depth) {
    if (depth == 0) {
      const Expr leaves[] = {a_, b_, c_, n_, m_, Expr(pick(-3, 5)), Expr(a_) * m_ + b_, Expr(b_) * n_ + a_};
      return leaves[pick(0, 7)];
    }
    Expr x = index(depth - 1);
    const Expr sizes[] = {n_, m_, Expr(n_) * m_, Expr(4), Expr(n_) + 1};
    const Expr& size = sizes[pick(0, 4)];
    switch (pick(0, 6)) {
      case 0:
        return x + index(depth - 1);
      case 1:
        return x - index(depth - 1);
      case 2:
        return x * size;
      case 3:
        return floordiv(x, size);
      case 4:
        return floormod(x, size);
      case 5:
        return min(x, index(depth - 1));
      default:
        return select(less(x, size), x, index(depth - 1));
    }
  }

  Values values() {
    int64_t n = pick(1, 7), m = pick(1, 7);
    return {{n_.get(), n},
            {m_.get(), m},
            {a_.get(), pick(0, n - 1)},
            {b_.get(), pick(0, m - 1)},
            {c_.get(), pick(0, 4 * n - 1)}};
  }

 private:
  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  std::mt19937 random_;
  Var n_ = var("n"), m_ = var("m"), a_ = var("a"), b_ = var("b"), c_ = var("c");
  Analyzer analyzer_;
};

class SymbolicProperty : public testing::TestWithParam<uint32_t> {};

TEST_P(SymbolicProperty, KeepsTheValueAndIsIdempotent) {
  SymbolicExpr random(GetParam());
  for (int round = 0; round < 150; ++round) {
    Expr e = random.index(1 + round % 4);
    if (round % 3 == 0) e = select(less(e, random.index(1)), Expr(1), Expr(0));
    Expr simple = random.analyzer().simplify(e), again = random.analyzer().simplify(simple);
    ASSERT_EQ(simple, again) << text(e) << "\n-> " << text(simple) << "\n-> " << text(again);
    Bound bound = random.analyzer().bound(e);
    for (int trial = 0; trial < 30; ++trial) {
      Values values = random.values();
      auto before = evaluate(e, values);
      if (!before) continue;
      ASSERT_EQ(before, evaluate(simple, values)) << text(e) << "\n-> " << text(simple);
      ASSERT_TRUE(bound.min <= *before && *before <= bound.max) << text(e) << ": " << *before;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, SymbolicProperty, testing::Range(0u, 60u));

/// Wherever they lie: memory that was free before comes first again.
TEST(Compare, LookAlikesByAge) {
  for (int i = 0; i < 100; ++i) {
    Var freed = var("x");
    const Var older = var("x");
    freed = Var();
    const Var younger = var("x");
    EXPECT_LT(compare(older, younger), 0);
    EXPECT_GT(compare(younger, older), 0);
  }
}

/// Between two floats, a little above the middle, which the nearest double is.
TEST(Fold, IntegersAreRoundedToFloatsOnce) {
  const Expr folded = cast(kFloat32, Expr((int64_t{1} << 60) + (int64_t{1} << 36) + 1));
  ASSERT_TRUE(folded.as<FloatImm>());
  EXPECT_EQ(folded.as<FloatImm>()->value, 0x1p60 + 0x1p37);
}

TEST(Fold, LargeUnsignedConstantsAreNotNegative) {
  Expr largest = imm(kUInt64, -1), five = imm(kUInt64, 5), three = imm(kUInt64, 3);
  EXPECT_EQ(text(min(five, three)), "3");
  EXPECT_EQ(text(min(largest, five)), "min(-1, 5)");
  EXPECT_EQ(text(less(largest, five)), "(-1 < 5)");
  EXPECT_EQ(text(div(largest, five)), "(-1 / 5)");
  EXPECT_EQ(text(three - five), "(3 - 5)");
  EXPECT_EQ(text(cast(kFloat64, largest)), "<Cast>");
  EXPECT_EQ(text(cast(kInt32, five)), "5");
}

TEST(Rules, BothSidesAreEqual) {
  std::mt19937 random(7);
  for (const Rule& rule : simplification_rules()) {
    for (int trial = 0; trial < 200; ++trial) {
      Values values;
      post_order(rule.from, [&](const NodeRef& node) {
        if (const VarNode* v = node.as<VarNode>())
          values[v] = v->dtype.is_bool() ? random() % 2 : random() % 5;
      });
      EXPECT_EQ(evaluate(rule.from, values), evaluate(rule.to, values))
          << text(rule.from) << " -> " << text(rule.to);
    }
  }
}

}  // namespace
}  // namespace lathe
