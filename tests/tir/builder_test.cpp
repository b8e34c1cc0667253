#include "core/tir/builder.h"

#include <gtest/gtest.h>

#include "core/support/error.h"
#include "core/tir/regions.h"
#include "core/tir/text.h"
#include "tests/arith/random_expr.h"

namespace lathe::tir {
namespace {

Func conv() {
  FuncBuilder f;
  Buffer data = f.input("data", {4, 8, 8}, kFloat32), weight = f.input("weight", {6, 4, 3, 3}, kFloat32);
  Buffer pad = f.compute("pad", {4, 10, 10}, [&](Vars i) {
    Expr y = i[1], x = i[2];
    Expr inside =
        logical_and(logical_and(less_equal(1, y), less(y, 9)), logical_and(less_equal(1, x), less(x, 9)));
    return select(inside, load(data, {i[0], y - 1, x - 1}), fimm(kFloat32, 0));
  });
  Buffer out = f.reduce("conv", {6, 4, 4}, {4, 3, 3}, Combiner::kSum, [&](Vars i, Vars r) {
    return load(pad, {r[0], Expr(i[1]) * 2 + r[1], Expr(i[2]) * 2 + r[2]}) *
           load(weight, {i[0], r[0], r[1], r[2]});
  });
  Buffer relu = f.compute("relu", {6, 4, 4}, [&](Vars i) {
    return max(load(out, {i[0], i[1], i[2]}), fimm(kFloat32, 0));
  });
  return f.finish("conv_relu", {relu});
}

const Block* block_named(const Func& func, const std::string& name) {
  const Block* found = nullptr;
  post_order(func, [&](const NodeRef& node) {
    if (const Block* block = node.as<Block>(); block && block->name == name) found = block;
  });
  return found;
}

TEST(Regions, PlacesThatLieInMemoryReachTheWholeDimension) {
  Buffer table = buffer("table", {100, 8}, kFloat32), places = buffer("places", {4}, kInt64);
  Expr row = load(places, {Expr(0)}), other = load(places, {Expr(1)}), zero = imm(kInt64, 0);
  auto at = [&](const Expr& index) { return Region{table, {{index, Expr(1)}, {zero, Expr(8)}}}; };
  Region same = unite(at(row), at(row), {}), both = unite(at(row), at(other), {});
  EXPECT_TRUE(structural_equal(same.ranges[0].min, row));
  EXPECT_TRUE(structural_equal(both.ranges[0].min, zero));
  EXPECT_TRUE(structural_equal(both.ranges[0].extent, Expr(100)));
  EXPECT_TRUE(structural_equal(both.ranges[1].extent, Expr(8)));
}

TEST(Builder, ParamsAllocationsAndBlocks) {
  Func func = conv();
  ASSERT_EQ(func->params.size(), 3u);
  EXPECT_EQ(func->params[2]->name, "relu");
  const Block* root = func->body.as<Block>();
  ASSERT_TRUE(root);
  EXPECT_EQ(root->name, "root");
  ASSERT_EQ(root->allocs.size(), 2u);
  EXPECT_EQ(root->allocs[0]->name, "pad");
  const Block* reduction = block_named(func, "conv");
  ASSERT_EQ(reduction->iters.size(), 6u);
  EXPECT_EQ(reduction->iters[2].kind, IterKind::kSpatial);
  EXPECT_EQ(reduction->iters[3].kind, IterKind::kReduce);
  EXPECT_TRUE(reduction->init);
}

/// Of a split of which one part is used, say.
TEST(Builder, LeavesOutWhatNoOutputNeeds) {
  FuncBuilder f;
  Buffer x = f.input("x", {8}, kFloat32);
  auto twice = [&](const char* name, const Buffer& of) {
    return f.compute(name, {8}, [&](Vars i) { return load(of, {i[0]}) * Expr(2.0f); });
  };
  Buffer used = twice("used", x), unused = twice("unused", used);
  twice("of_unused", unused);
  Func func = f.finish("main", {twice("out", used)});
  EXPECT_TRUE(block_named(func, "used"));
  EXPECT_FALSE(block_named(func, "unused"));
  EXPECT_FALSE(block_named(func, "of_unused"));
  EXPECT_EQ(func->body.as<Block>()->allocs.size(), 1u);
}

TEST(Builder, DeclaredRegions) {
  Func func = conv();
  const Block* reduction = block_named(func, "conv");
  ASSERT_EQ(reduction->reads.size(), 2u);  // its own accumulator is not a read
  EXPECT_EQ(reduction->reads[0].buffer->name, "pad");
  EXPECT_TRUE(prove_equal(reduction->reads[0].ranges[1].min,
                          Expr(reduction->iters[1].var) * 2 + reduction->iters[4].var));
  EXPECT_TRUE(is_int(reduction->reads[0].ranges[1].extent, 1));
  ASSERT_EQ(reduction->writes.size(), 1u);
  EXPECT_EQ(reduction->writes[0].buffer->name, "conv");
}

TEST(Builder, NamesAreUnique) {
  FuncBuilder f;
  Buffer a = f.input("a", {4}, kFloat32);
  Buffer b = f.compute("a", {4}, [&](Vars i) { return load(a, {i[0]}); });
  Buffer c = f.compute("a", {4}, [&](Vars i) { return load(b, {i[0]}); });
  EXPECT_EQ(b->name, "a_1");
  EXPECT_EQ(c->name, "a_2");
}

TEST(Builder, IdentitiesAreNeutral) {
  EXPECT_EQ(*as_int(identity_of(Combiner::kMax, kInt8)), -128);
  EXPECT_EQ(*as_int(identity_of(Combiner::kMin, kUInt8)), 255);
  EXPECT_EQ(*as_int(identity_of(Combiner::kMin, kInt64)), INT64_MAX);
  EXPECT_EQ(*as_int(identity_of(Combiner::kAnd, kBool)), 1);
}

TEST(Regions, RelaxedOverTilesOfFusedLoops) {
  // A tile of 16 iterations of a loop fused from 4 x 64: one row, 16 columns.
  Var outer = var("fo"), inner = var("fi");
  Analyzer analyzer;
  analyzer.bind_range(outer, 16);
  analyzer.bind_range(inner, 16);
  Expr fused = Expr(outer) * 16 + inner;
  Buffer a = buffer("a", {4, 64}, kFloat32);
  Region tile = relax({a, {{floordiv(fused, 64), 1}, {floormod(fused, 64), 1}}}, {{inner, 16}}, analyzer);
  EXPECT_TRUE(is_int(tile.ranges[0].extent, 1));
  EXPECT_TRUE(is_int(tile.ranges[1].extent, 16));
  EXPECT_TRUE(prove_equal(tile.ranges[0].min, floordiv(Expr(outer), 4)));
  EXPECT_TRUE(prove_equal(tile.ranges[1].min, floormod(Expr(outer), 4) * 16));
  Region all = relax(tile, {{outer, 16}}, analyzer);
  EXPECT_TRUE(is_int(all.ranges[0].extent, 4));
  EXPECT_TRUE(is_int(all.ranges[1].extent, 64));
}

TEST(Regions, WindowsUnite) {
  Var y = var("y"), k = var("k");
  Analyzer analyzer;
  analyzer.bind_range(y, 8);
  analyzer.bind_range(k, 3);
  Buffer a = buffer("a", {8}, kFloat32);
  Region window = relax({a, {{Expr(y) + k - 1, 1}}}, {{k, 3}}, analyzer);
  EXPECT_TRUE(prove_equal(window.ranges[0].min, Expr(y) - 1));
  EXPECT_TRUE(is_int(window.ranges[0].extent, 3));
  Region two = unite({a, {{y, 1}}}, {a, {{Expr(y) + 2, 1}}}, analyzer);
  EXPECT_TRUE(is_int(two.ranges[0].extent, 3));
  // A loaded index reaches anywhere.
  Buffer table = buffer("table", {8}, kInt64);
  Region gathered = relax({a, {{load(table, {k}), 1}}}, {{k, 3}}, analyzer);
  EXPECT_TRUE(is_int(gathered.ranges[0].extent, 8));
}

class RegionsProperty : public testing::TestWithParam<uint32_t> {};

TEST_P(RegionsProperty, IntervalsHoldAllValues) {
  RandomExpr random(GetParam());
  int known = 0;
  for (int round = 0; round < 200; ++round) {
    Expr e = random.index(1 + round % 3);
    // Some variables are relaxed, the others stay in the corners.
    Domain domain;
    for (size_t v = 0; v < random.vars().size(); ++v)
      if (random.extents()[v] && random.pick(0, 1))
        domain.emplace_back(random.vars()[v], random.extents()[v]);
    auto interval = interval_over(e, domain, random.analyzer());
    if (!interval) continue;
    ++known;
    for (const auto& [v, extent] : domain) {
      EXPECT_FALSE(uses_var(interval->min, v.get()));
      EXPECT_FALSE(uses_var(interval->max, v.get()));
    }
    for (int trial = 0; trial < 30; ++trial) {
      Values values = random.values();
      auto value = evaluate(e, values), low = evaluate(interval->min, values),
           high = evaluate(interval->max, values);
      if (!value || !low || !high) continue;
      ASSERT_TRUE(*low <= *value && *value <= *high)
          << print(e) << " in " << print(interval->min) << " .. " << print(interval->max);
    }
  }
  EXPECT_GT(known, 100);
}
INSTANTIATE_TEST_SUITE_P(Seeds, RegionsProperty, testing::Range(0u, 30u));

}  // namespace
}  // namespace lathe::tir
