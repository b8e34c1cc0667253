// Which element-wise blocks default schedules compute where they are used, and which they keep.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/support/error.h"
#include "core/tir/builder.h"
#include "core/tir/lower.h"
#include "core/tir/machine.h"
#include "core/tir/text.h"
#include "schedules/program.h"
#include "schedules/space.h"
#include "tests/schedules/programs.h"

namespace lathe::schedule {
namespace {

TEST(DefaultTrace, ComputesTablesAndSharedSumsOnce) {
  // A table by columns, sums of two neighbouring rows that each column's output uses twice.
  tir::Func func = tir::parse_func(R"(
func main(x: float32[9, 8]) -> (out: float32[8, 32]) {
  block root {
    alloc table: float32[32]
    alloc sums: float32[8, 8]
    for i in 0..32 {
      block table(spatial v in 0..32 = i) { writes table[v] table[v] = exp(cast(float32, v) * -0.1) }
    }
    for i in 0..8 { for j in 0..8 {
      block sums(spatial v in 0..8 = i, spatial w in 0..8 = j) {
        reads x[v:2, w]
        writes sums[v, w]
        sums[v, w] = x[v, w] + x[v + 1, w]
    } } }
    for i in 0..8 { for j in 0..32 {
      block out(spatial v in 0..8 = i, spatial w in 0..32 = j) {
        reads sums[v, w // 4], table[w]
        writes out[v, w]
        out[v, w] = sums[v, w // 4] * table[w] + 1.0
    } } }
} })");
  tir::Func scheduled = replay(default_trace(func, avx512_target()), func);
  EXPECT_EQ(all_blocks(scheduled).size(), 3u) << tir::print(scheduled);
  expect_same_results(func, scheduled);
}

/// y * tanh(y), sixty times in a row: written out, 2^60 loads.
TEST(DefaultTrace, BoundsWhatStandsInOneExpression) {
  constexpr int kLinks = 60;
  tir::FuncBuilder f;
  tir::Buffer y = f.input("x", {4, 32}, kFloat32);
  for (int link = 0; link < kLinks; ++link) {
    auto each = [](const tir::Buffer& of) {
      return [of](tir::Vars i) { return tir::load(of, {i[0], i[1]}); };
    };
    auto last = each(y);
    auto curve = each(f.compute(fmt::format("tanh{}", link), {4, 32},
                                [&](tir::Vars i) { return intrinsic(Intrinsic::kTanh, last(i)); }));
    y = f.compute(fmt::format("link{}", link), {4, 32}, [&](tir::Vars i) { return last(i) * curve(i); });
  }
  tir::Func func = f.finish("chain", {y});
  tir::Func scheduled = replay(default_trace(func, avx512_target()), func);
  EXPECT_LT(all_blocks(scheduled).size(), kLinks / 4) << "short ones are inlined as ever";
  expect_same_results(func, scheduled);
}

/// Transposed and reshaped to other factors, time and again: written out, an index has the three of the step
/// before in it.
tir::Func reshaped_often(size_t steps) {
  const std::vector<std::vector<int64_t>> shapes{{12, 20, 30}, {18, 40, 10}, {25, 24, 12}, {16, 15, 30}};
  tir::FuncBuilder f;
  tir::Buffer x = f.input("x", {12, 20, 30}, kFloat32);
  for (size_t step = 1; step <= steps; ++step) {
    const std::vector<Expr> from = x->shape;
    const std::vector<int64_t>& to = shapes[step % shapes.size()];
    tir::Buffer turned = f.compute("turned", {from[2], from[0], from[1]}, [&](tir::Vars i) {
      return tir::load(x, {i[1], i[2], i[0]});
    });
    x = f.compute("reshaped", {to[0], to[1], to[2]}, [&](tir::Vars i) {
      const Expr place = (i[0] * to[1] + i[1]) * to[2] + i[2];
      return tir::load(turned, {floordiv(place, from[0] * from[1]),
                                floormod(floordiv(place, from[1]), from[0]), floormod(place, from[1])});
    });
  }
  return f.finish("reshaped_often", {x});
}

TEST(DefaultTrace, BoundsHowManyReshapesStandInOneIndex) {
  for (size_t steps : {1, 2, 5}) {
    tir::Func func = reshaped_often(steps);
    tir::Func scheduled = replay(default_trace(func, avx512_target()), func);
    EXPECT_EQ(all_blocks(scheduled).size(), (steps + 1) / 2) << tir::print(scheduled);
    expect_same_results(func, scheduled);
  }
}

/// A row of 37 elements, seven times over: no vector of the whole is loaded, but each repetition is a row.
TEST(DefaultTrace, ComputesRepeatedRowsInVectors) {
  tir::FuncBuilder f;
  tir::Buffer x = f.input("x", {8, 37}, kFloat32);
  tir::Func func = f.finish("tile", {f.compute("tile", {8, 7 * 37}, [&](tir::Vars i) {
                              return tir::load(x, {i[0], floormod(i[1], 37)});
                            })});
  tir::Func scheduled = replay(default_trace(func, avx512_target()), func);
  EXPECT_THAT(vector_lanes(scheduled), testing::ElementsAre(16)) << tir::print(scheduled);
  expect_same_results(func, scheduled);
}

/// A shuffle of channels in blocks of four: which tensor an element comes from is a number once the block is
/// unrolled.
TEST(DefaultTrace, UnrollsRowsWhoseElementsAreChosen) {
  tir::Func func = tir::parse_func(R"(
func main(x: float32[8, 30], y: float32[8, 30]) -> (out: float32[4, 30, 4]) {
  block root {
    for c in 0..4 { for i in 0..30 { for l in 0..4 {
      block out(spatial vc in 0..4 = c, spatial vi in 0..30 = i, spatial vl in 0..4 = l) {
        reads x[(vc * 4 + vl) // 2, vi], y[(vc * 4 + vl) // 2, vi]
        writes out[vc, vi, vl]
        out[vc, vi, vl] = select((vc * 4 + vl) % 2 == 0, x[(vc * 4 + vl) // 2, vi], y[(vc * 4 + vl) // 2, vi])
    } } } }
} })");
  tir::Func scheduled = replay(default_trace(func, avx512_target()), func);
  EXPECT_THAT(tir::print(tir::lower(scheduled, avx512_target())), testing::Not(testing::HasSubstr("select")));
  expect_same_results(func, scheduled);
}

TEST(DefaultTrace, ChoosesElementsBeforeItComputesFunctionsOfThem) {
  tir::Func func = tir::parse_func(R"(
func main(x: float32[8, 40]) -> (out: float32[8, 44]) {
  block root {
    alloc padded: float32[8, 44]
    for c in 0..8 { for i in 0..44 {
      block padded(spatial vc in 0..8 = c, spatial vi in 0..44 = i) {
        reads x[vc, select(vi < 2, 2 - vi, select(vi < 42, vi - 2, 80 - vi))]
        writes padded[vc, vi]
        padded[vc, vi] = select(vi < 42, x[vc, select(vi < 2, 2 - vi, select(vi < 42, vi - 2, 80 - vi))], 0.5)
    } } }
    for c in 0..8 { for i in 0..44 {
      block out(spatial vc in 0..8 = c, spatial vi in 0..44 = i) {
        reads padded[vc, vi]
        writes out[vc, vi]
        out[vc, vi] = tanh(padded[vc, vi])
    } } }
} })");
  Target target = avx512_target();
  tir::Func scheduled = replay(default_trace(func, target), func);
  EXPECT_EQ(all_blocks(scheduled).size(), 2u);
  EXPECT_THAT(tir::print(tir::lower(scheduled, target)),
              testing::ContainsRegex("= tanh\\(padded\\[[^]]*ramp"));
  expect_same_results(func, scheduled);
}

/// A copy that no row of is contiguous, of phases as a transposed convolution's.
TEST(DefaultTrace, CopiesElementsBeforeItComputesFunctionsOfThem) {
  tir::Func func = tir::parse_func(R"(
func main(x: float32[4, 11, 11, 9]) -> (out: float32[4, 31, 31]) {
  block root {
    alloc copy: float32[4, 31, 31]
    for c in 0..4 { for i in 0..31 { for j in 0..31 {
      block copy(spatial vc in 0..4 = c, spatial vi in 0..31 = i, spatial vj in 0..31 = j) {
        reads x[vc, (vi + 1) // 3, (vj + 1) // 3, (vi + 1) %% 3 * 3 + (vj + 1) %% 3]
        writes copy[vc, vi, vj]
        copy[vc, vi, vj] = x[vc, (vi + 1) // 3, (vj + 1) // 3, (vi + 1) %% 3 * 3 + (vj + 1) %% 3]
    } } } }
    for c in 0..4 { for i in 0..31 { for j in 0..31 {
      block out(spatial vc in 0..4 = c, spatial vi in 0..31 = i, spatial vj in 0..31 = j) {
        reads copy[vc, vi, vj]
        writes out[vc, vi, vj]
        out[vc, vi, vj] = sigmoid(copy[vc, vi, vj])
    } } } }
} })");
  tir::Func scheduled = replay(default_trace(func, avx512_target()), func);
  EXPECT_EQ(all_blocks(scheduled).size(), 2u);
  EXPECT_NE(tir::print(scheduled).find("vectorized"), std::string::npos);
  expect_same_results(func, scheduled);
}

/// Pixels of a resize into blocks of channels: no lanes are neighbours, and in the last block some have no
/// channel.
TEST(DefaultTrace, ComputesFunctionsOfGatheredElementsInVectors) {
  for (int lanes : {8, 12, 16}) {
    tir::Func func = tir::parse_func(fmt::format(R"(
func main(x: float32[21, 7, 9]) -> (out: float32[{1}, 11, 15, {0}]) {{
  block root {{
    for c in 0..{1} {{ for i in 0..11 {{ for j in 0..15 {{ for l in 0..{0} {{
      block out(spatial vc in 0..{1} = c, spatial vi in 0..11 = i, spatial vj in 0..15 = j, spatial vl in 0..{0} = l) {{
        reads x[0:21, vi * 3 // 5, vj * 3 // 5]
        writes out[vc, vi, vj, vl]
        out[vc, vi, vj, vl] = select(vc * {0} + vl < 21, sigmoid(x[vc * {0} + vl, vi * 3 // 5, vj * 3 // 5]), 0.0)
    }} }} }} }} }}
}} }})",
                                                 lanes, (21 + lanes - 1) / lanes));
    tir::Func scheduled = replay(default_trace(func, avx512_target()), func);
    EXPECT_NE(tir::print(scheduled).find("vectorized"), std::string::npos) << lanes;
    expect_same_results(func, scheduled);
  }
}

/// A detector's head: boxes of 4 numbers and scores of 32 out of blocks of 16 channels, joined. Inlined, a
/// vector of the row would be of parts of several blocks.
TEST(DefaultTrace, KeepsWhatItsUserWouldNotLoadInVectors) {
  tir::Func func = tir::parse_func(R"(
func main(x: float32[3, 10, 16], y: float32[18, 10, 16]) -> (out: float32[90, 36]) {
  block root {
    alloc boxes: float32[90, 4]
    alloc scores: float32[90, 32]
    for r in 0..90 { for i in 0..4 {
      block boxes(spatial vr in 0..90 = r, spatial vi in 0..4 = i) {
        reads x[0:3, vr // 9, 0:16]
        writes boxes[vr, vi]
        boxes[vr, vi] = x[vr %% 9 // 4, vr // 9, (vr %% 9 * 4 + vi) %% 16]
    } } }
    for r in 0..90 { for i in 0..32 {
      block scores(spatial vr in 0..90 = r, spatial vi in 0..32 = i) {
        reads y[0:18, vr // 9, 0:16]
        writes scores[vr, vi]
        scores[vr, vi] = sigmoid(y[(vr * 32 + vi) %% 288 // 16, vr // 9, (vr * 32 + vi) %% 16])
    } } }
    for r in 0..90 { for i in 0..36 {
      block out(spatial vr in 0..90 = r, spatial vi in 0..36 = i) {
        reads boxes[vr, vi], scores[vr, vi - 4]
        writes out[vr, vi]
        out[vr, vi] = select(vi < 4, boxes[vr, vi], scores[vr, vi - 4])
    } } }
  }
})");
  Target target = avx512_target();
  tir::Func scheduled = replay(default_trace(func, target), func);
  EXPECT_EQ(all_blocks(scheduled).size(), 3u);
  const std::string lowered = tir::print(tir::lower(scheduled, target));
  EXPECT_THAT(lowered, testing::ContainsRegex("out\\[[^=]*ramp[^=]*= .*scores\\[[^]]*ramp"));
  expect_same_results(func, scheduled);
}

/// Rows of 3 numbers of a tensor that has rows of 27.
TEST(DefaultTrace, RunsThroughReshapedRowsAsOneLine) {
  tir::Func func = tir::parse_func(R"(
func main(x: float32[4, 10, 27]) -> (out: float32[360, 3]) {
  block root {
    for r in 0..360 { for i in 0..3 {
      block out(spatial vr in 0..360 = r, spatial vi in 0..3 = i) {
        reads x[0:4, 0:10, 0:27]
        writes out[vr, vi]
        out[vr, vi] = sigmoid(x[(vr * 3 + vi) // 270, (vr * 3 + vi) // 27 %% 10, (vr * 3 + vi) %% 27])
    } } }
  }
})");
  tir::Func scheduled = replay(default_trace(func, avx512_target()), func);
  EXPECT_THAT(vector_lanes(scheduled), testing::Contains(16));
  expect_same_results(func, scheduled);
}

/// Four phases of each channel, out of blocks of 15: the blocks are taken apart first, although what follows
/// finds its vectors only where the phases are joined, two steps on.
TEST(DefaultTrace, KeepsWhatTheEndWouldNotLoadInVectors) {
  tir::Func func = tir::parse_func(R"(
func main(x: float32[12, 6, 20, 15]) -> (out: float32[45, 12, 40]) {
  block root {
    alloc rows: float32[180, 6, 20]
    alloc phases: float32[45, 2, 2, 6, 20]
    alloc moved: float32[45, 6, 2, 20, 2]
    for c in 0..180 { for y in 0..6 { for i in 0..20 {
      block rows(spatial vc in 0..180 = c, spatial vy in 0..6 = y, spatial vi in 0..20 = i) {
        reads x[vc // 15, vy, vi, vc %% 15]
        writes rows[vc, vy, vi]
        rows[vc, vy, vi] = x[vc // 15, vy, vi, vc %% 15]
    } } } }
    for c in 0..45 { for p in 0..2 { for q in 0..2 { for y in 0..6 { for i in 0..20 {
      block phases(spatial vc in 0..45 = c, spatial vp in 0..2 = p, spatial vq in 0..2 = q, spatial vy in 0..6 = y, spatial vi in 0..20 = i) {
        reads rows[vc * 4 + vp * 2 + vq, vy, vi]
        writes phases[vc, vp, vq, vy, vi]
        phases[vc, vp, vq, vy, vi] = rows[vc * 4 + vp * 2 + vq, vy, vi]
    } } } } } }
    for c in 0..45 { for y in 0..6 { for p in 0..2 { for i in 0..20 { for q in 0..2 {
      block moved(spatial vc in 0..45 = c, spatial vy in 0..6 = y, spatial vp in 0..2 = p, spatial vi in 0..20 = i, spatial vq in 0..2 = q) {
        reads phases[vc, vp, vq, vy, vi]
        writes moved[vc, vy, vp, vi, vq]
        moved[vc, vy, vp, vi, vq] = phases[vc, vp, vq, vy, vi]
    } } } } } }
    for c in 0..45 { for y in 0..12 { for i in 0..40 {
      block out(spatial vc in 0..45 = c, spatial vy in 0..12 = y, spatial vi in 0..40 = i) {
        reads moved[vc, vy // 2, vy %% 2, vi // 2, vi %% 2]
        writes out[vc, vy, vi]
        out[vc, vy, vi] = moved[vc, vy // 2, vy %% 2, vi // 2, vi %% 2] * 2.0
    } } } }
  }
})");
  Target target = avx512_target();
  tir::Func scheduled = replay(default_trace(func, target), func);
  const std::string lowered = tir::print(tir::lower(scheduled, target));
  EXPECT_THAT(lowered, testing::ContainsRegex("out\\[[^=]*ramp[^=]*= rows\\[[^]]*ramp"));
  expect_same_results(func, scheduled);
}

/// Three phases in turn lie equally far apart in every third vector; a short row has part of one.
TEST(DefaultTrace, InterleavesInWholePeriods) {
  for (int64_t row : {96, 30}) {
    tir::Func func = tir::parse_func(fmt::format(R"(
func main(x: float32[126, {1}]) -> (out: float32[42, {0}]) {{
  block root {{
    for c in 0..42 {{ for i in 0..{0} {{
      block out(spatial vc in 0..42 = c, spatial vi in 0..{0} = i) {{
        reads x[vc * 3 + vi %% 3, vi // 3]
        writes out[vc, vi]
        out[vc, vi] = tanh(x[vc * 3 + vi %% 3, vi // 3])
    }} }} }}
  }}
}})",
                                                 row, row / 3));
    tir::Func scheduled = replay(default_trace(func, avx512_target()), func);
    EXPECT_THAT(vector_lanes(scheduled), testing::ElementsAre(row == 96 ? 48 : 12)) << row;
    expect_same_results(func, scheduled);
  }
}

/// A sum of two tensors that are turned, turned back: each step alone loses vectors, all of them together
/// none.
TEST(DefaultTrace, MergesWhatIsTurnedAndTurnedBack) {
  tir::Func func = tir::parse_func(R"(
func main(x: float32[3, 40, 16], y: float32[3, 40, 16]) -> (out: float32[3, 40, 16]) {
  block root {
    alloc a: float32[48, 40]
    alloc b: float32[48, 40]
    alloc sum: float32[48, 40]
    for c in 0..48 { for i in 0..40 {
      block a(spatial vc in 0..48 = c, spatial vi in 0..40 = i) {
        reads x[vc // 16, vi, vc %% 16]
        writes a[vc, vi]
        a[vc, vi] = x[vc // 16, vi, vc %% 16]
    } } }
    for c in 0..48 { for i in 0..40 {
      block b(spatial vc in 0..48 = c, spatial vi in 0..40 = i) {
        reads y[vc // 16, vi, vc %% 16]
        writes b[vc, vi]
        b[vc, vi] = y[vc // 16, vi, vc %% 16]
    } } }
    for c in 0..48 { for i in 0..40 {
      block sum(spatial vc in 0..48 = c, spatial vi in 0..40 = i) {
        reads a[vc, vi], b[vc, vi]
        writes sum[vc, vi]
        sum[vc, vi] = a[vc, vi] + b[vc, vi]
    } } }
    for c in 0..3 { for i in 0..40 { for l in 0..16 {
      block out(spatial vc in 0..3 = c, spatial vi in 0..40 = i, spatial vl in 0..16 = l) {
        reads sum[vc * 16 + vl, vi]
        writes out[vc, vi, vl]
        out[vc, vi, vl] = sum[vc * 16 + vl, vi]
    } } } }
  }
})");
  tir::Func scheduled = replay(default_trace(func, avx512_target()), func);
  EXPECT_EQ(all_blocks(scheduled).size(), 1u);
  EXPECT_THAT(vector_lanes(scheduled), testing::Contains(16));
  expect_same_results(func, scheduled);
}

/// Two tensors, one after the other by channels, then in blocks of 16 of them.
TEST(DefaultTrace, JoinsTensorsBeforeItTurnsThem) {
  tir::Func func = tir::parse_func(R"(
func main(x: float32[8, 40], y: float32[56, 40]) -> (out: float32[4, 40, 16]) {
  block root {
    alloc all: float32[64, 40]
    for c in 0..64 { for i in 0..40 {
      block all(spatial vc in 0..64 = c, spatial vi in 0..40 = i) {
        reads x[vc, vi], y[vc - 8, vi]
        writes all[vc, vi]
        all[vc, vi] = select(vc < 8, x[vc, vi], y[vc - 8, vi])
    } } }
    for c in 0..4 { for i in 0..40 { for l in 0..16 {
      block out(spatial vc in 0..4 = c, spatial vi in 0..40 = i, spatial vl in 0..16 = l) {
        reads all[vc * 16 + vl, vi]
        writes out[vc, vi, vl]
        out[vc, vi, vl] = all[vc * 16 + vl, vi]
    } } } }
} })");
  Target target = avx512_target();
  tir::Func scheduled = replay(default_trace(func, target), func);
  EXPECT_EQ(all_blocks(scheduled).size(), 3u) << "joined, rows of a tile, the tile";
  expect_same_results(func, scheduled);
  tir::Func repeated = tir::parse_func(R"(
func main(x: float32[24, 40]) -> (out: float32[9, 40, 8]) {
  block root {
    for c in 0..9 { for i in 0..40 { for l in 0..8 {
      block out(spatial vc in 0..9 = c, spatial vi in 0..40 = i, spatial vl in 0..8 = l) {
        reads x[(vc * 8 + vl) // 3, vi]
        writes out[vc, vi, vl]
        out[vc, vi, vl] = x[(vc * 8 + vl) // 3, vi]
    } } } }
} })");
  scheduled = replay(default_trace(repeated, target), repeated);
  EXPECT_EQ(all_blocks(scheduled).size(), 2u) << "rows of a tile, some of which are the same, the tile";
  expect_same_results(repeated, scheduled);
  tir::Func regrouped = tir::parse_func(R"(
func main(x: float32[7, 40, 4]) -> (out: float32[2, 40, 16]) {
  block root {
    alloc all: float32[32, 40]
    for c in 0..32 { for i in 0..40 {
      block all(spatial vc in 0..32 = c, spatial vi in 0..40 = i) {
        reads x[vc // 4, vi, vc %% 4]
        writes all[vc, vi]
        all[vc, vi] = select(vc < 28, x[vc // 4, vi, vc %% 4], 0.0)
    } } }
    for c in 0..2 { for i in 0..40 { for l in 0..16 {
      block out(spatial vc in 0..2 = c, spatial vi in 0..40 = i, spatial vl in 0..16 = l) {
        reads all[vc * 16 + vl, vi]
        writes out[vc, vi, vl]
        out[vc, vi, vl] = all[vc * 16 + vl, vi]
    } } } }
} })");
  scheduled = replay(default_trace(regrouped, target), regrouped);
  EXPECT_EQ(all_blocks(scheduled).size(), 1u) << "one row across blocks of channels is no vector";
  expect_same_results(regrouped, scheduled);
}

TEST(Readers, SayWhatLookingThroughTheScopeSays) {
  for (const Program& program : small_programs()) {
    const Readers readers(program.func);
    for (const Ref<tir::Block>& block : all_blocks(program.func))
      EXPECT_EQ(readers.consumers_of(block), consumers_of(program.func, block))
          << program.name << ", " << block->name;
  }
}

}  // namespace
}  // namespace lathe::schedule
