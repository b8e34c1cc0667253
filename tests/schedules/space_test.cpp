#include "schedules/space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/support/error.h"
#include "core/tir/builder.h"
#include "core/tir/dims.h"
#include "core/tir/lower.h"
#include "core/tir/machine.h"
#include "core/tir/prologue.h"
#include "core/tir/text.h"
#include "core/tir/verify.h"
#include "schedules/program.h"
#include "tests/schedules/programs.h"
#include "tests/tir/random_func.h"

namespace lathe::schedule {
namespace {

TEST(DefaultTrace, KeepsMeaning) {
  for (const Program& program : small_programs()) {
    SCOPED_TRACE(program.name);
    Trace trace = default_trace(program.func, avx512_target());
    EXPECT_FALSE(trace.steps.empty());
    tir::Func scheduled = replay(trace, program.func);
    SCOPED_TRACE(to_text(trace));
    expect_same_results(program.func, scheduled);
  }
}

TEST(DefaultTrace, OneBlockThatNoSpaceKnowsLeavesTheOthersTheirSchedules) {
  // Loops of `first` cannot be ordered or fused: `second` stands in the outer one as well.
  const tir::Func func = tir::parse_func(R"(
func main(x: float32[40, 64], y: float32[40, 64]) -> (a: float32[40, 64], b: float32[40, 64], c: float32[40, 64]) {
  block root {
    for i in 0..40 {
      for j in 0..64 {
        block first(spatial u in 0..40 = i, spatial v in 0..64 = j) {
          reads x[u, v]
          writes a[u, v]
          a[u, v] = x[u, v] + 1.0
        }
      }
      for k in 0..64 {
        block second(spatial s in 0..40 = i, spatial t in 0..64 = k) {
          reads y[s, t]
          writes b[s, t]
          b[s, t] = y[s, t] + 2.0
        }
      }
    }
    for m in 0..40 {
      for n in 0..64 {
        block third(spatial p in 0..40 = m, spatial q in 0..64 = n) {
          reads x[p, q], y[p, q]
          writes c[p, q]
          c[p, q] = x[p, q] * y[p, q]
        }
      }
    }
  }
})");
  const tir::Func scheduled = replay(default_trace(func, avx512_target()), func);
  expect_same_results(func, scheduled);
  EXPECT_EQ(vectors_around(scheduled, "first"), 0u);
  EXPECT_EQ(vectors_around(scheduled, "third"), 1u);
}

TEST(DefaultTrace, VectorizesAwkwardRows) {
  auto lanes_of = [](const tir::Func& func) {
    return vector_lanes(replay(default_trace(func, avx512_target()), func));
  };
  using Lanes = std::vector<int64_t>;
  EXPECT_EQ(lanes_of(doubled_reshape(64, 64, kFloat32)), Lanes{16});
  EXPECT_EQ(lanes_of(leaky_relu(8, 64, kFloat32)), Lanes{16});
  EXPECT_EQ(lanes_of(elementwise(64, 508, kFloat32)), (Lanes{16, 16}));  // transposes: rows in, columns out
  Lanes filtered = lanes_of(filter(1000, 256, kFloat32));
  EXPECT_EQ(std::count(filtered.begin(), filtered.end(), 16), 3);  // partial sums: cleared, added to, stored
  Lanes soft = lanes_of(softmax(8, 508));
  // The element-wise steps; maximum and sum: partial ones cleared, added to, combined to one vector.
  EXPECT_EQ(std::count(soft.begin(), soft.end(), 16), 8);
  EXPECT_EQ(std::count(soft.begin(), soft.end(), 4), 2);  // which is then halved
}

/// By what the machine takes to start a loop, and by how much of the work the other cores can take off.
/// Pixels made of channels, plus one number a channel: (24, 1, 1) is as contiguous as (24).
TEST(DefaultTrace, VectorizesAlongAxesBeforeThoseOfOneElement) {
  tir::Func func = tir::parse_func(R"(
func main(x: float32[6, 10, 10, 16], bias: float32[24, 1, 1]) -> (out: float32[3, 20, 20, 8]) {
  block root {
    for c in 0..3 { for i in 0..20 { for j in 0..20 { for l in 0..8 {
      block out(spatial vc in 0..3 = c, spatial vi in 0..20 = i, spatial vj in 0..20 = j, spatial vl in 0..8 = l) {
        reads x[0, vi // 2, vj // 2, 0], bias[vc * 8 + vl, 0, 0]
        writes out[vc, vi, vj, vl]
        out[vc, vi, vj, vl] = x[(vi %% 2 * 48 + vj %% 2 * 24 + vc * 8 + vl) // 16, vi // 2, vj // 2, (vi %% 2 * 48 + vj %% 2 * 24 + vc * 8 + vl) %% 16] + bias[vc * 8 + vl, 0, 0]
    } } } } }
  }
})");
  tir::Func scheduled = replay(default_trace(func, avx512_target()), func);
  EXPECT_THAT(tir::print(scheduled), testing::HasSubstr("in 0..8 vectorized"));
  expect_same_results(func, scheduled);
}

/// Index, mask and weight of each element are whole vectors, what they choose is not.
TEST(DefaultTrace, GathersWhereTheRestOutweighsIt) {
  constexpr const char* kSampled = R"(
func main(x: float32[8, 400], at: int64[64], w: float32[64]) -> (out: float32[8, 64]) {
  block root {
    for c in 0..8 { for i in 0..64 {
      block out(spatial vc in 0..8 = c, spatial vi in 0..64 = i) {
        reads x[vc, 0:400], at[vi], w[vi]
        writes out[vc, vi]
        out[vc, vi] = {}
    } } }
  }
})";
  const auto lanes_of = [&](std::string_view value) {
    std::string text = kSampled;
    text.replace(text.find("{}"), 2, value);
    const tir::Func func = tir::parse_func(text),
                    scheduled = replay(default_trace(func, avx512_target()), func);
    expect_same_results(func, scheduled);
    return vector_lanes(scheduled);
  };
  EXPECT_EQ(lanes_of("select(0 <= at[vi], x[vc, min(max(at[vi], 0), 399)], 0.0) * w[vi]"),
            std::vector<int64_t>{16});
  EXPECT_EQ(lanes_of("x[vc, min(max(at[vi], 0), 399)]"), std::vector<int64_t>{});
}

TEST(DefaultTrace, RunsInParallelWhatSavesMoreThanTheStartOfALoop) {
  auto is_parallel = [](int cores, double launch_cycles) {
    Target target = avx512_target();
    target.cores = cores;
    set_machine(target, {{"launch_cycles", launch_cycles}}, {});
    const tir::Func func = leaky_relu(128, 256, kFloat32);
    bool parallel = false;
    post_order(replay(default_trace(func, target), func)->body, [&](const NodeRef& node) {
      const auto* loop = node.as<tir::For>();
      parallel |= loop && loop->iteration == tir::Iteration::kParallel;
    });
    return parallel;
  };
  EXPECT_TRUE(is_parallel(2, 500));
  EXPECT_FALSE(is_parallel(2, 2500)) << "half of 4096 cycles";
  EXPECT_TRUE(is_parallel(4, 2500)) << "three quarters";
  EXPECT_FALSE(is_parallel(1, 500));
}

/// Whether sums are added to one element at a time.
bool sums_element_by_element(const tir::Func& scheduled) {
  bool found = false;
  post_order(tir::lower(scheduled, avx512_target())->body, [&](const NodeRef& node) {
    const auto* store = node.as<tir::Store>();
    found |= store && tir::accumulates(*store) && store->value.dtype().lanes == 1;
  });
  return found;
}

TEST(DefaultTrace, VectorizesProductsOfAnySize) {
  for (int64_t n : {5, 11, 16, 37, 100, 203})
    for (bool transposed : {false, true}) {
      tir::Func func =
          product({.m = 9, .n = n, .k = 31, .transpose_y = transposed, .shared = true}, kFloat32);
      tir::Func scheduled = replay(default_trace(func, avx512_target()), func);
      SCOPED_TRACE(tir::print(scheduled));
      int64_t widest = 0;
      for (int64_t lanes : vector_lanes(scheduled)) widest = std::max(widest, lanes);
      EXPECT_GE(widest, std::min<int64_t>(n, 10)) << n;
      EXPECT_FALSE(sums_element_by_element(scheduled)) << n;
    }
}

/// Three results a group, too few for lanes along channels: every second element of a row is loaded.
TEST(DefaultTrace, WhatRunsOnOneCoreIsCutForOne) {
  const tir::Func func = product({.m = 1, .n = 32, .k = 40}, kFloat32);
  Target one = avx512_target(), two = one;
  one.cores = 1;
  two.cores = 2;
  EXPECT_TRUE(structural_equal(replay(default_trace(func, one), func), replay(default_trace(func, two), func),
                               /*map_free=*/true))
      << tir::print(replay(default_trace(func, two), func));
}

/// Steps of a sum over two taps that are so far apart, and 16 channels, that one iteration takes.
int64_t steps_at_once(int64_t apart) {
  const Target target = avx512_target();
  tir::Func func = tir::parse_func(fmt::format(R"(
func main(x: float32[16, 1000], w: float32[16, 2, 16]) -> (y: float32[840, 16]) @constants=2 {{
  block root {{
    for i in 0..840 {{ for o in 0..16 {{ for c in 0..16 {{ for k in 0..2 {{
      block sum(spatial vi in 0..840 = i, spatial vo in 0..16 = o, reduce vc in 0..16 = c, reduce vk in 0..2 = k) {{
        reads x[vc, vi + vk * {0}], w[vc, vk, vo]
        writes y[vi, vo]
        init {{ y[vi, vo] = 0.0 }}
        y[vi, vo] = y[vi, vo] + x[vc, vi + vk * {0}] * w[vc, vk, vo]
    }} }} }} }} }}
}} }})",
                                               apart));
  Schedule s(replay(default_trace(func, target), func));
  const BlockHandle block = s.get_block("sum");
  int64_t steps = 1;
  for (LoopHandle loop : s.get_loops(block)) {
    const tir::For& each = *s[loop];
    const auto takes_steps = [&](const tir::BlockIter& iter) {
      return iter.kind == tir::IterKind::kReduce && uses_var(iter.value, each.var.get());
    };
    const std::vector<tir::BlockIter>& iters = s[block]->iters;
    if (each.iteration == tir::Iteration::kUnrolled && std::any_of(iters.begin(), iters.end(), takes_steps))
      steps *= int_value(each.extent);
  }
  return steps;
}

TEST(DefaultTrace, TapsOfTheSameElementsRunOneByOne) {
  EXPECT_EQ(steps_at_once(2), 1) << "26 of a tile's 28 elements are those of the next tap, too";
  EXPECT_EQ(steps_at_once(100), 2);
}

TEST(DefaultTrace, LoadsWindowsWithStridesInVectors) {
  for (int64_t stride : {2, 3}) {
    tir::Func func = tir::parse_func(fmt::format(R"(
func main(x: float32[22, 12, {1}], w: float32[6, 11, 5, 5]) -> (y: float32[6, 4, 20]) {{
  block root {{
    for c in 0..6 {{ for i in 0..4 {{ for j in 0..20 {{ for k in 0..11 {{ for r in 0..5 {{ for s in 0..5 {{
      block conv(spatial vc in 0..6 = c, spatial vi in 0..4 = i, spatial vj in 0..20 = j, reduce vk in 0..11 = k, reduce vr in 0..5 = r, reduce vs in 0..5 = s) {{
        reads x[vc // 3 * 11 + vk, vi * 2 + vr, vj * {0} + vs], w[vc, vk, vr, vs]
        writes y[vc, vi, vj]
        init {{ y[vc, vi, vj] = 0.0 }}
        y[vc, vi, vj] = y[vc, vi, vj] + x[vc // 3 * 11 + vk, vi * 2 + vr, vj * {0} + vs] * w[vc, vk, vr, vs]
    }} }} }} }} }} }} }}
}} }})",
                                                 stride, 19 * stride + 5));
    tir::Func scheduled = replay(default_trace(func, avx512_target()), func);
    EXPECT_THAT(vector_lanes(scheduled), testing::Contains(16)) << stride;
    expect_same_results(func, scheduled);
  }
}

/// Sums that have no neighbours beside them run along their terms, whatever number of those there is.
TEST(DefaultTrace, AddsTermsOfAnyNumberInVectors) {
  for (int64_t k : {5, 13, 45, 79, 256}) {
    tir::Func func = product({.batch = 6, .m = 9, .n = 1, .k = k}, kFloat32);
    tir::Func scheduled = replay(default_trace(func, avx512_target()), func);
    SCOPED_TRACE(tir::print(scheduled));
    EXPECT_FALSE(sums_element_by_element(scheduled)) << k;
    expect_same_results(func, scheduled);
  }
}

/// sum over k of (x[i, k] - y[j, k])^2: as a tensor the terms are larger than both operands and have no
/// neighbours along j; of y alone a packed copy has.
TEST(DefaultTrace, ComputesTermsInsideTheSumThatPacksTheirOperands) {
  for (int64_t n : {32, 37}) {
    tir::FuncBuilder f;
    tir::Buffer x = f.input("x", {9, 13}, kFloat32), y = f.input("y", {n, 13}, kFloat32);
    tir::Buffer terms = f.compute("terms", {9, n, 13}, [&](tir::Vars i) {
      Expr difference = load(x, {i[0], i[2]}) - load(y, {i[1], i[2]});
      return difference * difference;
    });
    tir::Buffer sum = f.reduce("sum", {9, n}, {13}, tir::Combiner::kSum, [&](tir::Vars i, tir::Vars r) {
      return load(terms, {i[0], i[1], r[0]});
    });
    tir::Func func = f.finish("distances", {sum});
    tir::Func scheduled = replay(default_trace(func, avx512_target()), func);
    SCOPED_TRACE(tir::print(scheduled));
    EXPECT_FALSE(sums_element_by_element(scheduled)) << n;
    for (const Ref<tir::Block>& block : all_blocks(scheduled)) EXPECT_NE(block->name, "terms");
    expect_same_results(func, scheduled);
  }
}

/// One coordinate of points, which lie two by two: every second element.
TEST(DefaultTrace, ReadsCoordinatesOfPointsInVectors) {
  for (auto [rows, columns] : {std::pair{3, 40}, {5, 37}}) {
    tir::FuncBuilder f;
    tir::Buffer points = f.input("points", {rows, columns, 2}, kFloat32);
    tir::Buffer y = f.compute("y", {rows, columns}, [&](tir::Vars i) {
      return intrinsic(Intrinsic::kTanh, tir::load(points, {i[0], i[1], 1}));
    });
    const tir::Func func = f.finish("coordinates", {y});
    const tir::Func scheduled = replay(default_trace(func, avx512_target()), func);
    EXPECT_EQ(vectors_around(scheduled, "y"), 1u);
    expect_same_results(func, scheduled);
    EXPECT_FALSE(tir::find_fault(tir::lower(scheduled, avx512_target()), tir::Level::kVectors));
  }
}

/// Blocks of 16 channels of which the later half begins within a block, as a gate's does where a half is no
/// whole number of blocks: each vector is of two runs.
TEST(DefaultTrace, ComputesFunctionsOfShiftedBlocksInVectors) {
  tir::Func func = tir::parse_func(R"(
func main(x: float32[4, 30, 16]) -> (out: float32[2, 30, 16]) {
  block root {
    for c in 0..2 { for i in 0..30 { for l in 0..16 {
      block out(spatial vc in 0..2 = c, spatial vi in 0..30 = i, spatial vl in 0..16 = l) {
        reads x[0:4, vi, 0:16]
        writes out[vc, vi, vl]
        out[vc, vi, vl] = x[vc, vi, vl] * sigmoid(x[(vc * 16 + vl + 26) // 16, vi, (vc * 16 + vl + 26) %% 16])
    } } } }
} })");
  tir::Func scheduled = replay(default_trace(func, avx512_target()), func);
  EXPECT_THAT(vector_lanes(scheduled), testing::Contains(16));
  expect_same_results(func, scheduled);
}

/// An operand that is no constant is packed in each run: by tiles of vectors that are turned in registers.
TEST(DefaultTrace, TurnsTransposedOperandsInVectors) {
  for (auto [n, k] : {std::pair<int64_t, int64_t>{96, 32}, {96, 17}, {90, 17}}) {
    tir::Func func = product({.batch = 2, .m = 9, .n = n, .k = k, .transpose_y = true}, kFloat32);
    tir::Func scheduled = replay(default_trace(func, avx512_target()), func);
    SCOPED_TRACE(tir::print(scheduled));
    for (const Ref<tir::Block>& block : all_blocks(scheduled)) {
      Schedule s(scheduled);
      const std::vector<LoopHandle> loops = s.get_loops(s.get_block(block->name));
      EXPECT_TRUE(std::any_of(loops.begin(), loops.end(), [&](LoopHandle loop) {
        return s[loop]->iteration == tir::Iteration::kVectorized;
      })) << block->name;
    }
    expect_same_results(func, scheduled);
  }
}

/// Blocks of 9 channels, as groups of 3 make them, back into rows: no run of 9 fills a tile, and none crosses
/// into the next block.
TEST(DefaultTrace, TurnsRunsThatTilesDoNotFill) {
  for (auto [blocks, lanes] : {std::pair{3, 9}, {2, 12}, {4, 5}}) {
    tir::FuncBuilder f;
    tir::Buffer x = f.input("x", {blocks, 6, 37, lanes}, kFloat32);
    const int64_t width = lanes;
    tir::Buffer rows = f.compute("rows", {blocks * lanes, 6, 37}, [&](tir::Vars i) {
      return tir::load(x, {floordiv(i[0], width), i[1], i[2], floormod(i[0], width)}) * fimm(kFloat32, 2);
    });
    const tir::Func func = f.finish("unblocked", {rows});
    const tir::Func scheduled = replay(default_trace(func, avx512_target()), func);
    SCOPED_TRACE(tir::print(scheduled));
    EXPECT_EQ(vectors_around(scheduled, "rows"), 1u);
    expect_same_results(func, scheduled);
    EXPECT_FALSE(tir::find_fault(tir::lower(scheduled, avx512_target()), tir::Level::kVectors));
  }
}

/// Planes whose size no tile divides, as rows of a matrix: of which image a row is depends on the row, and a
/// tile would copy all images to read a few pixels.
TEST(DefaultTrace, ReadsNoWholeImagesToTurnAFewPixels) {
  for (auto [images, size] : {std::pair{2, 14}, {1, 16}}) {
    tir::FuncBuilder f;
    const int64_t side = size, plane = side * side;
    tir::Buffer x = f.input("x", {images, 32, size, size}, kFloat32);
    tir::Buffer rows = f.compute("rows", {images * plane, 32}, [&](tir::Vars i) {
      return tir::load(
          x, {floordiv(i[0], plane), i[1], floormod(floordiv(i[0], side), side), floormod(i[0], side)});
    });
    const tir::Func func = f.finish("flat", {rows});
    const tir::Func scheduled = replay(default_trace(func, avx512_target()), func);
    SCOPED_TRACE(tir::print(scheduled));
    double moved = 0;
    for (const Ref<tir::Block>& block : all_blocks(scheduled)) {
      Schedule s(scheduled);
      double iterations = 1;
      for (LoopHandle loop : s.get_loops(s.get_block(block->name)))
        iterations *= static_cast<double>(int_value(s[loop]->extent));
      moved += iterations;
    }
    EXPECT_LE(moved, 3.0 * static_cast<double>(images * plane * 32));
    expect_same_results(func, scheduled);
  }
}

/// Phases of pixels in blocks of 16 channels, into rows: which block a pixel lies in depends on the pixel,
/// and a phase of 24 channels begins within a block.
TEST(DefaultTrace, TurnsPixelsOfPhases) {
  for (auto [channels, stride] : {std::pair<int64_t, int64_t>{16, 2}, {24, 2}, {8, 3}, {40, 4}}) {
    tir::FuncBuilder f;
    const int64_t c = channels, s = stride, lanes = 16;
    tir::Buffer x = f.input("x", {(c * s * s + lanes - 1) / lanes, 5, 11, lanes}, kFloat32);
    tir::Buffer rows = f.compute("rows", {c, 5 * s, 11 * s - 1}, [&](tir::Vars i) {
      const Expr row = i[1], column = i[2] + 1,
                 first = (floormod(row, s) * s + floormod(column, s)) * c + i[0];
      return tir::load(
          x, {floordiv(first, lanes), floordiv(row, s), floordiv(column, s), floormod(first, lanes)});
    });
    const tir::Func func = f.finish("phases", {rows});
    const tir::Func scheduled = replay(default_trace(func, avx512_target()), func);
    SCOPED_TRACE(tir::print(scheduled));
    EXPECT_EQ(all_blocks(scheduled).size(), 2u) << "rows of a tile, the tile";
    EXPECT_EQ(vectors_around(scheduled, "rows"), 1u);
    expect_same_results(func, scheduled);
    EXPECT_FALSE(tir::find_fault(tir::lower(scheduled, avx512_target()), tir::Level::kVectors));
  }
}

/// Channels into blocks that they do not fill: what is chosen is a row of a tile, too.
TEST(DefaultTrace, TurnsRowsThatArePadded) {
  for (auto [groups, channels, pixels] :
       {std::tuple<int64_t, int64_t, int64_t>{1, 13, 40}, {2, 57, 8}, {3, 21, 37}}) {
    tir::FuncBuilder f;
    const int64_t lanes = 16, blocks = (channels + lanes - 1) / lanes, each = channels;
    tir::Buffer x = f.input("x", {groups * each, pixels}, kFloat32);
    tir::Buffer packed = f.compute("packed", {groups * blocks, pixels, lanes}, [&](tir::Vars i) {
      const Expr channel = floormod(i[0], blocks) * lanes + i[2];
      return select(less(channel, each), tir::load(x, {floordiv(i[0], blocks) * each + channel, i[1]}),
                    fimm(kFloat32, 0));
    });
    const tir::Func func = f.finish("padded", {packed});
    const tir::Func scheduled = replay(default_trace(func, avx512_target()), func);
    SCOPED_TRACE(tir::print(scheduled));
    EXPECT_EQ(all_blocks(scheduled).size(), 2u) << "rows of a tile, the tile";
    expect_same_results(func, scheduled);
    EXPECT_FALSE(tir::find_fault(tir::lower(scheduled, avx512_target()), tir::Level::kVectors));
  }
}

TEST(DefaultTrace, PacksConstantsWhenTheModelIsBuilt) {
  tir::Func func =
      tir::with_constant_params(product({.batch = 1, .m = 4, .n = 40, .transpose_y = true}, kFloat32), 2);
  tir::SplitProgram parts = tir::split_prologue(replay(default_trace(func, avx512_target()), func));
  ASSERT_TRUE(parts.prologue);
  EXPECT_EQ(tir::constant_shape(parts.prologue->params.back()), (std::vector<int64_t>{3, 1, 7, 16}));
}

/// A tile of few rows reads one stream of weights; each of two cores has two panels, and they fill up little.
TEST(DefaultTrace, PacksConstantsForFewRowsInPanels) {
  auto packed = [](int64_t m, int64_t n) {
    tir::Func func =
        tir::with_constant_params(product({.batch = 1, .m = m, .n = n, .transpose_y = true}, kFloat32), 2);
    tir::Func scheduled = replay(default_trace(func, avx512_target()), func);
    SCOPED_TRACE(tir::print(scheduled));
    expect_same_results(func, scheduled);
    return tir::constant_shape(tir::split_prologue(scheduled).prologue->params.back());
  };
  using Shape = std::vector<int64_t>;
  EXPECT_EQ(packed(1, 1024), (Shape{8, 1, 7, 128}));
  EXPECT_EQ(packed(1, 1000), (Shape{8, 1, 7, 128}));
  EXPECT_EQ(packed(1, 256), (Shape{4, 1, 7, 64}));
  EXPECT_EQ(packed(1, 203), (Shape{13, 1, 7, 16}));
  EXPECT_EQ(packed(2, 1024), (Shape{8, 1, 7, 128}));
  EXPECT_EQ(packed(4, 1024), (Shape{16, 1, 7, 64}));
  EXPECT_EQ(packed(5, 1024), (Shape{64, 1, 7, 16}));
}

TEST(DefaultTrace, FitsEveryProgram) {
  for (uint32_t seed = 1; seed <= 150; ++seed) {
    tir::Func func = tir::random_func(seed);
    Trace trace = default_trace(func, avx512_target());
    SCOPED_TRACE(fmt::format("random program {}\n{}", seed, to_text(trace)));
    expect_same_results(func, replay(trace, func));
  }
}

TEST(DesignSpace, SamplesKeepMeaning) {
  for (const Program& program : small_programs()) {
    SCOPED_TRACE(program.name);
    for (const DesignSpace* space : spaces_for(program.func, avx512_target())) {
      for (uint64_t seed = 0; seed < 6; ++seed) {
        Trace trace = sample(*space, program.func, avx512_target(), seed).trace();
        SCOPED_TRACE(to_text(trace));
        expect_same_results(program.func, replay(trace, program.func));
        EXPECT_EQ(sample(*space, program.func, avx512_target(), seed).trace(), trace);
      }
    }
  }
}

TEST(DefaultTrace, KeepsLargeConstantsInHalfPrecisionWhereThatIsAllowed) {
  const Target target = avx512_target();
  auto main_of = [&](const tir::Func& func, Rounding rounding) {
    return tir::split_prologue(replay(default_trace(func, target, rounding), func)).main;
  };
  auto narrow = [](const tir::Func& main) {
    return std::count_if(main->params.begin(), main->params.end(),
                         [](const tir::Buffer& param) { return param->dtype == kFloat16; });
  };
  tir::Func large = dense(1, 512, 1024, kFloat32), marked = tir::with_constant_params(large, 0b10);
  EXPECT_EQ(narrow(main_of(marked, Rounding::kHalfWeights)), 1);
  EXPECT_EQ(narrow(main_of(marked, Rounding::kNone)), 0);
  EXPECT_EQ(narrow(main_of(large, Rounding::kHalfWeights)), 0) << "it would be converted in each run";
  tir::Func small = tir::with_constant_params(dense(1, 64, 64, kFloat32), 0b10);
  EXPECT_EQ(narrow(main_of(small, Rounding::kHalfWeights)), 0) << "caches hold it";
  tir::Func transformed = tir::with_constant_params(
      conv2d({.out_blocks = 8, .in_blocks = 8, .height = 14, .width = 14}, kFloat32), 0b10);
  const DesignSpace* winograd = spaces_for(transformed, target)[0];
  std::set<int64_t> counts;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    tir::Func scheduled = sample(*winograd, transformed, target, seed, Rounding::kHalfWeights).func();
    counts.insert(narrow(tir::split_prologue(scheduled).main));
  }
  EXPECT_EQ(counts, (std::set<int64_t>{0, 1}));
}

TEST(RoundingWithin, IsNoneWhereHalfPrecisionIsTooCoarse) {
  EXPECT_EQ(rounding_within(1e-4), Rounding::kNone);
  EXPECT_EQ(rounding_within(1e-3), Rounding::kHalfWeights);
}

TEST(Mutate, ChangesDecisionsAndStaysLegal) {
  tir::Func func = conv2d({.in_blocks = 1, .height = 6, .width = 8, .in_lanes = 4, .residual = true});
  Trace trace = default_trace(func, avx512_target());
  Random random(3);
  int changed = 0;
  for (int i = 0; i < 20; ++i) {
    auto mutated = mutate(trace, func, random);
    if (!mutated) continue;
    ++changed;
    EXPECT_NE(mutated->trace(), trace);
    trace = mutated->trace();
    EXPECT_TRUE(structural_equal(mutated->func(), replay(trace, func)));
    SCOPED_TRACE(to_text(trace));
    expect_same_results(func, replay(trace, func));
  }
  EXPECT_GE(changed, 15);
  EXPECT_FALSE(mutate(Trace(), func, random));
}

TEST(DefaultTrace, TilesOfWideSumsFillRegistersByHalfAsMany) {
  const tir::Func product = tir::parse_func(R"(
func main(x: float64[64, 300], w: float64[300, 512]) -> (y: float64[64, 512]) {
  block root {
    for i in 0..64 {
      for j in 0..512 {
        for k in 0..300 {
          block dense(spatial u in 0..64 = i, spatial v in 0..512 = j, reduce s in 0..300 = k) {
            reads x[u, s], w[s, v]
            writes y[u, v]
            init {
              y[u, v] = 0.0f64
            }
            y[u, v] = y[u, v] + x[u, s] * w[s, v]
          }
        }
      }
    }
  }
})");
  int64_t results = 1, lanes = 1;
  for (const Ref<tir::For>& loop :
       loops_around(*path_to_block(replay(default_trace(product, avx512_target()), product), "dense"))) {
    if (loop->iteration == tir::Iteration::kVectorized) lanes *= int_value(loop->extent);
    // Terms are unrolled, too, but do not move the results.
    else if (loop->iteration == tir::Iteration::kUnrolled && !loop->var->name.starts_with('k'))
      results *= int_value(loop->extent);
  }
  EXPECT_EQ(lanes, 8);
  EXPECT_LT(results, 32);
}

TEST(DefaultTrace, FewElementsOfWhichEachIsChosenAreNoVector) {
  const tir::Func stack = tir::parse_func(R"(
func stack(x: float32[100, 64], y: float32[100, 64], z: float32[100, 64]) -> (all: float32[100, 64, 3]) {
  block root {
    for i in 0..100 {
      for j in 0..64 {
        for k in 0..3 {
          block choose(spatial u in 0..100 = i, spatial v in 0..64 = j, spatial w in 0..3 = k) {
            reads x[u, v], y[u, v], z[u, v]
            writes all[u, v, w]
            all[u, v, w] = select(w < 1, x[u, v], select(w < 2, y[u, v], z[u, v]))
          }
        }
      }
    }
  }
})");
  const tir::Func scheduled = replay(default_trace(stack, avx512_target()), stack);
  expect_same_results(stack, scheduled);
  const std::string lowered = tir::print(tir::lower(scheduled, avx512_target()));
  EXPECT_EQ(lowered.find("select"), std::string::npos) << lowered;
}

}  // namespace
}  // namespace lathe::schedule
