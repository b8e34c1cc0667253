#include <gtest/gtest.h>

#include "core/support/error.h"
#include "core/tir/builder.h"
#include "core/tir/lower.h"
#include "core/tir/machine.h"
#include "core/tir/prologue.h"
#include "core/tir/verify.h"
#include "schedules/primitive.h"
#include "schedules/program.h"
#include "schedules/schedule.h"
#include "schedules/space.h"
#include "schedules/spaces/building_blocks.h"
#include "tests/schedules/programs.h"

namespace lathe::schedule {
namespace {

Schedule rewritten(const tir::Func& func) {
  Schedule s(func);
  s.im2col(s.get_block("conv"));
  return s;
}

TEST(Im2col, KeepsMeaning) {
  for (int64_t kernel : {1, 2, 3, 5})
    for (int64_t stride : {1, 2})
      for (int64_t dilation : {1, 2}) {
        SCOPED_TRACE(fmt::format("{} taps, stride {}, dilation {}", kernel, stride, dilation));
        tir::Func func = conv2d({.out_blocks = 2,
                                 .in_blocks = 2,
                                 .height = 9,
                                 .width = 11,
                                 .kernel = kernel,
                                 .stride = stride,
                                 .dilation = dilation,
                                 .pad = kernel / 2,
                                 .lanes = 4,
                                 .in_lanes = 3,
                                 .residual = true});
        Schedule s = rewritten(func);
        expect_same_results(func, s.func());
        EXPECT_TRUE(structural_equal(replay(parse_trace(to_json(s.trace())), func), s.func()));
      }
}

TEST(Im2col, GroupsOfBytesStayTogether) {
  tir::Func func = dot_conv2d(kUInt8, kInt8, 7);
  Schedule s(func);
  Im2colBlocks b = s.im2col(s.get_block("conv"));
  expect_same_results(func, s.func());
  EXPECT_TRUE(vector_reduction(s[b.product])->dot) << "still a sum of groups of neighbours";
}

TEST(Im2col, NeighbouringPositionsAreNeighboursInMemory) {
  Schedule s(conv2d({.in_blocks = 3, .height = 7, .width = 5, .in_lanes = 8}));
  Im2colBlocks b = s.im2col(s.get_block("conv"));
  const std::vector<Expr>& shape = s[b.columns]->writes[0].buffer->shape;
  std::vector<int64_t> extents;
  for (const Expr& extent : shape) extents.push_back(int_value(extent));
  EXPECT_EQ(extents, (std::vector<int64_t>{3, 3, 3, 35, 8}));  // channels, taps, position, channels
}

std::string refusal(const tir::Func& func, const std::string& block) {
  return refusal_of(func, [&](Schedule& s) { s.im2col(s.get_block(block)); });
}

TEST(Im2col, RefusesWhatItCannotRewrite) {
  EXPECT_EQ(
      refusal(matmul(4, 4, 4), "matmul"),
      "im2col: block `matmul` has no two neighbouring dimensions along which one operand alone changes");
  EXPECT_EQ(refusal(max_pool(1, 9), "pool"), "im2col: block `pool` is no sum");
  EXPECT_EQ(refusal(conv2d({}), "relu"), "im2col: block `relu` is no sum");
  Schedule padded(conv2d({}));
  padded.compute_inline(padded.get_block("pad"));
  EXPECT_EQ(refusal(padded.func(), "conv"), "im2col: block `conv` loads under a condition");
  Schedule s(conv2d({}));
  BlockHandle conv = s.get_block("conv");
  s.split(s.get_loops(conv)[1], {kInferred, 1});
  try {
    s.im2col(conv);
    ADD_FAILURE() << "accepted";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "im2col: block `conv` is scheduled already");
  }
}

TEST(ReverseComputeInline, GoesToWhereAVariableIndexesTwoDimensionsByItsParts) {
  tir::Func func = conv2d({.height = 5, .width = 7, .epilogue = true});
  Schedule s(func);
  inline_elementwise(s);
  Im2colBlocks b = s.im2col(s.get_block("conv"));
  s.reverse_compute_inline(s.get_block("relu"));
  expect_same_results(func, s.func());
  EXPECT_EQ(s[b.result]->writes[0].buffer, s.func()->params.back());
}

TEST(ReverseComputeInline, NeedsAllOfWhatItReads) {
  tir::FuncBuilder f;
  tir::Buffer x = f.input("x", {2, 4}, kInt32);
  tir::Buffer twice = f.compute("twice", {2, 4}, [&](tir::Vars i) { return load(x, {i[0], i[1]}) * 2; });
  tir::Buffer out = f.compute("out", {1, 4}, [&](tir::Vars i) { return load(twice, {0, i[1]}) + 1; });
  Schedule s(f.finish("first_row", {out}));
  try {
    s.reverse_compute_inline(s.get_block("out"));
    ADD_FAILURE() << "accepted";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "reverse_compute_inline: block `out` does not use all of twice");
  }
}

const DesignSpace* implicit_gemm(const tir::Func& func, const Target& target) {
  for (const DesignSpace* space : spaces_for(func, target))
    if (space->name == std::string("implicit-gemm")) return space;
  return nullptr;
}

TEST(ImplicitGemm, EverySampleKeepsMeaningAndLowers) {
  const Target target = avx512_target();
  for (const ConvShape& shape :
       {ConvShape{.out_blocks = 2, .in_blocks = 4, .height = 7, .width = 7, .kernel = 1, .pad = 0},
        ConvShape{.out_blocks = 2, .in_blocks = 1, .height = 7, .width = 7, .residual = true},
        ConvShape{.out_blocks = 2, .in_blocks = 1, .height = 11, .width = 9, .stride = 2, .pad = 0},
        ConvShape{.out_blocks = 2,
        .in_blocks = 1,
        .height = 13,
        .width = 11,
        .kernel = 1,
        .stride = 2,
        .pad = 0,
        .epilogue = false}}) {
    tir::Func func = tir::with_constant_params(conv2d(shape, kFloat32), 2);
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      Schedule s(func, seed);
      generate_implicit_gemm(s, target, {});
      SCOPED_TRACE(to_text(s.trace()));
      expect_same_results(func, s.func());
      tir::Func lowered = tir::lower(s.func(), target);
      if (auto fault = tir::find_fault(lowered, tir::Level::kVectors)) ADD_FAILURE() << *fault;
    }
  }
}

TEST(ImplicitGemm, IsOfferedWhereItMayPay) {
  const Target target = avx512_target();
  auto offered = [&](const tir::Func& func) {
    return implicit_gemm(tir::with_constant_params(func, 2), target) != nullptr;
  };
  ConvShape shape{.out_blocks = 12, .in_blocks = 48, .height = 17, .width = 17, .kernel = 1, .pad = 0};
  EXPECT_TRUE(offered(conv2d(shape, kFloat32)));
  shape.height = 1;
  EXPECT_FALSE(offered(conv2d(shape, kFloat32))) << "nothing to join";
  EXPECT_FALSE(offered(conv2d({.out_blocks = 4, .in_blocks = 4, .height = 56, .width = 56}, kFloat32)))
      << "nine copies of the data for four vectors of results";
  EXPECT_FALSE(offered(matmul(64, 64, 64, kFloat32)));
  EXPECT_FALSE(offered(depthwise(4, 14, 1, kFloat32)));
  EXPECT_FALSE(offered(inverted_residual({}, kFloat32))) << "three convolutions";
}

TEST(ImplicitGemm, ComesFirstWhereRowsAreCutBadly) {
  const ConvShape narrow{.out_blocks = 60,
                         .in_blocks = 20,
                         .height = 7,
                         .width = 7,
                         .kernel = 1,
                         .pad = 0,
                         .lanes = 8,
                         .in_lanes = 8};
  auto first = [](const ConvShape& shape, const Target& target) {
    return std::string(spaces_for(tir::with_constant_params(conv2d(shape, kFloat32), 2), target)[0]->name);
  };
  EXPECT_EQ(first(narrow, avx2_target()), "implicit-gemm") << "two vectors by seven need 17 registers";
  ConvShape wide = narrow;
  wide.height = wide.width = 12;
  EXPECT_EQ(first(wide, avx2_target()), "contraction");
  ConvShape strided = narrow;
  strided.height = strided.width = 14;
  strided.stride = 2;
  EXPECT_EQ(first(strided, avx2_target()), "implicit-gemm") << "no element is gathered twice";
  ConvShape window = narrow;
  window.kernel = 3;
  EXPECT_NE(first(window, avx2_target()), "implicit-gemm") << "windows are not copied without a measurement";
}

TEST(ImplicitGemm, OneTapGathersNothing) {
  const Target target = avx512_target();
  for (int64_t stride : {1, 2}) {
    tir::Func func = conv2d(
        {.height = 7, .width = 7, .kernel = 1, .stride = stride, .pad = 0, .residual = true}, kFloat32);
    Schedule s(func);
    generate_implicit_gemm(s, target, {Decide::kHeuristic});
    expect_same_results(func, s.func());
    std::set<std::string> blocks;
    for (const Ref<tir::Block>& block : all_blocks(s.func())) blocks.insert(block->name);
    EXPECT_EQ(blocks.count("conv_columns"), stride == 1 ? 0u : 1u);
    EXPECT_EQ(blocks.count("relu"), 0u) << "it is part of the result";
  }
}

TEST(ImplicitGemm, OneTapOfADotProductGathersNothing) {
  const Target target = avx512_target();
  for (const DataType dtype : {kBFloat16, kInt8}) {
    const DataType sum = dtype == kInt8 ? kInt32 : kFloat32;
    const int64_t group = dot_length(dtype, sum), lanes = 12;
    tir::FuncBuilder f;
    tir::Buffer data = f.input("data", {1, 2, 7, 7, lanes}, dtype),
                weight = f.input("weight", {1, 2, lanes / group, 16, group}, dtype);
    tir::Buffer conv =
        f.reduce("conv", {1, 1, 7, 7, 16}, {2, lanes / group, group}, tir::Combiner::kSum,
                 [&](tir::Vars i, tir::Vars r) {
                   Expr x = load(data, {i[0], r[0], i[2], i[3], r[1] * group + r[2]});
                   return cast(sum, x) * cast(sum, load(weight, {i[1], r[0], r[1], i[4], r[2]}));
                 });
    const tir::Func func = f.finish("main", {conv});
    Schedule s(func);
    generate_implicit_gemm(s, target, {Decide::kHeuristic});
    expect_same_results(func, s.func());
    for (const Ref<tir::Block>& block : all_blocks(s.func())) EXPECT_NE(block->name, "conv_columns");
  }
}

bool has_step(const Trace& trace, const std::string& name) {
  return std::any_of(trace.steps.begin(), trace.steps.end(),
                     [&](const Step& step) { return step.primitive->name == name; });
}

TEST(ReductionBlocks, KeepMeaningInBothSpacesAndLower) {
  Target target = avx512_target();
  target.l1_bytes = 4096;
  for (bool epilogue : {true, false}) {
    tir::Func func = conv2d({.out_blocks = 2,
                             .in_blocks = 8,
                             .height = 7,
                             .width = 9,
                             .kernel = 1,
                             .pad = 0,
                             .epilogue = epilogue,
                             .residual = epilogue},
                            kFloat32);
    for (const DesignSpace* space : spaces_for(func, target)) {
      int cut = 0;
      for (uint64_t seed = 1; seed <= 6; ++seed) {
        Schedule s = sample(*space, func, target, seed);
        if (!has_step(s.trace(), "rfactor")) continue;
        ++cut;
        SCOPED_TRACE(to_text(s.trace()));
        expect_same_results(func, s.func());
        tir::Func lowered = tir::lower(s.func(), target);
        if (auto fault = tir::find_fault(lowered, tir::Level::kVectors)) ADD_FAILURE() << *fault;
      }
      EXPECT_GE(cut, 1) << space->name;
    }
  }
}

TEST(ReductionBlocks, AreOfferedWhereWeightsOutgrowTheFirstCacheAndTilesShareThem) {
  auto offered = [&](const ConvShape& shape) {
    Target target = avx512_target();
    Schedule s(conv2d(shape, kFloat32));
    inline_elementwise(s);
    auto reduction = vector_reduction(dominant_reduction(s.func()));
    sample_reduction_blocks(s, *reduction, target, {Decide::kHeuristic});
    EXPECT_FALSE(has_step(s.trace(), "rfactor")) << "by measurement only";
    return has_step(s.trace(), "sample_categorical");
  };
  EXPECT_TRUE(offered({.in_blocks = 64, .height = 14, .width = 14, .kernel = 1, .pad = 0}));
  EXPECT_FALSE(offered({.in_blocks = 4, .height = 14, .width = 14, .kernel = 1, .pad = 0}));
  EXPECT_FALSE(offered({.in_blocks = 64, .height = 4, .width = 4, .kernel = 1, .pad = 0}));
}

// What a register tile takes of weights is 4 MB where half of them would fit: its neighbours read them from
// further away again, each.
TEST(ReductionBlocks, AreTheDefaultWhereOneTilesWeightsOutgrowTheSecondCache) {
  auto cut = [&](int64_t in_blocks, int64_t height) {
    Target target = avx512_target();
    target.l2_bytes = 1 << 20;
    Schedule s(
        conv2d({.in_blocks = in_blocks, .height = height, .width = 7, .kernel = 1, .pad = 0}, kFloat32));
    inline_elementwise(s);
    auto reduction = vector_reduction(dominant_reduction(s.func()));
    sample_reduction_blocks(s, *reduction, target, {Decide::kHeuristic});
    return has_step(s.trace(), "rfactor");
  };
  EXPECT_TRUE(cut(1024, 7));
  EXPECT_FALSE(cut(1024, 1)) << "nobody else reads them";
  EXPECT_FALSE(cut(64, 7)) << "they fit";
}

}  // namespace
}  // namespace lathe::schedule
