#include <gtest/gtest.h>

#include "core/support/error.h"
#include "core/tir/builder.h"
#include "core/tir/lower.h"
#include "core/tir/text.h"
#include "core/tir/verify.h"
#include "schedules/program.h"
#include "schedules/schedule.h"
#include "tests/schedules/programs.h"

namespace lathe::schedule {
namespace {

TEST(DecomposePadding, KeepsMeaning) {
  for (const ConvShape& shape :
       {ConvShape{.out_blocks = 1, .in_blocks = 1, .height = 5, .width = 4, .lanes = 2, .in_lanes = 2},
        ConvShape{.out_blocks = 1,
        .in_blocks = 2,
        .kernel = 5,
        .stride = 2,
        .pad = 2,
        .lanes = 2,
        .in_lanes = 2}}) {
    tir::Func func = conv2d(shape);
    Schedule s(func);
    std::vector<BlockHandle> parts = s.decompose_padding(s.get_block("pad"));
    ASSERT_EQ(parts.size(), 2u);
    EXPECT_EQ(s[parts[0]]->name, "pad_border");
    EXPECT_EQ(s[parts[1]]->name, "pad_inside");
    expect_same_results(func, s.func());
    EXPECT_TRUE(structural_equal(replay(parse_trace(to_json(s.trace())), func), s.func()));
    if (auto fault = tir::find_fault(tir::lower(s.func(), avx512_target()), tir::Level::kVectors))
      ADD_FAILURE() << *fault;
  }
}

TEST(DecomposePadding, WhatIsInsideIsWrittenWhereItIsComputed) {
  tir::Func func = inverted_residual({});
  Schedule s(func);
  s.compute_inline(s.get_block("expand_add"));
  s.compute_inline(s.get_block("relu"));
  BlockHandle inside = s.decompose_padding(s.get_block("pad"))[1], expand = s.get_block("expand");
  s.reverse_compute_at(inside, s.get_loops(expand)[3]);
  expect_same_results(func, s.func());
  // A block that writes there too may not be passed.
  Schedule other(func);
  other.compute_inline(other.get_block("expand_add"));
  other.compute_inline(other.get_block("relu"));
  BlockHandle border = other.decompose_padding(other.get_block("pad"))[0];
  other.split(other.get_loops(border)[2], {kInferred, 4});
  try {
    other.reverse_compute_at(other.get_block("pad_inside"), other.get_loops(other.get_block("expand"))[3]);
    FAIL() << "it does not see any more where the border lies";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "reverse_compute_at: buffer pad is written by block `pad_border` too");
  }
}

TEST(SeparatePadding, KeepsMeaning) {
  for (const InvertedResidual& shape :
       {InvertedResidual{}, InvertedResidual{.size = 7, .stride = 2, .kernel = 5, .border = 3}}) {
    tir::Func func = inverted_residual(shape);
    Schedule s(func);
    s.compute_inline(s.get_block("expand_add"));
    s.compute_inline(s.get_block("relu"));
    EXPECT_EQ(s[s.separate_padding(s.get_block("pad"))]->name, "pad_inside");
    expect_same_results(func, s.func());
    s.compute_inline(s.get_block("pad"));
    expect_same_results(func, s.func());
    EXPECT_TRUE(structural_equal(replay(parse_trace(to_json(s.trace())), func), s.func()));
    if (auto fault = tir::find_fault(tir::lower(s.func(), avx512_target()), tir::Level::kVectors))
      ADD_FAILURE() << *fault;
  }
}

/// Each register tile asks whether any of its results sees the image.
TEST(SkipPadding, KeepsMeaning) {
  for (const ConvShape& shape : {ConvShape{.out_blocks = 1,
                                .in_blocks = 1,
                                .height = 7,
                                .width = 8,
                                .dilation = 5,
                                .pad = 5,
                                .lanes = 2,
                                .in_lanes = 2},
                                 ConvShape{.out_blocks = 1,
                                 .in_blocks = 1,
                                 .height = 11,
                                 .width = 15,
                                 .kernel = 4,
                                 .stride = 2,
                                 .dilation = 4,
                                 .pad = 6,
                                 .lanes = 2,
                                 .in_lanes = 2}}) {
    tir::Func func = conv2d(shape);
    Schedule s(func);
    BlockHandle conv = s.get_block("conv");
    std::vector<LoopHandle> loops = s.get_loops(conv);  // n, k, h, w, lanes, reduction
    auto columns = s.split(loops[3], {kInferred, 3});
    s.reorder({columns[0], loops[5], loops[6], loops[7], loops[8], columns[1], loops[4]});
    s.decompose_reduction(conv, loops[5]);
    const Expr before = s[conv]->predicate;
    s.skip_padding(conv);
    const Expr sight = s[conv]->predicate;
    EXPECT_FALSE(structural_equal(sight, before));
    // Of the tile's own loops it knows no more than before.
    EXPECT_EQ(uses_var(sight, s[columns[1]]->var.get()), uses_var(before, s[columns[1]]->var.get()));
    for (LoopHandle loop : {loops[2], columns[0], loops[6], loops[7]})
      EXPECT_TRUE(uses_var(sight, s[loop]->var.get())) << tir::print(sight);
    expect_same_results(func, s.func());
    EXPECT_TRUE(structural_equal(replay(parse_trace(to_json(s.trace())), func), s.func()));
    if (auto fault = tir::find_fault(tir::lower(s.func(), avx512_target()), tir::Level::kVectors))
      ADD_FAILURE() << *fault;
  }
}

TEST(SkipPadding, RefusesWhatSeesNoPadding) {
  EXPECT_EQ(refusal_of(conv2d({}), [](Schedule& s) { s.skip_padding(s.get_block("conv")); }),
            "skip_padding: block `conv` also sets the sums to their first value; decompose_reduction first");
  auto refusal = [](const tir::Func& func, const std::vector<size_t>& order) -> std::string {
    Schedule s(func);
    BlockHandle conv = s.get_block("conv");
    const std::vector<LoopHandle> loops = s.get_loops(conv);
    std::vector<LoopHandle> ordered;
    for (size_t loop : order) ordered.push_back(loops[loop]);
    s.reorder(ordered);
    s.decompose_reduction(conv, ordered[0]);
    try {
      s.skip_padding(conv);
    } catch (const Error& e) {
      return e.what();
    }
    return "none";
  };
  EXPECT_EQ(refusal(conv2d({.pad = 0}), {5, 6, 7, 8, 4}),
            "skip_padding: block `conv` adds up nothing of a padded image");
  // A tile of all rows and columns.
  EXPECT_EQ(refusal(conv2d({}), {5, 6, 7, 8, 2, 3, 4}),
            "skip_padding: each tile of block `conv` sees some of the image all the time");
}

TEST(SeparatePadding, RefusesWhatIsNoPadding) {
  EXPECT_EQ(refusal_of(matmul(4, 4, 4), [](Schedule& s) { s.separate_padding(s.get_block("matmul")); }),
            "separate_padding: block `matmul` does not choose between a value and a constant");
}

std::string refusal(const tir::Func& func, const std::string& block) {
  return refusal_of(func, [&](Schedule& s) { s.decompose_padding(s.get_block(block)); });
}

tir::Func chosen_by(const std::function<Expr(tir::Vars, const tir::Buffer&)>& value) {
  tir::FuncBuilder f;
  tir::Buffer x = f.input("x", {4}, kInt32);
  return f.finish("chosen", {f.compute("out", {6}, [&](tir::Vars i) { return value(i, x); })});
}

TEST(DecomposePadding, RefusesWhatIsNoPadding) {
  EXPECT_EQ(refusal(matmul(4, 4, 4), "matmul"),
            "decompose_padding: block `matmul` does not choose between a value and a constant");
  auto at = [](const tir::Buffer& x, const Expr& i) { return tir::load(x, {min(max(i, Expr(0)), Expr(3))}); };
  EXPECT_EQ(refusal(chosen_by([&](tir::Vars i, const tir::Buffer& x) {
                      return select(less(i[0], 4), at(x, i[0]), at(x, i[0] - 1));
                    }),
                    "out"),
            "decompose_padding: block `out` does not choose between a value and a constant");
  EXPECT_EQ(refusal(chosen_by([&](tir::Vars i, const tir::Buffer& x) {
                      return select(equal(floormod(i[0], 2), 0), at(x, i[0]), constant(kInt32, 0));
                    }),
                    "out"),
            "decompose_padding: block `out` chooses by more than bounds of its variables");
  EXPECT_EQ(refusal(chosen_by([&](tir::Vars i, const tir::Buffer& x) {
                      return select(less(7, i[0]), at(x, i[0]), constant(kInt32, 0));
                    }),
                    "out"),
            "decompose_padding: block `out` has nothing inside its border");
  EXPECT_EQ(refusal(chosen_by([&](tir::Vars i, const tir::Buffer& x) {
                      return select(less(i[0], 7), at(x, i[0]), constant(kInt32, 0));
                    }),
                    "out"),
            "decompose_padding: block `out` has nothing outside its border");
}

}  // namespace
}  // namespace lathe::schedule
