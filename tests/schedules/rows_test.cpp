#include <gtest/gtest.h>

#include <set>

#include "core/support/error.h"
#include "core/tir/builder.h"
#include "schedules/primitive.h"
#include "schedules/program.h"
#include "schedules/row_program.h"
#include "schedules/space.h"
#include "tests/schedules/programs.h"

namespace lathe::schedule {
namespace {

using tir::Buffer;
using tir::Combiner;
using tir::FuncBuilder;
using tir::Vars;

/// (x - mean) / sqrt(variance + 1) times a weight, of rows along dimension `axis` of three.
tir::Func standardized(const std::vector<int64_t>& shape, size_t axis) {
  FuncBuilder f;
  Buffer x = f.input("x", {shape.begin(), shape.end()}, kFloat32),
         weight = f.input("weight", {shape[axis]}, kFloat32);
  std::vector<Expr> kept;
  for (size_t d = 0; d < 3; ++d)
    if (d != axis) kept.emplace_back(shape[d]);
  auto element = [&](Vars i, const Expr& r) {
    std::vector<Expr> at(i.begin(), i.end());
    at.insert(at.begin() + static_cast<int64_t>(axis), r);
    return tir::load(x, at);
  };
  auto row = [&](const Buffer& b, Vars i) {
    std::vector<Expr> at;
    for (size_t d = 0; d < 3; ++d)
      if (d != axis) at.push_back(i[d]);
    return tir::load(b, at);
  };
  Expr count = constant(kFloat32, static_cast<double>(shape[axis]));
  Buffer sum = f.reduce("sum", kept, {Expr(shape[axis])}, Combiner::kSum,
                        [&](Vars i, Vars r) { return element(i, r[0]); });
  Buffer mean = f.compute("mean", kept, [&](Vars i) {
    return div(tir::load(sum, {i.begin(), i.end()}), count);
  });
  Buffer squares = f.reduce("squares", kept, {Expr(shape[axis])}, Combiner::kSum, [&](Vars i, Vars r) {
    Expr difference = element(i, r[0]) - tir::load(mean, {i.begin(), i.end()});
    return difference * difference;
  });
  Buffer scale = f.compute("scale", kept, [&](Vars i) {
    Expr variance = div(tir::load(squares, {i.begin(), i.end()}), count);
    return div(constant(kFloat32, 1), intrinsic(Intrinsic::kSqrt, variance + constant(kFloat32, 1)));
  });
  Buffer out = f.compute("out", {shape.begin(), shape.end()}, [&](Vars i) {
    return (tir::load(x, {i.begin(), i.end()}) - row(mean, i)) * row(scale, i) * tir::load(weight, {i[axis]});
  });
  return f.finish("standardized", {out});
}

/// x less the mean of its group: dimension 1 counts `groups` of channels.
tir::Func less_group_mean(int64_t batch, int64_t groups, int64_t channels, int64_t size) {
  FuncBuilder f;
  Buffer x = f.input("x", {batch, groups * channels, size}, kInt32);
  Buffer sum = f.reduce("sum", {batch, groups}, {channels, size}, Combiner::kSum, [&](Vars i, Vars r) {
    return tir::load(x, {i[0], i[1] * channels + r[0], r[1]});
  });
  Buffer out = f.compute("out", {batch, groups * channels, size}, [&](Vars i) {
    return tir::load(x, {i[0], i[1], i[2]}) - tir::load(sum, {i[0], floordiv(Expr(i[1]), channels)});
  });
  return f.finish("group", {out});
}

/// Position of the largest of each row.
tir::Func arg_max(int64_t rows, int64_t columns) {
  FuncBuilder f;
  Buffer x = f.input("x", {rows, columns}, kFloat32);
  Buffer best = f.reduce("best", {rows}, {columns}, Combiner::kMax, [&](Vars i, Vars r) {
    return tir::load(x, {i[0], r[0]});
  });
  Buffer place = f.reduce("place", {rows}, {columns}, Combiner::kMin, [&](Vars i, Vars r) {
    return select(equal(tir::load(x, {i[0], r[0]}), tir::load(best, {i[0]})), cast(kInt32, r[0]),
                  tir::identity_of(Combiner::kMin, kInt32));
  });
  return f.finish("arg_max", {place});
}

/// softmax of twice x where a mask allows it.
tir::Func masked_softmax(int64_t rows, int64_t columns) {
  FuncBuilder f;
  Buffer x = f.input("x", {rows, columns}, kFloat32), mask = f.input("mask", {columns}, kInt32);
  Buffer scores = f.compute("scores", {rows, columns}, [&](Vars i) {
    return select(less(constant(kInt32, 0), tir::load(mask, {i[1]})),
                  tir::load(x, {i[0], i[1]}) * constant(kFloat32, 2), constant(kFloat32, -1e9));
  });
  Buffer largest = f.reduce("largest", {rows}, {columns}, Combiner::kMax, [&](Vars i, Vars r) {
    return tir::load(scores, {i[0], r[0]});
  });
  Buffer exps = f.compute("exps", {rows, columns}, [&](Vars i) {
    return intrinsic(Intrinsic::kExp, tir::load(scores, {i[0], i[1]}) - tir::load(largest, {i[0]}));
  });
  Buffer sum = f.reduce("sum", {rows}, {columns}, Combiner::kSum, [&](Vars i, Vars r) {
    return tir::load(exps, {i[0], r[0]});
  });
  Buffer out = f.compute("out", {rows, columns}, [&](Vars i) {
    return div(tir::load(exps, {i[0], i[1]}), tir::load(sum, {i[0]}));
  });
  return f.finish("masked_softmax", {out});
}

std::vector<Program> row_programs() {
  std::vector<Program> programs;
  for (int64_t length : {1, 5, 16, 23, 48, 77}) {
    auto named = [&](const char* name) { return fmt::format("{} of {}", name, length); };
    programs.push_back({named("softmax"), softmax(5, length)});
    programs.push_back({named("masked softmax"), masked_softmax(3, length)});
    programs.push_back({named("standardized rows"), standardized({3, 2, length}, 2)});
    programs.push_back({named("standardized columns"), standardized({3, length, 19}, 1)});
    programs.push_back({named("standardized short columns"), standardized({length, 2, 3}, 0)});
    programs.push_back({named("group"), less_group_mean(2, 3, 2, length)});
    programs.push_back({named("images"), reduction({2, 3, 5, length}, 2, Combiner::kSum)});
    programs.push_back({named("arg max"), arg_max(4, length)});
    programs.push_back({named("sum of all"), reduction({3, length}, 2, Combiner::kSum)});
    programs.push_back({named("largest"), reduction({3, 2, length}, 1, Combiner::kMax)});
  }
  return programs;
}

const DesignSpace* rows_space(const tir::Func& func) {
  for (const DesignSpace* space : spaces_for(func, avx512_target()))
    if (std::string_view(space->name) == "rows") return space;
  return nullptr;
}

TEST(Rows, KeepMeaning) {
  for (const Program& program : row_programs()) {
    SCOPED_TRACE(program.name);
    Schedule s(program.func);
    const DesignSpace* space = rows_space(program.func);
    ASSERT_TRUE(space);
    space->generate(s, avx512_target(), {Decide::kHeuristic, Rounding::kNone});
    SCOPED_TRACE(to_text(s.trace()));
    expect_sound(program.func, s);
    for (uint64_t seed = 0; seed < 3; ++seed)
      expect_sound(program.func, sample(*space, program.func, avx512_target(), seed));
  }
}

/// Statements of the program that hold blocks.
size_t top_statements(const tir::Func& func) {
  std::set<const Node*> tops;
  for (const Ref<tir::Block>& block : all_blocks(func))
    tops.insert(top_statement(*path_to_block(func, block->name)).get());
  return tops.size();
}

TEST(Rows, AreReadOnce) {
  for (const Program& program : row_programs()) {
    SCOPED_TRACE(program.name);
    if (program.name.starts_with("sum of all")) continue;  // there is one row
    EXPECT_EQ(top_statements(replay(default_trace(program.func, avx512_target()), program.func)), 1u);
  }
}

/// The mean of each image, as pooling to one value leaves it: indices hold variables of one value.
tir::Func image_means(int64_t channels, int64_t height, int64_t width) {
  FuncBuilder f;
  Buffer x = f.input("x", {channels, height, width}, kFloat32);
  Buffer sum = f.reduce("sum", {channels, 1, 1}, {height, width}, Combiner::kSum, [&](Vars i, Vars r) {
    return tir::load(x, {i[0], i[1] * height + r[0], i[2] * width + r[1]});
  });
  return f.finish("means", {sum});
}

TEST(Rows, AnImageIsOneLine) {
  tir::Func func = image_means(4, 7, 9);
  Trace trace = default_trace(func, avx512_target());
  const bool fuses = std::any_of(trace.steps.begin(), trace.steps.end(), [](const Step& step) {
    return std::string(step.primitive->name) == "fuse";
  });
  EXPECT_TRUE(fuses) << to_text(trace);
  expect_same_results(func, replay(trace, func));
}

// A row of a few vectors, the last of them not whole, is in registers from its first step to its last.
TEST(Rows, OfFewVectorsHaveNoLoops) {
  for (int64_t length : {17, 40, 64}) {
    const tir::Func func = standardized({3, 5, length}, 2),
                    scheduled = replay(default_trace(func, avx512_target()), func);
    expect_same_results(func, scheduled);
    std::vector<int64_t> loops;
    post_order(scheduled, [&](const NodeRef& node) {
      const auto* loop = node.as<tir::For>();
      if (loop && loop->iteration == tir::Iteration::kSerial && !is_int(loop->extent, 1))
        loops.push_back(int_value(loop->extent));
    });
    EXPECT_EQ(loops, (std::vector<int64_t>{5, 3})) << length << ": more than those over rows";
  }
}

// Of fewer rows than cores each reduction is cut, and what reads it is shared out too.
TEST(RowParts, GiveEachCoreSome) {
  Target target = avx512_target();
  target.cores = 4;
  const std::vector<Program> programs = {
      {"softmax of a row", softmax(1, 60000)},
      {"masked softmax of two rows", masked_softmax(2, 60000)},
      {"standardized rows", standardized({1, 2, 50008}, 2)},
      {"group", less_group_mean(1, 1, 48, 1250)},
      {"arg max", arg_max(3, 40000)},
      {"sum of all", reduction({3, 40000}, 2, Combiner::kSum)},
  };
  for (const Program& program : programs) {
    SCOPED_TRACE(program.name);
    const std::vector<const DesignSpace*> spaces = spaces_for(program.func, target);
    ASSERT_EQ(std::string_view(spaces.front()->name), "row-parts");
    Schedule s(program.func);
    spaces.front()->generate(s, target, {Decide::kHeuristic, Rounding::kNone});
    SCOPED_TRACE(to_text(s.trace()));
    for (const Ref<tir::Block>& block : all_blocks(s.func())) {
      const auto loops = loops_around(*path_to_block(s.func(), block->name));
      const bool parallel = std::any_of(loops.begin(), loops.end(), [](const Ref<tir::For>& loop) {
        return loop->iteration == tir::Iteration::kParallel;
      });
      EXPECT_TRUE(parallel || iterations(*block) < 1000) << block->name;
    }
    expect_sound(program.func, s);
    expect_sound(program.func, sample(*spaces.front(), program.func, target, 7));
  }
  // A prime number of terms has no equal parts; short rows are not worth it.
  for (const tir::Func& func : {softmax(1, 60013), softmax(1, 600)})
    EXPECT_NE(std::string_view(spaces_for(func, target).front()->name), "row-parts");
}

/// More rows than lanes, of a few elements each: a vector has one element of each row.
TEST(ShortRows, HaveRowsForLanes) {
  const std::vector<Program> programs = {
      {"softmax", softmax(37, 5)},
      {"whole vectors", softmax(32, 3)},
      {"masked softmax", masked_softmax(40, 7)},
      {"standardized rows", standardized({2, 35, 3}, 2)},
      {"largest", reduction({2, 33, 5}, 1, Combiner::kMax)},
      {"arg max", arg_max(50, 3)},
  };
  for (const Target& target : {avx512_target(), avx2_target()})
    for (const Program& program : programs) {
      SCOPED_TRACE(program.name);
      const std::vector<const DesignSpace*> spaces = spaces_for(program.func, target);
      ASSERT_EQ(std::string_view(spaces.front()->name), "short-rows");
      Schedule s(program.func);
      spaces.front()->generate(s, target, {Decide::kHeuristic, Rounding::kNone});
      SCOPED_TRACE(to_text(s.trace()));
      expect_sound(program.func, s);
      expect_sound(program.func, sample(*spaces.front(), program.func, target, 7));
      for (int64_t lanes : vector_lanes(s.func())) EXPECT_EQ(lanes, target.lanes());
    }
  // Of an even number of elements several of a vector are in one lane; few rows have no vectors.
  EXPECT_NE(std::string_view(spaces_for(softmax(37, 4), avx2_target()).front()->name), "short-rows");
  for (const tir::Func& func : {softmax(37, 9), softmax(5, 5), less_group_mean(2, 3, 2, 5)})
    EXPECT_NE(std::string_view(spaces_for(func, avx512_target()).front()->name), "short-rows");
}

TEST(RowProgram, KnowsWhatIsNone) {
  EXPECT_FALSE(row_program(matmul(16, 16, 16)));
  EXPECT_FALSE(row_program(dense(1, 32, 32)));
  EXPECT_FALSE(row_program(max_pool(1, 7)));
  EXPECT_FALSE(row_program(elementwise(4, 6)));
  EXPECT_FALSE(row_program(conv2d({})));
}

}  // namespace
}  // namespace lathe::schedule
