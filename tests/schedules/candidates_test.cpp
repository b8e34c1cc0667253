// A search is worth something where there is something to choose from.
#include <gtest/gtest.h>

#include <set>

#include "core/support/error.h"
#include "core/tir/builder.h"
#include "core/tir/lower.h"
#include "core/tir/text.h"
#include "core/tir/verify.h"
#include "schedules/space.h"
#include "tests/schedules/programs.h"

namespace lathe::schedule {
namespace {

using tir::Buffer;
using tir::FuncBuilder;
using tir::Vars;

/// Running sums along the first of two dimensions, or the last.
tir::Func running_sums(int64_t rows, int64_t columns, size_t axis) {
  FuncBuilder f;
  Buffer x = f.input("x", {rows, columns}, kFloat32);
  Buffer sums = f.ordered("sums", x->shape, axis, kFloat32, [&](const Buffer& out, Vars i) {
    std::vector<Expr> here(i.begin(), i.end()), before = here;
    before[axis] = here[axis] - 1;
    return select(less(here[axis], Expr(1)), constant(kFloat32, 0), tir::load(out, before)) +
           tir::load(x, here);
  });
  return f.finish("running_sums", {sums});
}

tir::Func squares(int64_t rows, int64_t columns) {
  FuncBuilder f;
  Buffer x = f.input("x", {rows, columns}, kFloat32);
  Buffer out = f.compute("out", x->shape, [&](Vars i) {
    return tir::load(x, {i[0], i[1]}) * tir::load(x, {i[0], i[1]});
  });
  return f.finish("squares", {out});
}

/// Every second element of every second row.
tir::Func decimated(int64_t rows, int64_t columns) {
  FuncBuilder f;
  Buffer x = f.input("x", {rows * 2, columns * 2}, kFloat32);
  Buffer out = f.compute("out", {rows, columns}, [&](Vars i) { return tir::load(x, {i[0] * 2, i[1] * 2}); });
  return f.finish("decimated", {out});
}

/// Of each kind of program that a model has next to its contractions, one that takes a few microseconds.
std::vector<Program> common_programs() {
  return {
      {"element-wise, rows of whole vectors", squares(96, 128)},
      {"element-wise, awkward rows", squares(209, 37)},
      {"element-wise, rows of one vector", squares(20000, 16)},
      {"element-wise with a broadcast row", leaky_relu(96, 128, kFloat32)},
      {"gather", decimated(100, 100)},
      {"transposition", elementwise(128, 256, kFloat32)},
      {"layout", pack_layout(4, 28, kFloat32)},
      {"softmax", softmax(128, 200)},
      {"mean of rows", reduction({96, 500}, 1, tir::Combiner::kSum, kFloat32)},
      {"largest of columns", reduction({20, 40, 64}, 2, tir::Combiner::kMax, kFloat32)},
      {"running sums along rows", running_sums(100, 300, 1)},
      {"running sums across rows", running_sums(100, 300, 0)},
      {"depthwise convolution", depthwise(4, 28, 1, kFloat32)},
      {"pooling", max_pool(4, 57, kFloat32)},
      {"product", product({.batch = 4, .m = 40, .n = 56, .k = 75}, kFloat32)},
  };
}

TEST(Candidates, AreManyDifferentProgramsForEachKindOfTask) {
  constexpr size_t kWanted = 50;
  constexpr uint64_t kMostSamples = 400;
  for (const Program& program : common_programs()) {
    SCOPED_TRACE(program.name);
    Target target = avx512_target();
    target.cores = 1;  // how the cores share the work is one more choice
    std::set<uint64_t> programs;
    const std::vector<const DesignSpace*> spaces = spaces_for(program.func, target);
    for (uint64_t seed = 0; seed < kMostSamples && programs.size() < kWanted; ++seed) {
      tir::Func scheduled = sample(*spaces[seed % spaces.size()], program.func, target, seed).func();
      tir::Func lowered = tir::lower(scheduled, target);
      if (auto fault = tir::find_fault(lowered, tir::Level::kVectors)) FAIL() << *fault;
      programs.insert(structural_hash(lowered));
    }
    EXPECT_GE(programs.size(), kWanted);
  }
}

TEST(Candidates, KeepMeaning) {
  for (const Program& program :
       std::vector<Program>{{"element-wise", squares(7, 37)},
                            {"rows of one vector", squares(19, 16)},
                            {"whole rows", squares(6, 64)},
                            {"gather", decimated(5, 21)},
                            {"transposition", elementwise(20, 36, kFloat32)},
                            {"mean", reduction({7, 50}, 1, tir::Combiner::kSum, kFloat32)},
                            {"sums", running_sums(9, 21, 1)}}) {
    SCOPED_TRACE(program.name);
    for (const DesignSpace* space : spaces_for(program.func, avx512_target()))
      for (uint64_t seed = 0; seed < 25; ++seed)
        expect_sound(program.func, sample(*space, program.func, avx512_target(), seed));
  }
}

TEST(Candidates, JoinRowsThatFillVectorsBadlyByDefault) {
  for (auto [columns, joined] : {std::pair{17, true}, {32, false}, {203, false}}) {
    const tir::Func func = squares(96, columns);
    const tir::Func scheduled = replay(default_trace(func, avx512_target()), func);
    const std::string text = tir::print(scheduled);
    SCOPED_TRACE(text);
    EXPECT_EQ(text.find("fused") != std::string::npos, joined);
    expect_same_results(func, scheduled);
  }
}

/// The mask of a row's end belongs to the function that stores it: a parallel loop becomes one of its own.
TEST(Candidates, MaskLanesInsideParallelLoops) {
  tir::Func func = leaky_relu(4000, 10, kFloat32);  // with a row added to each: rows cannot be joined
  Target target = avx512_target();
  tir::Func lowered = tir::lower(replay(default_trace(func, target), func), target);
  int parallel = 0, masked = 0;
  post_order(lowered->body, [&](const NodeRef& node) {
    const auto* branch = node.as<tir::If>();
    const auto* loop = node.as<tir::For>();
    parallel += loop && loop->iteration == tir::Iteration::kParallel;
    if (!branch || branch->condition.dtype().lanes == 1) return;
    ++masked;
    post_order(branch->then_case, [&](const NodeRef& inner) { EXPECT_FALSE(inner.as<tir::For>()); });
  });
  EXPECT_EQ(parallel, 1);
  EXPECT_EQ(masked, 1);
}

/// What is on several cores, and how finely it is cut, is chosen too.
TEST(Candidates, DifferInTheLoopsThatAreParallel) {
  tir::Func func = squares(512, 512);
  std::set<int64_t> extents;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    int64_t tasks = 1;
    post_order(sample(*spaces_for(func, avx512_target())[0], func, avx512_target(), seed).func()->body,
               [&](const NodeRef& node) {
                 const auto* loop = node.as<tir::For>();
                 if (loop && loop->iteration == tir::Iteration::kParallel) tasks = int_value(loop->extent);
               });
    extents.insert(tasks);
  }
  EXPECT_GE(extents.size(), 4u);
  EXPECT_TRUE(extents.contains(1));
}

/// A decision between structures is no step that can be made anew: every mutation changes the program.
TEST(Mutate, LeavesChoicesBetweenStructuresAlone) {
  tir::Func func = elementwise(64, 96, kFloat32);
  Random random(1);
  int same = 0, made = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Schedule parent = sample(*spaces_for(func, avx512_target())[0], func, avx512_target(), seed);
    for (int i = 0; i < 4; ++i) {
      auto child = mutate(parent.trace(), func, random);
      if (!child) continue;
      ++made;
      same += structural_equal(child->func(), parent.func());
    }
  }
  EXPECT_GT(made, 20);
  EXPECT_EQ(same, 0);
}

TEST(Annotation, OfZeroIsNone) {
  tir::Func func = squares(8, 16);
  Schedule s(func);
  LoopHandle loop = s.get_loops(s.get_block("out"))[0];
  s.annotate(loop, tir::kPrefetch, 64);
  EXPECT_EQ(s[loop]->annotations.at(tir::kPrefetch), 64);
  s.annotate(loop, tir::kPrefetch, 0);
  EXPECT_TRUE(s[loop]->annotations.empty());
}

/// A row that ends within its first vector is not taken several at a time.
TEST(Candidates, RunLittleBeyondShortRows) {
  struct {
    tir::Func func;
    int64_t most;  // with a vector of 16 for the row, and what other splits add
  } kCases[] = {{squares(40, 13), 2 * 32 * 16}, {elementwise(6, 6, kFloat32), 8 * 16}};
  for (const auto& [func, most] : kCases)
    for (const DesignSpace* space : spaces_for(func, avx512_target()))
      for (uint64_t seed = 1; seed <= 60; ++seed) {
        Schedule s = sample(*space, func, avx512_target(), seed);
        int64_t iterations = 1;
        for (LoopHandle loop : s.get_loops(s.get_block("out"))) iterations *= int_value(s[loop]->extent);
        EXPECT_LE(iterations, most) << tir::print(s.func());
      }
}

}  // namespace
}  // namespace lathe::schedule
