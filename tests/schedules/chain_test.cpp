#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/tir/lower.h"
#include "core/tir/text.h"
#include "core/tir/verify.h"
#include "schedules/program.h"
#include "schedules/space.h"
#include "schedules/spaces/building_blocks.h"
#include "tests/schedules/programs.h"

namespace lathe::schedule {
namespace {

/// The blocks around which `func` has the block named `name`: inside the same outermost loop.
std::set<std::string> beside(const tir::Func& func, const std::string& name) {
  Path path = *path_to_block(func, name);
  std::set<std::string> names;
  for (const Ref<tir::Block>& block : blocks_in(top_statement(path)))
    if (block->name != name) names.insert(block->name);
  return names;
}

TEST(ReductionChain, FollowsWhatIsReadOnce) {
  auto names = [](tir::Func func) {
    Schedule s(func);
    inline_elementwise(s);
    std::vector<std::string> found;
    for (const VectorReduction& each : reduction_chain(s.func(), avx512_target()))
      found.push_back(each.block);
    return found;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(inverted_residual({}, kFloat32)), (Names{"project", "depthwise", "expand"}));
  EXPECT_EQ(names(inverted_residual({.projects = false}, kFloat32)), (Names{"depthwise", "expand"}));
  EXPECT_EQ(names(inverted_residual({.padded = false}, kFloat32)), (Names{"project", "depthwise", "expand"}));
  EXPECT_EQ(names(inverted_residual({.size = 3, .kernel = 5, .dear = true}, kFloat32)),
            (Names{"project", "depthwise", "expand"}))
      << "its border is larger than the image: padding stays a block of its own";
  EXPECT_EQ(names(depthwise(2, 8, 1, kFloat32)), Names{"depthwise"});
  EXPECT_EQ(names(softmax(8, 64)), Names{}) << "its sums are of scalars";
}

TEST(Chain, EverySampleKeepsMeaningAndLowers) {
  const Target target = avx512_target();
  std::set<bool> expands_inside, filters_inside, pads, shares;
  for (const InvertedResidual& shape :
       {InvertedResidual{}, InvertedResidual{.middle_blocks = 3, .size = 8, .stride = 2},
        InvertedResidual{.in_blocks = 2, .size = 7, .stride = 2, .kernel = 5, .lanes = 8},
        InvertedResidual{.out_blocks = 2, .size = 10, .lanes = 12, .padded = false},
        InvertedResidual{.size = 11, .stride = 2, .projects = false},
        InvertedResidual{.size = 3, .kernel = 5, .dear = true}}) {
    tir::Func func = inverted_residual(shape);
    const DesignSpace* space = spaces_for(func, target)[0];
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      Schedule s = sample(*space, func, target, seed);
      SCOPED_TRACE(to_text(s.trace()));
      expect_same_results(func, s.func());
      tir::Func lowered = tir::lower(s.func(), target);
      if (auto fault = tir::find_fault(lowered, tir::Level::kVectors)) ADD_FAILURE() << *fault;
      Schedule of_task = sample(*space, tir::canonical(func), target, seed);
      EXPECT_TRUE(structural_equal(replay(parse_trace(to_json(of_task.trace())), tir::canonical(func)),
                                   of_task.func()));
      expands_inside.insert(beside(s.func(), "expand").contains("depthwise"));
      const std::string last = path_to_block(s.func(), "project_rf") ? "project_rf" : "project";
      if (shape.projects) filters_inside.insert(beside(s.func(), "depthwise").contains(last));
      if (shape.padded) pads.insert(path_to_block(s.func(), "pad").has_value());
      shares.insert(last == "project_rf");
    }
  }
  EXPECT_EQ(expands_inside, (std::set{false, true}));
  EXPECT_EQ(filters_inside, (std::set{false, true}));
  EXPECT_EQ(pads, (std::set{false, true}));
  EXPECT_EQ(shares, (std::set{false, true}));
}

/// The most bytes of a buffer that should be registers.
int64_t most_local_bytes(const tir::Func& lowered) {
  int64_t most = 0;
  post_order(lowered->body, [&](const NodeRef& node) {
    const tir::Alloc* alloc = node.as<tir::Alloc>();
    if (alloc && alloc->buffer->scope == tir::Scope::kLocal)
      most = std::max(most, tir::byte_size(alloc->buffer));
  });
  return most;
}

/// A window may be larger than the image that it slides over, and its border several times as large.
std::vector<tir::Func> small_images() {
  std::vector<tir::Func> programs;
  for (int64_t size : {1, 2, 3, 6})
    for (int64_t kernel : {3, 7})
      for (bool dear : {false, true})
        programs.push_back(inverted_residual({.in_blocks = 3,
                                              .middle_blocks = 3,
                                              .out_blocks = 3,
                                              .size = size,
                                              .kernel = kernel,
                                              .dear = dear},
                                             kFloat32));
  return programs;
}

TEST(Chain, SmallImagesHaveSchedulesToo) {
  for (int cores : {1, 2}) {
    Target target = avx512_target();
    target.cores = cores;
    for (const tir::Func& func : small_images()) {
      Schedule s(func);
      ASSERT_NO_THROW(spaces_for(func, target)[0]->generate(s, target, {Decide::kHeuristic}));
      expect_same_results(func, s.func());
      EXPECT_LE(most_local_bytes(tir::lower(s.func(), target)), 32 * 64) << "sums are in registers";
    }
  }
}

TEST(ScheduleRest, WhatEndsATileStaysThere) {
  for (int cores : {1, 2}) {
    Target target = avx512_target();
    target.cores = cores;
    for (const tir::Func& func : small_images()) {
      Schedule s(func);
      inline_elementwise(s);
      ASSERT_NO_THROW(schedule_rest(s, target, {}));
      expect_same_results(func, s.func());
      EXPECT_LE(most_local_bytes(tir::lower(s.func(), target)), 32 * 64) << "sums are in registers";
    }
  }
}

TEST(Chain, TheBorderIsLeftOut) {
  const Target target = avx512_target();
  tir::Func func =
      inverted_residual({.in_blocks = 4, .middle_blocks = 24, .out_blocks = 4, .size = 14}, kFloat32);
  tir::Func lowered = tir::lower(replay(default_trace(func, target), func), target);
  post_order(lowered->body, [](const NodeRef& node) {
    const tir::Alloc* alloc = node.as<tir::Alloc>();
    if (!alloc) return;
    std::vector<Expr> shape = alloc->buffer->shape;
    shape.pop_back();  // a vector
    for (const Expr& extent : shape)
      EXPECT_TRUE(int_value(extent) <= 14 || is_int(extent, 24)) << alloc->buffer->name;
  });
}

TEST(Chain, AllPaddingIsLeftOutThatAddsNothing) {
  const Target target = avx512_target();
  for (int border : {0, 1}) {
    tir::Func func = inverted_residual({.size = 6, .border = border}, kFloat32);
    EXPECT_EQ(path_to_block(replay(default_trace(func, target), func), "pad").has_value(), border != 0);
  }
}

TEST(Chain, TensorsTooLargeForCachesAreComputedPartByPart) {
  Target target = avx512_target();
  target.cores = 1;
  tir::Func func = inverted_residual({.middle_blocks = 6, .size = 112, .stride = 2}, kFloat32);
  tir::Func scheduled = replay(default_trace(func, target), func);
  EXPECT_TRUE(beside(scheduled, "expand").contains("depthwise")) << "4.8 MB, written and read again";
}

/// The variables of the block whose values the parallel loop around it decides.
std::set<size_t> cut_variables(const tir::Func& func, const std::string& name) {
  Path path = *path_to_block(func, name);
  std::set<size_t> cut;
  const std::vector<tir::BlockIter>& iters = path.back().as<tir::Block>()->iters;
  for (const Ref<tir::For>& loop : loops_around(path))
    for (size_t i = 0; i < iters.size(); ++i)
      if (loop->iteration == tir::Iteration::kParallel && uses_var(iters[i].value, loop->var.get()))
        cut.insert(i);
  return cut;
}

TEST(Chain, StagesAreCutBetweenCoresAlike) {
  // 14 rows, of 24 blocks of channels: alone, the expansion might be cut along either.
  const Target target = avx512_target();
  tir::Func func =
      inverted_residual({.in_blocks = 4, .middle_blocks = 24, .out_blocks = 4, .size = 14}, kFloat32);
  tir::Func scheduled = replay(default_trace(func, target), func);
  EXPECT_EQ(cut_variables(scheduled, "expand"), std::set<size_t>{2});
  EXPECT_EQ(cut_variables(scheduled, "project"), std::set<size_t>{2});
}

/// The shape of what is computed of the results of block `name`, without dimensions of extent 1.
std::vector<int64_t> results_shape(const tir::Func& func, const std::string& name) {
  std::vector<int64_t> shape;
  Ref<tir::Block> reduction = path_to_block(func, name)->back().cast<tir::Block>();
  for (const Ref<tir::Block>& after : consumers_of(func, reduction))
    for (const Expr& extent : after->writes[0].buffer->shape)
      if (!is_int(extent, 1)) shape.push_back(int_value(extent));
  return shape;
}

TEST(Chain, WhatCoresShareLiesPartByPart) {
  tir::Func func =
      inverted_residual({.in_blocks = 4, .middle_blocks = 24, .out_blocks = 4, .size = 14}, kFloat32);
  Target target = avx512_target();
  EXPECT_EQ(results_shape(replay(default_trace(func, target), func), "expand"),
            (std::vector<int64_t>{14, 24, 14, 16}))
      << "cut by rows";
  target.cores = 1;
  EXPECT_EQ(results_shape(replay(default_trace(func, target), func), "expand"),
            (std::vector<int64_t>{24, 14, 14, 16}));
}

TEST(Chain, CoresAddUpTheirOwnShareOfTheTerms) {
  const Target target = avx512_target();
  tir::Func func =
      inverted_residual({.in_blocks = 10, .middle_blocks = 60, .out_blocks = 10, .size = 7}, kFloat32);
  int found = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    tir::Func scheduled = sample(*spaces_for(func, target)[0], func, target, seed).func();
    if (!path_to_block(scheduled, "project_rf")) continue;
    ++found;
    const std::vector<tir::BlockIter>& iters =
        path_to_block(scheduled, "project_rf")->back().as<tir::Block>()->iters;
    size_t share = 5;  // after the result's own five
    ASSERT_EQ(iters[share].kind, tir::IterKind::kSpatial);
    EXPECT_TRUE(cut_variables(scheduled, "project_rf").contains(share)) << seed;
    EXPECT_FALSE(cut_variables(scheduled, "project").empty()) << seed << ": cores add the shares up together";
  }
  EXPECT_GT(found, 3);
}

TEST(Chain, NothingIsComputedAgainForOtherChannels) {
  // Tasks of the projection are cut along its 20 blocks of channels: each needs all of the depthwise results.
  const Target target = avx512_target();
  tir::Func func =
      inverted_residual({.in_blocks = 10, .middle_blocks = 60, .out_blocks = 20, .size = 7}, kFloat32);
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    tir::Func scheduled = sample(*spaces_for(func, target)[0], func, target, seed).func();
    if (!beside(scheduled, "depthwise").contains("project")) continue;
    Path path = *path_to_block(scheduled, "project");
    for (const Ref<tir::For>& loop : loops_around(path)) {
      if (loop->iteration != tir::Iteration::kParallel) continue;
      Expr blocks = path.back().as<tir::Block>()->iters[1].value;
      EXPECT_FALSE(uses_var(blocks, loop->var.get())) << seed;
    }
  }
}

}  // namespace
}  // namespace lathe::schedule
