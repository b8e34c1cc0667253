#include "core/tir/verify.h"

#include <gtest/gtest.h>

#include "core/support/error.h"
#include "core/tir/text.h"
#include "tests/tir/random_func.h"

namespace lathe::tir {
namespace {

std::string fault_of(const std::string& text) { return find_fault(parse_func(text)).value_or("none"); }

/// The fault of a function of a: float32[8], out: float32[8] with this body of the root block.
std::string fault_in(const std::string& body) {
  return fault_of("func f(a: float32[8]) -> (out: float32[8]) { block root { alloc t: float32[8, 8]\n" +
                  body + " } }");
}

TEST(Verify, RandomProgramsAreValid) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    Func func = random_func(seed);
    auto fault = find_fault(func);
    ASSERT_FALSE(fault) << *fault << "\n" << print(func);
  }
}

TEST(Verify, MarksOfConstants) {
  auto marked = [](const std::string& mask) {
    return fault_of("func f(a: float32[8], w: float32[8]) -> (out: float32[8]) @constants=" + mask +
                    " { block root { for i in 0..8 { block b(spatial v in 0..8 = i) {"
                    " reads a[v], w[v] writes out[v] out[v] = a[v] * w[v] } } } }");
  };
  EXPECT_EQ(marked("1"), "none");
  EXPECT_EQ(marked("3"), "none");
  for (const char* mask : {"0", "-1", "4", "9223372036854775807"})
    EXPECT_EQ(marked(mask), std::string("function f marks constants ") + mask + " among 2 inputs");
}

TEST(Verify, ScopesOfVariables) {
  EXPECT_EQ(
      fault_in("for i in 0..8 { block b(spatial v in 0..8 = i) { reads a[v] writes out[v] out[v] = a[i] } }"),
      "block b: variable i is used outside its scope");
  EXPECT_EQ(
      fault_in("for i in 0..8 { block b(spatial v in 0..8 = i) { reads a[v] writes out[v] out[v] = a[v] } }"),
      "none");
  Buffer out = buffer("out", {8}, kFloat32);
  auto func_of = [&](const Stmt& body) {
    auto root = std::make_unique<Block>();
    root->name = "root";
    root->body = body;
    return make<FuncNode>("f", std::vector<Buffer>{out}, int64_t{1}, Stmt(seal(std::move(root))));
  };
  EXPECT_EQ(find_fault(func_of(store(out, {var("x")}, fimm(kFloat32, 0)))), "variable x is not defined");
  Buffer other = buffer("other", {8}, kFloat32);
  EXPECT_EQ(find_fault(func_of(store(out, {imm(kInt32, 0)}, fimm(kFloat32, 0)))),
            "an index is int32, must be int64: 0i32");
  EXPECT_EQ(find_fault(func_of(store(other, {0}, fimm(kFloat32, 0)))),
            "buffer other is used outside its scope");
  Var i = var("i");
  Stmt inner = for_loop(i, 2, store(out, {i}, fimm(kFloat32, 0)));
  EXPECT_EQ(find_fault(func_of(seq({inner, inner}))), "i is defined twice");
}

TEST(Verify, Bounds) {
  EXPECT_EQ(
      fault_in("for i in 0..9 { block b(spatial v in 0..9 = i) { reads a[v] writes out[v] out[v] = a[v] } }"),
      "block b: index v of a takes values 0..8, outside 0..8");
  EXPECT_EQ(fault_in("for i in 0..8 { block b(spatial v in 0..4 = i) { writes out[v] out[v] = 0.0 } }"),
            "block b: iterator v = i takes values 0..7, outside 0..4");
  EXPECT_EQ(
      fault_in("for i in 0..8 { block b(spatial v in 0..4 = i) where i < 4 { writes out[v] out[v] = 0.0 } }"),
      "none");
  EXPECT_EQ(fault_in("for i in 0..8 { block b(spatial v in 0..8 = i) { reads a[v - 1] writes out[v] "
                     "out[v] = select(v < 1, 0.0, a[v - 1]) } }"),
            "none");
}

/// The simplifier takes such a condition away, and the pass that did was said to have left nonsense.
TEST(Verify, AConditionThatAlwaysHoldsGuardsNothing) {
  EXPECT_EQ(fault_in("for i in 0..9 { block b(spatial v in 0..8 = i) where i < 100 "
                     "{ reads a[v] writes out[v] out[v] = a[v] } }"),
            "block b: iterator v = i takes values 0..8, outside 0..8");
  EXPECT_EQ(fault_in("for i in 0..9 { block b(spatial v in 0..9 = i) where i < 100 "
                     "{ reads a[v] writes out[v] out[v] = a[v] } }"),
            "block b: index v of a takes values 0..8, outside 0..8");
  EXPECT_EQ(fault_in("for i in 0..9 { block b(spatial v in 0..8 = i) where i < 8 "
                     "{ reads a[v] writes out[v] out[v] = a[v] } }"),
            "none");
}

TEST(Verify, DeclaredAccesses) {
  EXPECT_EQ(fault_in("for i in 0..8 { block b(spatial v in 0..8 = i) { writes out[v] out[v] = a[v] } }"),
            "block b reads a but does not declare it");
  EXPECT_EQ(
      fault_in(
          "for i in 0..4 { block b(spatial v in 0..4 = i) { reads a[v] writes out[v] out[v] = a[v + 1] } }"),
      "block b reads more of a than it declares, in dimension 0");
  EXPECT_EQ(fault_in("for i in 0..4 { block b(spatial v in 0..4 = i) { reads a[v:2] writes out[v] out[v] = "
                     "a[v + 1] } }"),
            "none");
}

std::string reduction(const std::string& loops, const std::string& value, const std::string& rest = "") {
  return fault_in(loops + " { block b(reduce r in 0..8 = " + value + ") " + rest +
                  " { reads a[r] writes out[0] init { out[0] = 0.0 } out[0] = out[0] + a[r] } }" +
                  (loops.find("for j") != std::string::npos ? "}" : ""));
}

TEST(Verify, Reductions) {
  EXPECT_EQ(reduction("for i in 0..8", "i"), "none");
  EXPECT_EQ(reduction("for i in 0..2 { for j in 0..4", "i * 4 + j"), "none");
  EXPECT_EQ(reduction("for i in 0..3 { for j in 0..3", "i * 3 + j", "where i * 3 + j < 8"), "none");
  EXPECT_EQ(reduction("for i in 0..2 { for j in 0..4", "i * 2 + j"),
            "block b: the loops visit reduction step (2) twice");
  EXPECT_EQ(reduction("for i in 0..7", "i"), "block b: the loops visit 7 of 8 reduction steps");
  EXPECT_EQ(reduction("for i in 0..8 parallel", "i"),
            "loop i is parallel but carries the reduction of block b");
  EXPECT_EQ(fault_in("for i in 0..8 { block b(reduce r in 0..8 = i) { reads a[r], out[0] writes out[0] "
                     "out[0] = out[0] + a[r] } }"),
            "block b reduces into out, which has no initial value");
}

TEST(Verify, WhatStandsInsideAVectorizedLoop) {
  auto nest = [](const char* outer, const char* inner) {
    return fault_in(
        fmt::format("for i in 0..2 {} {{ for j in 0..4 {} {{ block b(spatial v in 0..8 = i * 4 + j) "
                    "{{ reads a[v] writes out[v] out[v] = a[v] }} }} }}",
                    outer, inner));
  };
  EXPECT_EQ(nest("vectorized", ""), "none");
  EXPECT_EQ(nest("parallel", "vectorized"), "none");
  EXPECT_EQ(nest("vectorized", "parallel"), "parallel loop j is inside vectorized loop i");
  EXPECT_EQ(nest("vectorized", "vectorized"), "vectorized loop j is inside vectorized loop i");
}

TEST(Verify, Levels) {
  EXPECT_EQ(fault_of("func f() -> (out: float32[8]) { out[0] = 1.0 }"),
            "the body of f is not a block named root without iterators");
  EXPECT_EQ(fault_in("alloc s: float32[4] { out[0] = 1.0 }"), "alloc of s at the scheduled level");
  EXPECT_EQ(fault_in("out[ramp(0, 1, 4)] = broadcast(1.0, 4)"),
            "a vector at the scheduled level in ramp(0, 1, 4)");
  EXPECT_EQ(fault_in("block b { writes out[0] out[0] = 1.0 } block b { writes out[0] out[0] = 1.0 }"),
            "two blocks are named b");
  Func lowered = parse_func(
      "func f() -> (out: float32[8]) { alloc s: float32[4] { out[ramp(0, 2, 4)] = broadcast(1.0, 4) } }");
  EXPECT_EQ(find_fault(lowered, Level::kVectors), std::nullopt);
  Func column =
      parse_func("func f(a: int32[4, 4]) -> (o: int32[4]) { o[ramp(0, 1, 4)] = a[ramp(0, 1, 4), 2] }");
  EXPECT_EQ(find_fault(column, Level::kVectors), std::nullopt);
  EXPECT_EQ(find_fault(parse_func("func f() -> () { block root { } }"), Level::kVectors),
            "block root at the lowered level");
  EXPECT_EQ(find_fault(parse_func("func f() -> (o: int32[4]) { for i in 0..4 vectorized { o[i] = 1i32 } }"),
                       Level::kVectors),
            "loop i is vectorized at the lowered level");
  EXPECT_EQ(find_fault(parse_func("func f(a: int32[0]) -> (o: int32[0]) { for i in 0..0 { o[0] = a[0] } }"),
                       Level::kLoops),
            std::nullopt)
      << "over an empty tensor nothing is accessed";
  auto masked = [](const char* stmt) {
    return find_fault(
        parse_func(fmt::format(
            "func f(a: int32[4]) -> (o: int32[4]) {{ if ramp(0, 1, 4) < broadcast(3, 4) {{ {} }} }}", stmt)),
        Level::kVectors);
  };
  EXPECT_EQ(masked("o[ramp(0, 1, 4)] = a[ramp(0, 1, 4)]"), std::nullopt);
  EXPECT_EQ(masked("o[0] = a[0]"), "a mask of 4 lanes is around a store of 1");
}

TEST(Verify, Types) {
  Buffer out = buffer("out", {8}, kFloat32);
  auto lowered = [&](const Expr& value) {
    return find_fault(make<FuncNode>("f", std::vector<Buffer>{out}, int64_t{1},
                                     Stmt(make<Store>(out, std::vector<Expr>{0}, value))),
                      Level::kVectors);
  };
  EXPECT_EQ(lowered(imm(kInt32, 1)), "out holds float32, the stored value is int32");
  EXPECT_EQ(lowered(make<Binary>(BinaryOp::kAdd, fimm(kFloat32, 1), fimm(kFloat16, 1), kFloat32)),
            "the operands of + are float32 and float16 in 1.0 + 1.0f16");
  EXPECT_EQ(lowered(make<Load>(out, std::vector<Expr>{}, kFloat32)), "out of rank 1 has 0 indices in out[]");
  EXPECT_EQ(lowered(cast(kFloat32, make<IntrinsicCall>(Intrinsic::kExp, imm(kInt64, 1), kInt64))),
            "exp of int64 in exp(1)");
  EXPECT_EQ(lowered(cast(kFloat32, intrinsic(Intrinsic::kIsInf, imm(kInt64, 1)))),
            "isinf of int64 in isinf(1)");
  EXPECT_EQ(lowered(intrinsic(Intrinsic::kBitNot, fimm(kFloat32, 1))), "bitnot of float32 in bitnot(1.0)");
  EXPECT_EQ(lowered(cast(kFloat32, intrinsic(Intrinsic::kAbs, imm(kInt64, -1)))), std::nullopt);
  EXPECT_EQ(lowered(load(out, {fimm(kFloat32, 0)})), "an index is float32, must be int64: 0.0");
}

TEST(Verify, ThrowsWithTheProgram) {
  Func func = parse_func("func f() -> (out: float32[8]) { out[0] = 1.0 }");
  try {
    verify(func);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(
        std::string(e.what()),
        "invalid tensor program: the body of f is not a block named root without iterators\n" + print(func));
  }
}

}  // namespace
}  // namespace lathe::tir
