#include "tuner/in_place.h"

#include <gmock/gmock.h>

#include "core/codegen/host_target.h"
#include "core/tir/builder.h"
#include "core/tir/lower.h"
#include "core/tir/text.h"
#include "schedules/space.h"
#include "tuner/compile.h"
#include "tuner/load_model.h"

namespace lathe::tuner {
namespace {

using namespace tir;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int64_t> in_place(const Func& func) {
  Target target = codegen::host_target();
  Func scheduled = schedule::replay(schedule::default_trace(func, target), func);
  return in_place_arguments(*lower(scheduled, target));
}

TEST(InPlace, ElementwiseOperandsOfTheResultsShape) {
  FuncBuilder f;
  Buffer a = f.input("a", {40, 24}, kFloat32), b = f.input("b", {40, 24}, kFloat32);
  Buffer row = f.input("row", {24}, kFloat32);
  Buffer out = f.compute("out", {40, 24}, [&](Vars i) {
    return max(load(a, {i[0], i[1]}) * load(row, {i[1]}) + load(b, {i[0], i[1]}), Expr(0.0));
  });
  EXPECT_THAT(in_place(f.finish("f", {out})), ElementsAre(0, 1));
}

TEST(InPlace, NotWhatIsReadAtOtherPlaces) {
  FuncBuilder f;
  Buffer a = f.input("a", {32, 32}, kFloat32), b = f.input("b", {32, 32}, kFloat32);
  Buffer out = f.compute("out", {32, 32}, [&](Vars i) {
    return load(a, {i[1], i[0]}) + load(b, {i[0], i[1]}) + load(b, {Expr(0), i[1]});
  });
  EXPECT_THAT(in_place(f.finish("f", {out})), IsEmpty());
}

TEST(InPlace, TheResidualOfAMatrixProductButNotItsOperands) {
  FuncBuilder f;
  Buffer a = f.input("a", {4, 64}, kFloat32), b = f.input("b", {64, 64}, kFloat32);
  Buffer residual = f.input("residual", {4, 64}, kFloat32);
  Buffer product = f.reduce("product", {4, 64}, {64}, Combiner::kSum, [&](auto i, auto r) {
    return load(a, {i[0], r[0]}) * load(b, {r[0], i[1]});
  });
  Buffer out = f.compute("out", {4, 64}, [&](Vars i) {
    return load(product, {i[0], i[1]}) + load(residual, {i[0], i[1]});
  });
  EXPECT_THAT(in_place(f.finish("f", {out})), ElementsAre(2));
}

TEST(InPlace, WhatTheResultBeginsAsACopyOf) {
  // A scatter: the copy is all that reads a.
  const char* scatter = R"(func f(a: float32[9], at: int64[2], b: float32[2]) -> (out: float32[9]) {{
    for i in 0..9 {{ out[i] = a[i] }}
    for j in 0..2 {{ out[at[j]] = out[at[j]] + {} }}
  }})";
  auto with = [&](const char* update) {
    return in_place_arguments(*parse_func(fmt::format(fmt::runtime(scatter), update)));
  };
  EXPECT_THAT(with("b[j]"), ElementsAre(0));
  EXPECT_THAT(with("a[j]"), IsEmpty());
  EXPECT_THAT(with("b[j] + a[at[j]]"), IsEmpty());
}

TEST(InPlace, NotACopyOfOtherPlacesOrNotTheFirst) {
  auto of = [](const std::string& body) {
    return in_place_arguments(
        *parse_func("func f(a: float32[9], at: int64[2]) -> (out: float32[9]) { " + body + " }"));
  };
  const std::string update = " for j in 0..2 { out[at[j]] = 1.0 }";
  EXPECT_THAT(of("for i in 0..9 { out[i] = a[i] }" + update), ElementsAre(0));
  EXPECT_THAT(of("for i in 0..9 { out[i] = a[8 - i] }" + update), IsEmpty());
  EXPECT_THAT(of("for i in 0..9 { out[i] = a[i] + 1.0 }" + update), IsEmpty());
  // Stores that the copy writes over.
  EXPECT_THAT(of(update + " for i in 0..9 { out[i] = a[i] }"), IsEmpty());
  EXPECT_THAT(of("for k in 0..3 { for i in 0..9 { out[i] = a[i] } " + update + " }"), IsEmpty());
}

/// All pairs of stores would be looked at.
TEST(InPlace, NotOfHundredsOfStores) {
  const auto of = [](int64_t count) {
    std::string text = fmt::format("func f(a: float32[{0}]) -> (out: float32[{0}]) {{", count);
    for (int64_t i = 0; i < count; ++i) text += fmt::format(" out[{0}] = a[{0}] + 1.0\n", i);
    return in_place_arguments(*parse_func(text + "}"));
  };
  EXPECT_THAT(of(200), ElementsAre(0));
  EXPECT_THAT(of(300), IsEmpty());
}

TEST(InPlace, NotWhenTheResultIsMadeStepByStep) {
  Buffer a = buffer("a", {8}, kFloat32), out = buffer("out", {8}, kFloat32);
  Var i = var("i"), j = var("j");
  auto program = [&](Stmt body) { return make<FuncNode>("f", std::vector{a, out}, int64_t{1}, body); };
  Stmt once = store(out, {i}, load(a, {i}) + Expr(1.0));
  EXPECT_THAT(in_place_arguments(*program(for_loop(i, 8, once))), ElementsAre(0));
  // Each element twice.
  EXPECT_THAT(in_place_arguments(*program(for_loop(j, 2, for_loop(i, 8, once)))), IsEmpty());
  // The result is read.
  Stmt sum = store(out, {i}, load(out, {i}) + load(a, {i}));
  EXPECT_THAT(in_place_arguments(*program(for_loop(i, 8, sum))), IsEmpty());
}

/// Whether the result of the lowered program, with this body, may share the memory of its only input.
bool shares(const std::string& shape, const std::string& body) {
  Func func =
      parse_func(fmt::format("func f(a: float32[{0}]) -> (out: float32[{0}]) {{ {1} }}", shape, body));
  return !in_place_arguments(*func).empty();
}

TEST(InPlace, NotWhenALoopComesBackToAnElement) {
  EXPECT_TRUE(shares("9", "for i in 0..3 { for j in 0..3 { out[i * 3 + j] = a[i * 3 + j] + 1.0 } }"));
  EXPECT_FALSE(shares("9", "for i in 0..3 { for j in 0..3 { out[i + j] = a[i + j] + 1.0 } }"));
  EXPECT_FALSE(
      shares("9", "for i in 0..3 { for j in 0..3 { out[i * 2 + j * 2] = a[i * 2 + j * 2] + 1.0 } }"));
  EXPECT_FALSE(shares("9", "for i in 0..9 { out[i // 2] = a[i // 2] + 1.0 }"));
  EXPECT_TRUE(shares("3, 3", "for i in 0..9 { out[i // 3, i % 3] = a[i // 3, i % 3] + 1.0 }"));
  EXPECT_FALSE(shares("3, 3", "for i in 0..9 { out[i // 3, i % 2] = a[i // 3, i % 2] + 1.0 }"));
  EXPECT_FALSE(shares("4", "alloc t: int64[4] { for i in 0..4 { out[t[i]] = a[t[i]] + 1.0 } }"));
  EXPECT_TRUE(shares("32", "for i in 0..2 { out[ramp(i * 16, 1, 16)] = a[ramp(i * 16, 1, 16)] }"));
  EXPECT_FALSE(shares("32", "for i in 0..2 { out[ramp(i * 8, 1, 16)] = a[ramp(i * 8, 1, 16)] }"));
}

TEST(InPlace, NotWhenAnotherStoreComesBackToAnElement) {
  EXPECT_FALSE(shares("8", "for i in 0..8 { out[i] = a[i] + 1.0 } for i in 0..8 { out[i] = a[i] * 2.0 }"));
  EXPECT_FALSE(shares("8", "for i in 0..8 { out[i] = 1.0 } out[3] = a[3]"));
  // Unrolled, and with a shorter end.
  EXPECT_TRUE(shares("8", "for i in 0..4 { out[i * 2] = a[i * 2] out[i * 2 + 1] = a[i * 2 + 1] }"));
  EXPECT_FALSE(shares("9", "for i in 0..4 { out[i * 2] = a[i * 2] out[i * 2 + 2] = a[i * 2 + 2] }"));
  EXPECT_TRUE(shares("2, 21",
                     "for i in 0..2 { for j in 0..16 { out[i, j] = a[i, j] } "
                     "for j in 0..5 { out[i, j + 16] = a[i, j + 16] } }"));
}

TEST(InPlace, BranchesThatStoreDifferentElements) {
  // As tiles of rows whose last one is cut: its number is a constant in its branch.
  const char* kTail =
      "for f in 0..8 {{ if f % 4 < {} {{ for j in 0..2 {{ out[f // 4, f % 4 * 2 + j] = a[f // 4, f % 4 * 2 + "
      "j] }} }} else {{ out[f // 4, 6] = a[f // 4, 6] }} }}";
  EXPECT_TRUE(shares("2, 8", fmt::format(fmt::runtime(kTail), 3)));
  EXPECT_FALSE(shares("2, 8", fmt::format(fmt::runtime(kTail), 4)));
  EXPECT_FALSE(shares("2, 8", fmt::format(fmt::runtime(kTail), 2)));
}

TEST(InPlace, TilesOfAnOpenDimension) {
  FuncBuilder f;
  const Var n = var("n"), m = var("m");
  Buffer a = f.input("a", {n, m, 64}, kFloat32), b = f.input("b", {64, 64}, kFloat32);
  Buffer residual = f.input("residual", {n, m, 64}, kFloat32);
  Buffer product = f.reduce("product", {n, m, 64}, {64}, Combiner::kSum, [&](auto i, auto r) {
    return load(a, {i[0], i[1], r[0]}) * load(b, {r[0], i[2]});
  });
  Buffer out = f.compute("out", {n, m, 64}, [&](Vars i) {
    return load(product, {i[0], i[1], i[2]}) + load(residual, {i[0], i[1], i[2]});
  });
  EXPECT_THAT(in_place(f.finish("f", {out})), ElementsAre(2));
  // By the lowered program: tiles inside, and the last one.
  const char* kTiles =
      "func f[n](a: float32[n]) -> (out: float32[n]) {{ for i in 0..(n + 3) // 4 {{ if i * 4 + 3 < n {{ "
      "for j in 0..4 {{ out[i * 4 + j] = a[i * 4 + j] }} }} else {{ for j in 0..{0} {{ "
      "out[i * {1} + j] = a[i * {1} + j] }} }} }} }}";
  auto shares_at = [&](int rows, int step) {
    return !in_place_arguments(*parse_func(fmt::format(fmt::runtime(kTiles), rows, step))).empty();
  };
  EXPECT_TRUE(shares_at(3, 4));
  EXPECT_FALSE(shares_at(5, 4));
  EXPECT_FALSE(shares_at(3, 3));
}

TEST(InPlace, AResidualNetworkAddsInPlace) {
  runtime::ModuleImage image = compile_model(load_model("resnet50", {}), codegen::host_target());
  const runtime::Plan& plan = image.plan;
  int taken_over = 0;
  for (const runtime::Step& step : plan.steps)
    for (size_t i = 0; i + 1 < step.args.size(); ++i) {
      const runtime::Value &arg = plan.values[step.args[i]], &result = plan.values[step.args.back()];
      taken_over += arg.place == runtime::Place::kArena && arg.at == result.at;
    }
  EXPECT_GE(taken_over, 8) << "of 16 residual additions; tiles at an edge may keep some from it";
}

}  // namespace
}  // namespace lathe::tuner
