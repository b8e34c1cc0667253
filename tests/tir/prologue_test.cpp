#include "core/tir/prologue.h"

#include <gtest/gtest.h>

#include "core/tir/text.h"
#include "core/tir/verify.h"
#include "tests/tir/random_func.h"

namespace lathe::tir {
namespace {

/// out = relu(x * (w + c)) where w + c is an intermediate; another statement reads x alone.
constexpr const char* kScaled = R"(
func scaled(x: float32[4], w: float32[4], c: float32[4]) -> (out: float32[4]) @constants=6 {
  block root {
    alloc sum: float32[4]
    alloc twice: float32[4]
    for i in 0..4 { block twice(spatial v in 0..4 = i) { reads x[v] writes twice[v] twice[v] = x[v] + x[v] } }
    for i in 0..4 { block sum(spatial v in 0..4 = i) { reads w[v], c[v] writes sum[v] sum[v] = w[v] + c[v] } }
    for i in 0..4 {
      block out(spatial v in 0..4 = i) {
        reads twice[v], sum[v], c[v]
        writes out[v]
        out[v] = twice[v] * sum[v] + c[v]
} } } })";

/// `text` with every `from` as `to`.
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

/// "0 2 m0 3": params 0 and 2 of the whole, the first thing made by the prologue, param 3.
std::string text(const std::vector<PartParam>& params) {
  std::string result;
  for (auto [from_prologue, number] : params)
    result += fmt::format("{}{}{}", result.empty() ? "" : " ", from_prologue ? "m" : "", number);
  return result;
}

void expect_valid(const SplitProgram& split) {
  for (const Func& part : {split.prologue, split.main}) {
    if (!part) continue;
    auto fault = find_fault(part);
    EXPECT_FALSE(fault) << *fault << "\n" << print(part);
  }
}

TEST(Prologue, HoldsWhatDependsOnConstantsAlone) {
  Func func = parse_func(kScaled);
  SplitProgram split = split_prologue(func);
  expect_valid(split);
  EXPECT_EQ(print(split.prologue), print(parse_func(R"(
func scaled_prologue(w: float32[4], c: float32[4]) -> (sum: float32[4]) {
  block root {
    for i in 0..4 { block sum(spatial v in 0..4 = i) { reads w[v], c[v] writes sum[v] sum[v] = w[v] + c[v] } }
} })")));
  // w is gone; c is still read.
  EXPECT_EQ(print(split.main), print(parse_func(R"(
func scaled(x: float32[4], c: float32[4], sum: float32[4]) -> (out: float32[4]) {
  block root {
    alloc twice: float32[4]
    for i in 0..4 { block twice(spatial v in 0..4 = i) { reads x[v] writes twice[v] twice[v] = x[v] + x[v] } }
    for i in 0..4 {
      block out(spatial v in 0..4 = i) {
        reads twice[v], sum[v], c[v]
        writes out[v]
        out[v] = twice[v] * sum[v] + c[v]
} } } })")));
  EXPECT_EQ(text(split.prologue_params), "1 2 m0");
  EXPECT_EQ(text(split.main_params), "0 2 m0 3");
  EXPECT_EQ(interpreted_outputs(split, func)[0].value(1), interpreted_outputs(func)[0].value(1));
}

TEST(Prologue, IsNoneWhereNothingDependsOnConstantsAlone) {
  for (const char* mask : {"", " @constants=4"}) {  // c is read together with what is not constant
    Func func = parse_func(replaced(kScaled, " @constants=6", mask));
    SplitProgram split = split_prologue(func);
    EXPECT_FALSE(split.prologue) << mask;
    EXPECT_EQ(print(split.main), print(with_constant_params(func, 0)));
    EXPECT_EQ(text(split.main_params), "0 1 2 3");
  }
}

TEST(Prologue, HoldsTablesThatReadNothing) {
  SplitProgram split = split_prologue(parse_func(R"(
func scaled(x: float32[4]) -> (out: float32[4]) {
  block root {
    alloc t: float32[4]
    for i in 0..4 { block t(spatial v in 0..4 = i) { writes t[v] t[v] = cast(float32, v) * 0.5 } }
    for i in 0..4 {
      block out(spatial v in 0..4 = i) { reads x[v], t[v] writes out[v] out[v] = x[v] * t[v] }
} } })"));
  expect_valid(split);
  ASSERT_TRUE(split.prologue);
  EXPECT_EQ(text(split.prologue_params), "m0");
  EXPECT_EQ(text(split.main_params), "0 m0 1");
}

TEST(Prologue, AnyInputMayBeTheConstant) {
  SplitProgram split = split_prologue(parse_func(replaced(kScaled, "=6", "=1")));
  expect_valid(split);
  EXPECT_EQ(text(split.prologue_params), "0 m0");
  EXPECT_EQ(text(split.main_params), "1 2 m0 3");
}

TEST(Prologue, OutputsAreNeverMadeAhead) {
  // Everything is constant: the intermediates are made ahead, the output is not.
  SplitProgram split = split_prologue(parse_func(replaced(kScaled, "=6", "=7")));
  expect_valid(split);
  EXPECT_EQ(text(split.prologue_params), "0 1 2 m0 m1");
  EXPECT_EQ(text(split.main_params), "2 m0 m1 3");
}

TEST(Prologue, AnIntermediateThatLaterStatementsWriteTooStaysWhole) {
  // The initial value of `t` reads nothing, the update reads x: neither may run ahead.
  Func func = parse_func(R"(
func f(x: float32[4], w: float32[4]) -> (out: float32[4]) @constants=2 {
  block root {
    alloc t: float32[4]
    for i in 0..4 { block first(spatial v in 0..4 = i) { reads w[v] writes t[v] t[v] = w[v] } }
    for i in 0..4 { block second(spatial v in 0..4 = i) { reads t[v], x[v] writes t[v] t[v] = t[v] + x[v] } }
    for i in 0..4 { block out(spatial v in 0..4 = i) { reads t[v] writes out[v] out[v] = t[v] } }
} })");
  SplitProgram split = split_prologue(func);
  EXPECT_FALSE(split.prologue);
  EXPECT_EQ(print(split.main), print(with_constant_params(func, 0)));
}

TEST(Prologue, InitialValuesComeAlongAndLocalBuffersBecomeGlobal) {
  Func func = parse_func(R"(
func f(x: float32[4], w: float32[4, 8]) -> (out: float32[4]) @constants=2 {
  block root {
    alloc sums: float32[4] local
    alloc doubled: float32[4, 8]
    for i in 0..4 { for j in 0..8 {
      block twice(spatial v in 0..4 = i, spatial u in 0..8 = j) {
        reads w[v, u] writes doubled[v, u] doubled[v, u] = w[v, u] + w[v, u] } } }
    for i in 0..4 { block zero(spatial v in 0..4 = i) { writes sums[v] sums[v] = 0.0 } }
    for i in 0..4 { for j in 0..8 {
      block sum(spatial v in 0..4 = i, reduce u in 0..8 = j) {
        reads doubled[v, u], sums[v] writes sums[v] sums[v] = sums[v] + doubled[v, u] } } }
    for i in 0..4 { block out(spatial v in 0..4 = i) { reads sums[v], x[v] writes out[v] out[v] = sums[v] * x[v] } }
} })");
  SplitProgram split = split_prologue(func);
  expect_valid(split);
  ASSERT_TRUE(split.prologue);
  EXPECT_EQ(split.prologue->params.size(), 2u);  // w and the sums; `doubled` is its own
  EXPECT_EQ(split.prologue->params[1]->scope, Scope::kGlobal);
  EXPECT_EQ(split.prologue->params[1], split.main->params[1]);
  EXPECT_EQ(max_relative_error(interpreted_outputs(split, func)[0], interpreted_outputs(func)[0]), 0);
}

TEST(Prologue, PartsComputeTheWholeForRandomProgramsAndMasks) {
  int with_prologue = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    Func func = random_func(seed, {.stages = 6, .max_elements = 300});
    int64_t inputs = static_cast<int64_t>(func->params.size()) - func->outputs;
    func = with_constant_params(func, std::mt19937(seed)() % (1 << inputs));
    SCOPED_TRACE(print(func));
    SplitProgram split = split_prologue(func);
    expect_valid(split);
    with_prologue += split.prologue != nullptr;
    std::vector<Tensor> whole = interpreted_outputs(func), parts = interpreted_outputs(split, func);
    for (size_t i = 0; i < whole.size(); ++i) ASSERT_EQ(max_relative_error(parts[i], whole[i]), 0);
    ASSERT_FALSE(split_prologue(split.main).prologue);
  }
  EXPECT_GT(with_prologue, 100);
}

}  // namespace
}  // namespace lathe::tir
