#include "tuner/features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/tir/prologue.h"
#include "core/tir/text.h"
#include "schedules/schedule.h"
#include "schedules/space.h"
#include "tests/schedules/programs.h"
#include "tuner/store_pattern.h"

namespace lathe::tuner {
namespace {

using ::testing::ElementsAre;

/// c = a * b with tiles of 4 x 16, the columns vectorized, and rows of tiles in parallel.
constexpr const char* kMatmul = R"(
func matmul(a: float32[64, 256], b: float32[256, 32]) -> (c: float32[64, 32]) {
  block root {
    for io in 0..16 parallel {
      for jo in 0..2 {
        for k in 0..256 {
          for ii in 0..4 unrolled {
            for ji in 0..16 vectorized {
              block mm(spatial y in 0..64 = io * 4 + ii, spatial x in 0..32 = jo * 16 + ji, reduce r in 0..256 = k) {
                reads a[y, r], b[r, x]
                writes c[y, x]
                init { c[y, x] = 0.0 }
                c[y, x] = c[y, x] + a[y, r] * b[r, x]
} } } } } } } }
)";

Target small_l1_target() {
  Target target = schedule::avx512_target();
  target.l1_bytes = 4096;
  return target;
}

/// The value of column `name` of row `row`.
double feature(const Features& features, const std::string& name, size_t row = 0) {
  std::vector<std::string> names = feature_names();
  auto found = std::find(names.begin(), names.end(), name);
  EXPECT_NE(found, names.end()) << name;
  return found == names.end() ? NAN : features.values[row * features.width + (found - names.begin())];
}

TEST(StorePattern, MatmulByHand) {
  std::vector<StorePattern> patterns = store_patterns(tir::parse_func(kMatmul));
  ASSERT_EQ(patterns.size(), 1u);
  const StorePattern& store = patterns[0];
  EXPECT_EQ(store.iterations(), 64.0 * 32 * 256);
  EXPECT_TRUE(store.reduction);
  EXPECT_FALSE(store.predicated);
  EXPECT_TRUE(store.loops[2].reduces);
  EXPECT_EQ(store.operations.adds, 1);
  EXPECT_EQ(store.operations.multiplies, 1);
  EXPECT_EQ(store.operations.loads, 3);
  ASSERT_EQ(store.accesses.size(), 3u);  // c, a, b
  const PatternAccess &c = store.accesses[0], &a = store.accesses[1], &b = store.accesses[2];
  EXPECT_TRUE(c.writes && c.reads);
  EXPECT_TRUE(a.reads && !a.writes);
  EXPECT_THAT(c.stride, ElementsAre(128, 16, 0, 32, 1));
  EXPECT_THAT(a.stride, ElementsAre(1024, 0, 1, 256, 0));
  EXPECT_THAT(b.stride, ElementsAre(0, 16, 32, 0, 1));
  // One tile: 4 x 16 results, 4 elements of a, 16 of b.
  EXPECT_EQ(c.elements(3), 64);
  EXPECT_EQ(a.elements(3), 4);
  EXPECT_EQ(b.elements(3), 16);
  // A whole reduction of one tile reads four rows of a and half of b: every other line.
  EXPECT_EQ(a.elements(2), 4 * 256);
  EXPECT_EQ(a.lines(2), 4 * 256 * 4 / 64);
  EXPECT_EQ(b.elements(2), 256 * 16);
  EXPECT_EQ(b.lines(2), 256);
  EXPECT_EQ(b.lines(1), 512);
  EXPECT_EQ(c.elements(0), 64 * 32);
}

TEST(StorePattern, FusedLoopsAndPaddingAreSeen) {
  std::vector<StorePattern> patterns = store_patterns(tir::parse_func(R"(
func pad(a: float32[8, 8]) -> (c: float32[10, 10]) {
  block root {
    for f in 0..100 {
      block pad(spatial y in 0..10 = f // 10, spatial x in 0..10 = f % 10) {
        reads a[y - 1, x - 1]
        writes c[y, x]
        c[y, x] = select(1 <= y && y < 9 && 1 <= x && x < 9, a[y - 1, x - 1], 0.0)
} } } }
)"));
  ASSERT_EQ(patterns.size(), 1u);
  EXPECT_EQ(patterns[0].accesses[0].elements(0), 100);
  EXPECT_EQ(patterns[0].accesses[0].stride[0], 1);
  EXPECT_EQ(patterns[0].accesses[1].elements(0), 64);
  EXPECT_GE(patterns[0].operations.compares, 1);
  EXPECT_FALSE(patterns[0].reduction);
}

// A language model's first call: the cache is empty, and what is new stands beside it.
TEST(StorePattern, WhatNeverRunsIsLeftOut) {
  const tir::Func joined = tir::parse_func(R"(
func joined(a: float32[4, 0], b: float32[4, 3]) -> (c: float32[4, 3], d: float32[4, 0]) {
  block root {
    for i in 0..4 {
      for j in 0..3 {
        block join(spatial y in 0..4 = i, spatial x in 0..3 = j) {
          reads a[y, x], b[y, x]
          writes c[y, x]
          c[y, x] = select(x < 0, a[y, x], b[y, x])
    } } }
    for i in 0..4 {
      for j in 0..0 {
        block nothing(spatial y in 0..4 = i, spatial x in 0..0 = j) {
          reads b[y, x]
          writes d[y, x]
          d[y, x] = b[y, x]
    } } }
} }
)");
  std::vector<StorePattern> patterns = store_patterns(joined);
  ASSERT_EQ(patterns.size(), 1u);
  ASSERT_EQ(patterns[0].accesses.size(), 2u);
  EXPECT_EQ(patterns[0].accesses[1].buffer->name, "b");
  for (float value : extract_features(joined, small_l1_target()).values) EXPECT_TRUE(std::isfinite(value));
}

TEST(StorePattern, IntermediateOfATileIsReused) {
  std::vector<StorePattern> patterns = store_patterns(tir::parse_func(R"(
func two(a: float32[64, 64]) -> (c: float32[64, 64]) {
  block root {
    alloc t: float32[64, 64]
    for i in 0..64 {
      for j in 0..64 {
        block first(spatial y in 0..64 = i, spatial x in 0..64 = j) {
          reads a[y, x]
          writes t[y, x]
          t[y, x] = a[y, x] + 1.0
      } }
      for j in 0..64 {
        block second(spatial y in 0..64 = i, spatial x in 0..64 = j) {
          reads t[y, x]
          writes c[y, x]
          c[y, x] = t[y, x] * 2.0
  } } } } }
)"));
  ASSERT_EQ(patterns.size(), 2u);
  const PatternAccess &made = patterns[0].accesses[0], &used = patterns[1].accesses[1];
  EXPECT_TRUE(made.intermediate && used.intermediate);
  EXPECT_EQ(made.alive_from, 1u);
  EXPECT_EQ(made.elements(0), 64);  // one row, again and again
  EXPECT_EQ(used.elements(0), 64);
  EXPECT_EQ(patterns[1].accesses[0].elements(0), 64 * 64);
}

TEST(Features, WorkDoneAheadIsNotSeen) {
  schedule::Schedule packed(tir::parse_func(kMatmul));
  packed.cache_read(packed.get_block("mm"), 1, tir::Scope::kGlobal);
  EXPECT_EQ(extract_features(packed.func(), small_l1_target()).rows(), 2u);
  Features ahead = extract_features(tir::with_constant_params(packed.func(), 2), small_l1_target()),
           plain = extract_features(tir::parse_func(kMatmul), small_l1_target());
  EXPECT_EQ(ahead.values, plain.values);  // b's copy is a parameter as b was
}

TEST(Features, MatmulByHand) {
  Features features = extract_features(tir::parse_func(kMatmul), small_l1_target());
  EXPECT_EQ(features.rows(), 1u);
  EXPECT_EQ(features.width, feature_names().size());
  double executions = 64 * 32 * 256;
  EXPECT_FLOAT_EQ(feature(features, "executions"), std::log2(1 + executions));
  EXPECT_FLOAT_EQ(feature(features, "flops"), std::log2(1 + 2 * executions));
  EXPECT_EQ(feature(features, "share of the program's flops"), 1);
  EXPECT_FLOAT_EQ(feature(features, "reduction steps"), 8);
  EXPECT_FLOAT_EQ(feature(features, "executions a result"), 1);
  EXPECT_FLOAT_EQ(feature(features, "parallel iterations"), 4);
  EXPECT_EQ(feature(features, "cores kept busy"), 1);
  EXPECT_EQ(feature(features, "lanes used"), 1);
  EXPECT_EQ(feature(features, "stride of the written vector"), 1);
  EXPECT_EQ(feature(features, "broadcast loads"), 1);
  EXPECT_EQ(feature(features, "contiguous loads"), 2);
  EXPECT_FLOAT_EQ(feature(features, "unrolled body"), std::log2(1 + 64.0));
  EXPECT_FLOAT_EQ(feature(features, "result vectors of a tile"), std::log2(1 + 4.0));
  EXPECT_FLOAT_EQ(feature(features, "registers taken"), (4 + 4 + 1) / 32.0);
  EXPECT_FLOAT_EQ(feature(features, "executions an operand"), std::log2(1 + 4.0 / 5));
  EXPECT_FLOAT_EQ(feature(features, "loop around the tile"), std::log2(1 + 256.0));
  EXPECT_EQ(feature(features, "which reduces"), 1);
  // Of a tile's reduction 4 KiB of a do not fit in L1 beside b: only one step does. Each step's lines of b
  // come again for each row of tiles.
  EXPECT_FLOAT_EQ(feature(features, "L1: executions on them"), std::log2(1 + 64.0));
  EXPECT_FLOAT_EQ(feature(features, "L2: executions on them"), std::log2(1 + executions));
  EXPECT_FLOAT_EQ(feature(features, "L2: traffic"), std::log2(1 + 4.0 * (64 * 256 + 256 * 32 + 64 * 32)));
  EXPECT_EQ(feature(features, "written: in registers"), 0);
  EXPECT_FLOAT_EQ(feature(features, "read 1: bytes"), std::log2(1 + 64 * 256 * 4.0));  // the widest first
}

TEST(Features, AllProgramsAndSchedulesGiveOneWidthAndFiniteNumbers) {
  size_t width = feature_names().size();
  for (const schedule::Program& program : schedule::small_programs()) {
    SCOPED_TRACE(program.name);
    std::vector<tir::Func> funcs = {program.func};
    for (const schedule::DesignSpace* space : schedule::spaces_for(program.func, small_l1_target()))
      for (uint64_t seed = 0; seed < 4; ++seed)
        funcs.push_back(schedule::sample(*space, program.func, small_l1_target(), seed).func());
    for (const tir::Func& func : funcs) {
      Features features = extract_features(func, small_l1_target());
      EXPECT_EQ(features.width, width);
      EXPECT_EQ(features.values.size() % width, 0u);
      for (float value : features.values) EXPECT_TRUE(std::isfinite(value));
    }
  }
}

TEST(Features, TellSchedulesApart) {
  tir::Func func = schedule::conv2d({.out_blocks = 4, .in_blocks = 4, .height = 14, .width = 14}, kFloat32);
  std::set<std::vector<float>> seen;
  const schedule::DesignSpace& space = *schedule::spaces_for(func, small_l1_target()).front();
  std::set<std::string> programs;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    tir::Func scheduled = schedule::sample(space, func, small_l1_target(), seed).func();
    programs.insert(tir::print(scheduled));
    seen.insert(extract_features(scheduled, small_l1_target()).values);
  }
  EXPECT_GE(seen.size() * 10, programs.size() * 9);
}

TEST(Features, NamesAreUnique) {
  std::vector<std::string> names = feature_names();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
}

}  // namespace
}  // namespace lathe::tuner
