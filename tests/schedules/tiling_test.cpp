#include "schedules/tiling.h"

#include <gtest/gtest.h>

#include "core/tir/builder.h"
#include "core/tir/machine.h"
#include "tests/schedules/programs.h"

namespace lathe::schedule {
namespace {

VectorReduction main_of(const tir::Func& func) { return vector_reduction(dominant_reduction(func)).value(); }

int64_t product(const std::vector<int64_t>& sizes) {
  int64_t result = 1;
  for (int64_t size : sizes) result *= size;
  return result;
}

TEST(VectorWidth, IsTheTargetsOrANearDivisor) {
  EXPECT_EQ(vector_width(64, avx512_target()), 16);
  EXPECT_EQ(vector_width(1000, avx512_target()), 10);
  EXPECT_EQ(vector_width(24, avx512_target()), 12);
  EXPECT_EQ(vector_width(11, avx512_target()), 11);
  EXPECT_EQ(vector_width(3, avx512_target()), 3);
  EXPECT_EQ(vector_width(62, avx512_target()), 1);  // 2 x 31: two lanes are not worth it
  EXPECT_EQ(vector_width(64, avx2_target()), 8);
}

TEST(Anatomy, TellsOperandsApart) {
  VectorReduction conv = main_of(conv2d({}));
  EXPECT_EQ(conv.vector, 4u);
  EXPECT_EQ(conv.run, 16);
  EXPECT_TRUE(conv.broadcasts());
  EXPECT_FALSE(main_of(depthwise(2, 8, 1)).broadcasts());
  EXPECT_EQ(main_of(dense(4, 64, 8)).run, 16) << "weights are packed in blocks of 16";
  EXPECT_FALSE(vector_reduction(dominant_reduction(softmax(2, 8))))
      << "the only spatial variable would be gathered";
}

TEST(Anatomy, FindsWindows) {
  EXPECT_EQ(main_of(depthwise(2, 8, 1)).window(), 6u) << "its columns";
  EXPECT_EQ(main_of(max_pool(2, 9)).window(), 6u);
  EXPECT_FALSE(main_of(conv2d({})).window()) << "its tiles share the broadcast operand";
  EXPECT_FALSE(main_of(global_average(2, 9)).window()) << "too many columns to unroll";
}

TEST(RegisterTiles, TakeFewRowsThatFallIntoOneSetOfTheCache) {
  Target target = avx512_target();
  auto rows = [&](int64_t terms) {
    return register_tiles(main_of(dense(127, 32, terms)), target)[0].sizes[0];
  };
  EXPECT_GT(rows(3056), 10);
  for (int64_t terms : {1024, 2048, 3072, 4096}) EXPECT_LE(rows(terms), 10) << terms;
  set_machine(target, {{"l1_ways", 16}}, {});
  EXPECT_GT(rows(1024), 10);
}

TEST(Anatomy, CountsResultsThatShareWeights) {
  EXPECT_EQ(main_of(dense(1, 64, 8)).positions(), 1);
  EXPECT_EQ(main_of(dense(4, 64, 8)).positions(), 4);
  EXPECT_EQ(main_of(conv2d({.height = 8, .width = 6})).positions(), 48);
}

TEST(Anatomy, FindsDotProducts) {
  VectorReduction conv = main_of(dot_conv2d(kUInt8, kInt8, 7));
  EXPECT_EQ(conv.dot, 9u);
  EXPECT_EQ(conv.vector, 4u);
  EXPECT_EQ(conv.run, 16);
  EXPECT_EQ(conv.steps(), 2 * 3 * 3 * 4);
  EXPECT_EQ(main_of(dot_dense(4, 64, 24)).dot, 3u);
  EXPECT_TRUE(main_of(dot_conv2d(kBFloat16, kBFloat16, 7)).dot);
  EXPECT_FALSE(main_of(conv2d({.in_lanes = 4})).dot) << "int32 has no such instruction";
  EXPECT_FALSE(vector_reduction(dominant_reduction(dot_conv2d(kUInt8, kFloat32, 7))));
}

TEST(RegisterTiles, FillTheRegistersAndHideTheLatency) {
  for (const Target& target : {avx512_target(), avx2_target()}) {
    for (int64_t size : {56, 14, 7, 17}) {
      VectorReduction conv =
          main_of(conv2d({.out_blocks = 8, .height = size, .width = size, .lanes = target.lanes()}));
      std::vector<RegisterTile> tiles = register_tiles(conv, target);
      ASSERT_FALSE(tiles.empty());
      EXPECT_GE(product(tiles[0].sizes), 8) << "a multiply-add takes four cycles, two start in each";
      for (const RegisterTile& tile : tiles) EXPECT_LT(product(tile.sizes), target.vector_registers);
    }
  }
}

TEST(RegisterTiles, HoldMoreVectorsWhereBroadcastsAreInstructions) {
  // 1 x 14 results take 15 loads for 14 multiply-adds, 2 x 6 take 8 for 12.
  const VectorReduction square = main_of(conv2d({.out_blocks = 16,
                                                 .in_blocks = 16,
                                                 .height = 12,
                                                 .width = 12,
                                                 .kernel = 1,
                                                 .pad = 0,
                                                 .lanes = 8,
                                                 .in_lanes = 8}));
  const std::vector<int64_t> sizes = register_tiles(square, avx2_target())[0].sizes;
  EXPECT_EQ(sizes[0], 2) << "vectors of channels";
  EXPECT_LE(product(sizes) + sizes[0] + 1, 15) << "one register is for what is being broadcast";
}

TEST(RegisterTiles, LeaveRegistersForConstantsOfFunctions) {
  VectorReduction layer = main_of(dense(196, 768, 192, kFloat32));
  const auto most_registers = [&](const Target& target) {
    int64_t most = 0;
    for (const RegisterTile& tile : register_tiles(layer, target))
      most = std::max(most, product(tile.sizes) + std::min(tile.sizes[0], tile.sizes[1]) + 1);
    return most;
  };
  EXPECT_EQ(most_registers(avx512_target()), 32);
  const int64_t narrow = most_registers(avx2_target());
  layer.into_functions = true;
  EXPECT_EQ(most_registers(avx512_target()), 30);
  EXPECT_EQ(most_registers(avx2_target()), narrow) << "a broadcast is counted there already";
}

TEST(RegisterTiles, OneRowStillHasManySums) {
  EXPECT_GE(product(register_tiles(main_of(dense(1, 1024, 512)), avx512_target())[0].sizes), 8);
}

TEST(Tilings, CutEachVariableByDivisorsAndKeepEdgesInOneLoop) {
  for (int64_t size : {56, 35, 17}) {
    VectorReduction conv = main_of(conv2d({.out_blocks = 8, .in_blocks = 4, .height = size, .width = size}));
    std::vector<size_t> variables = tiled_variables(conv, avx512_target());
    std::vector<Tiling> all = tilings(conv, avx512_target());
    ASSERT_FALSE(all.empty());
    for (const Tiling& tiling : all) {
      EXPECT_GE(tiling.cost, all[0].cost);
      for (size_t i = 0; i < variables.size(); ++i) {
        int64_t extent = conv.extents[variables[i]], tiles = (extent + tiling.sizes[i] - 1) / tiling.sizes[i];
        EXPECT_EQ(tiles % tiling.middle[i], 0);
        EXPECT_TRUE(extent % tiling.sizes[i] == 0 || tiling.middle[i] == 1 || tiling.middle[i] == tiles);
      }
    }
  }
}

/// As of an image that is mostly padding: to go through all numbers up to its extent would take days.
TEST(Tilings, CutExtentsThatAreAsLargeAsIndices) {
  constexpr int64_t kRows = int64_t{1} << 44;
  const VectorReduction conv =
      main_of(conv2d({.out_blocks = 2, .in_blocks = 1, .height = kRows, .width = 4}));
  const std::vector<Tiling> all = tilings(conv, avx512_target());
  ASSERT_FALSE(all.empty());
  for (const Tiling& tiling : all)
    for (size_t i = 0; i < tiling.sizes.size(); ++i) EXPECT_GE(tiling.middle[i], 1);
}

TEST(Tilings, GiveEveryCoreWork) {
  Target many = avx512_target();
  many.cores = 16;
  VectorReduction conv = main_of(conv2d({.out_blocks = 8, .in_blocks = 4, .height = 56, .width = 56}));
  Tiling best = tilings(conv, many)[0];
  std::vector<size_t> variables = tiled_variables(conv, many);
  int64_t tasks = 1;
  for (size_t i = 0; i < variables.size(); ++i)
    tasks *= (conv.extents[variables[i]] + best.sizes[i] - 1) / best.sizes[i] / best.middle[i];
  EXPECT_GE(tasks, 16);
}

/// Channels x size x size under a 3x3 window of each channel, in blocks of 16.
tir::Func windows_of(int64_t channels, int64_t size) {
  tir::FuncBuilder f;
  tir::Buffer x = f.input("x", {1, channels / 16, size + 2, size + 2, 16}, kFloat32);
  tir::Buffer w = f.input("w", {channels / 16, 3, 3, 16}, kFloat32);
  tir::Buffer sum = f.reduce(
      "sum", {1, channels / 16, size, size, 16}, {3, 3}, tir::Combiner::kSum, [&](tir::Vars i, tir::Vars r) {
        Expr row = Expr(i[2]) + r[0], column = Expr(i[3]) + r[1];
        return tir::load(x, {i[0], i[1], row, column, i[4]}) * tir::load(w, {i[1], r[0], r[1], i[4]});
      });
  return f.finish("windows", {sum});
}

/// Parts that the best tiling cuts each tiled variable into.
std::vector<int64_t> parts(const VectorReduction& reduction, const Target& target) {
  std::vector<size_t> variables = tiled_variables(reduction, target);
  Tiling best = tilings(reduction, target)[0];
  std::vector<int64_t> result;
  for (size_t i = 0; i < variables.size(); ++i) {
    int64_t steps = steps_of(reduction, variables[i], target);
    result.push_back((steps + best.sizes[i] - 1) / best.sizes[i] / best.middle[i]);
  }
  return result;
}

TEST(Tilings, TasksLeaveRoomForTheWeightsOfTheNext) {
  Target target = avx512_target();
  const VectorReduction dense128 = main_of(dense(128, 3072, 768));
  const Tiling best = tilings(dense128, target)[0];
  const std::vector<size_t> variables = tiled_variables(dense128, target);
  double columns = 1;  // vectors of a task
  for (size_t i = 0; i < variables.size(); ++i)
    if (dense128.operands[1].uses[variables[i]])
      columns *= static_cast<double>(best.sizes[i] * best.middle[i]);
  EXPECT_LE(2 * columns * 768 * kLineBytes, static_cast<double>(target.l2_bytes) / 2);
}

TEST(Tilings, WeightsOfTheNextIterationComeInWhereTheyAreUsedAgain) {
  const Target target = avx512_target();
  const auto marked = [&](std::vector<WeightLoop> loops, double bytes) {
    return loop_with_next(loops, bytes, target);
  };
  EXPECT_EQ(marked({{16, true}, {14, false}}, 4e6), 0u);
  EXPECT_EQ(marked({{15, true}, {14, false}}, 4e6), std::nullopt) << "those of two do not fit";
  EXPECT_EQ(marked({{16, true}, {14, false}, {2, true}}, 4e6), 0u) << "the last one uses them once";
  EXPECT_EQ(marked({{2, true}, {8, true}, {14, false}}, 4e6), 1u) << "the innermost one has the fewest";
  EXPECT_EQ(marked({{1, false}, {14, false}}, 4e6), std::nullopt) << "all use the same";
  EXPECT_EQ(marked({{16, true}, {1, false}}, 4e6), std::nullopt) << "all use theirs once";
}

TEST(Tilings, TasksThatOthersAreComputedInEndWithRows) {
  Target target = avx512_target();
  for (int cores : {1, 2, 4})
    for (int64_t width : {56, 100, 128, 131}) {
      target.cores = cores;
      VectorReduction conv = main_of(
          conv2d({.height = 128, .width = width, .kernel = 1, .pad = 0, .lanes = 12, .in_lanes = 12}));
      conv.takes_in = true;
      const Tiling best = tilings(conv, target)[0];
      const int64_t tiles = (width + best.sizes[2] - 1) / best.sizes[2];
      EXPECT_TRUE(width % best.sizes[2] == 0 || best.middle[2] == tiles)
          << width << ", " << cores << " cores";
    }
}

TEST(Tilings, WindowsAreCutBetweenCoresAsTheirNeighboursAre) {
  Target target = avx512_target();
  target.l1_bytes = 48 << 10;
  target.l2_bytes = 2 << 20;
  std::vector<int64_t> large = parts(main_of(windows_of(384, 14)), target);  // channel blocks, rows, columns
  EXPECT_EQ(large[0], 1);
  EXPECT_EQ(large[1] % 2, 0);
  std::vector<int64_t> small =
      parts(main_of(windows_of(960, 7)), target);  // weights around it outgrow the data
  EXPECT_EQ(small[0] % 2, 0);
}

TEST(Tilings, WhatIsNotCutPaysForWhatItShares) {
  // Rows of what reads it are cut, channels of what it reads: any cut brings data from the other core.
  Target target = avx512_target();
  target.l1_bytes = 48 << 10;
  target.l2_bytes = 2 << 20;
  VectorReduction window = main_of(windows_of(960, 14));
  window.read_along = tiled_variables(window, target)[1];
  EXPECT_GT(product(parts(window, target)), 1) << "one core would do it all";
}

/// Blocks of packed columns are streams of their own; columns side by side in a row, or in a panel, are one.
/// A tile is as wide as a panel.
TEST(Tilings, ReadNoMoreStreamsThanTheProcessorFollows) {
  auto columns_of = [](int64_t packed, double streams) {
    tir::FuncBuilder f;
    using Shape = std::vector<Expr>;
    tir::Buffer x = f.input("x", {1, 1280}, kFloat32),
                w = f.input("w", packed ? Shape{1008 / packed, 1280, packed} : Shape{1280, 1008}, kFloat32);
    tir::Buffer c = f.reduce("dense", {1, 1008}, {1280}, tir::Combiner::kSum, [&](tir::Vars i, tir::Vars r) {
      const Expr n = i[1];
      return load(x, {i[0], r[0]}) *
             load(w, packed ? Shape{floordiv(n, packed), r[0], floormod(n, packed)} : Shape{r[0], n});
    });
    Target target = avx512_target();
    set_machine(target, {{"streams", streams}}, {});
    return tilings(main_of(f.finish("dense", {c})), target)[0].sizes.back();
  };
  EXPECT_LE(columns_of(16, 7), 7);
  EXPECT_EQ(columns_of(16, 32), 8) << "two a cycle, for four cycles";
  EXPECT_EQ(columns_of(0, 7), 8);
  EXPECT_EQ(columns_of(48, 7), 3);
  EXPECT_EQ(columns_of(112, 1), 7);
}

}  // namespace
}  // namespace lathe::schedule
