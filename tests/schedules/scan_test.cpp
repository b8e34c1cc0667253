#include <gtest/gtest.h>

#include "core/support/error.h"
#include "core/tir/builder.h"
#include "core/tir/lower.h"
#include "core/tir/text.h"
#include "core/tir/verify.h"
#include "schedules/program.h"
#include "schedules/space.h"
#include "tests/schedules/programs.h"

namespace lathe::schedule {
namespace {

/// Running sums of twice x along `axis`.
tir::Func running_sums(const std::vector<int64_t>& shape, size_t axis) {
  tir::FuncBuilder f;
  tir::Buffer x = f.input("x", {shape.begin(), shape.end()}, kInt32);
  tir::Buffer twice = f.compute("twice", x->shape, [&](tir::Vars i) {
    return tir::load(x, {i.begin(), i.end()}) * constant(kInt32, 2);
  });
  tir::Buffer sums = f.ordered("sums", x->shape, axis, kInt32, [&](const tir::Buffer& out, tir::Vars i) {
    std::vector<Expr> here(i.begin(), i.end()), before = here;
    before[axis] = here[axis] - 1;
    Expr first = less(here[axis], Expr(1));
    return select(first, constant(kInt32, 0), tir::load(out, before)) + tir::load(twice, here);
  });
  return f.finish("running_sums", {sums});
}

TEST(Scan, KeepsMeaning) {
  const Target target = avx512_target();
  for (int64_t lines : {1, 5, 16, 37, 130})
    for (auto [shape, axis] : {std::pair{std::vector<int64_t>{lines, 9}, 1},
                               {{9, lines}, 0},
                               {{3, 7, lines}, 1},
                               {{3, lines, 7}, 2},
                               {{3, lines, 7, 1}, 2},
                               {{3, 1, 7, 1, lines, 1}, 2},
                               {{1, 1}, 0},
                               {{lines, 9, 3}, 1},
                               {{9, 3}, 0},
                               {{lines}, 0}}) {
      SCOPED_TRACE(fmt::format("{} lines, axis {} of {}", lines, axis, shape.size()));
      tir::Func func = running_sums(shape, static_cast<size_t>(axis));
      std::vector<const DesignSpace*> spaces = spaces_for(func, target);
      ASSERT_STREQ(spaces[0]->name, "scan");
      Trace trace = default_trace(func, target);
      SCOPED_TRACE(to_text(trace));
      tir::Func scheduled = replay(trace, func);
      expect_same_results(func, scheduled);
      if (auto fault = tir::find_fault(tir::lower(scheduled, target), tir::Level::kVectors))
        ADD_FAILURE() << *fault;
      for (uint64_t seed = 0; seed < 3; ++seed)
        expect_same_results(func, sample(*spaces[0], func, target, seed).func());
    }
}

/// Vectors that each step along a line goes over, and the groups of them that the lines are.
std::pair<int64_t, int64_t> vectors_and_groups(const std::vector<int64_t>& shape) {
  const Target target = avx512_target();
  tir::Func func = running_sums(shape, 0);
  Schedule s(replay(default_trace(func, target), func));
  std::vector<LoopHandle> loops = s.get_loops(s.get_block("sums"));
  int64_t groups = 1, vectors = 1;
  for (LoopHandle loop : loops) {
    const tir::For& each = *s[loop];
    if (each.iteration == tir::Iteration::kUnrolled) vectors *= int_value(each.extent);
    if (each.iteration == tir::Iteration::kVectorized) return {vectors, groups};
    if (each.iteration != tir::Iteration::kUnrolled) groups *= int_value(each.extent);
  }
  return {0, 0};
}

TEST(Scan, VectorsAreNoMoreThanTheLinesFill) {
  EXPECT_EQ(vectors_and_groups({27, 24}), std::pair(int64_t{2}, int64_t{27}));
  EXPECT_EQ(vectors_and_groups({27, 96, 24}), std::pair(int64_t{16}, int64_t{27 * 9}))
      << "rows of 24 that are one line of 2304 in memory";
}

TEST(Scan, AxesOfOneElementHideNoLines) {
  for (auto [shape, axis] : {std::pair{std::vector<int64_t>{32, 9}, 1}, {{32, 9, 1}, 1}, {{32, 1, 9}, 2}}) {
    tir::Func func = running_sums(shape, static_cast<size_t>(axis));
    const std::string text = tir::print(replay(default_trace(func, avx512_target()), func));
    EXPECT_NE(text.find(" in 0..8 unrolled"), std::string::npos) << text;
  }
}

TEST(Scan, FewNeighboursAreLinesInTurn) {
  tir::Func func = running_sums({30, 9, 3}, 1);
  const std::string text = tir::print(replay(default_trace(func, avx512_target()), func));
  EXPECT_NE(text.find(" in 0..3 unrolled"), std::string::npos) << text;
}

/// Loops of what the default schedule makes of it, as text.
std::string scheduled(const std::vector<int64_t>& shape, size_t axis) {
  tir::Func func = running_sums(shape, axis);
  return tir::print(replay(default_trace(func, avx512_target()), func));
}

// A vector that is filled in part is stored and loaded again in part, which takes long.
TEST(Scan, VectorsOfLinesThatAreFewComeInTurn) {
  for (const auto& [shape, axis] : {std::pair{std::vector<int64_t>{30, 9, 7}, 1}, {{4, 7, 9, 5}, 2}}) {
    const std::string text = scheduled(shape, static_cast<size_t>(axis));
    EXPECT_NE(text.find(" vectorized"), std::string::npos) << text;
    EXPECT_NE(text.find(" in 0..8 unrolled"), std::string::npos) << text;
  }
}

TEST(Scan, FewLinesWithNoOthersAreSingleSums) {
  const std::string text = scheduled({40, 7}, 0);
  EXPECT_NE(text.find(" in 0..7 unrolled {\n          block sums("), std::string::npos) << text;
}

TEST(Scan, IterationsAlongTheAxisStayInOrder) {
  tir::Func func = running_sums({3, 4, 5}, 1);
  Schedule s(func);
  auto loops = s.get_loops(s.get_block("sums"));
  s.reorder({loops[2], loops[1], loops[0]});
  auto parts = s.split(loops[1], {2, 2});
  expect_same_results(func, s.func());
  s.reorder({loops[0], parts[0], parts[1]});
  expect_same_results(func, s.func());
  auto refused = [&](const std::function<void()>& apply) -> std::string {
    try {
      apply();
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(
      refused([&] {
        s.reorder({parts[1], parts[0]});
      }),
      "reorder: block `sums` runs its iterations in order: the loops of its opaque variables keep theirs");
  EXPECT_EQ(refused([&] { s.vectorize(parts[1]); }).substr(0, 10), "vectorize:");
  EXPECT_EQ(refused([&] { s.parallel(parts[0]); }).substr(0, 9), "parallel:");
}

}  // namespace
}  // namespace lathe::schedule
