#include "core/tir/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/support/error.h"
#include "tests/thrown_by.h"
#include "tests/tir/random_func.h"

namespace lathe::tir {
namespace {

constexpr const char* kDense =
    R"(func dense[n](a: float32[n, 64], b: float32[16, 64]) -> (c: float32[n, 16]) {
  block root {
    for i in 0..n parallel {
      for j in 0..16 {
        for k in 0..64 unrolled @depth=4 {
          block dense(spatial y in 0..n = i, spatial x in 0..16 = j, reduce r in 0..64 = k) where i < n && !(j == 3) @tag=-1 {
            reads a[y, r], b[x, r]
            writes c[y, x]
            init {
              c[y, x] = 0.0
            }
            c[y, x] = c[y, x] + a[y, r] * b[x, r]
          }
        }
      }
    }
  }
}
)";

constexpr const char* kLowered = R"(func f(a: float32[64]) -> (b: float16[64], c: bool[]) {
  alloc t: float32[16] local {
    for i in 0..4 vectorized {
      t[ramp(i * 4, 1, 4)] = max(a[ramp(i * 4, 1, 4)], broadcast(-inf, 4)) * broadcast(0.1, 4)
      {
        if i % 2 == 0 || i >> 1 < 3 {
          b[i] = cast(float16, select(i < 2, exp(t[i - 1]), 1e+20)) - nan(float16)
        } else {
        }
      }
    }
    c[] = 255u8 == cast(uint8, 2.5f16) && 1 - (2 - 3) <= -9223372036854775808
  }
}
)";

TEST(Text, RoundTripOfWrittenPrograms) {
  for (const char* text : {kDense, kLowered}) {
    Func func = parse_func(text);
    EXPECT_EQ(print(func), text);
    EXPECT_TRUE(structural_equal(func, parse_func(print(func)), /*map_free=*/true));  // n is free
  }
}

TEST(Text, RoundTripOfRandomPrograms) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    Func func = random_func(seed);
    std::string text = print(func);
    Func again = parse_func(text);
    ASSERT_TRUE(structural_equal(func, again)) << text;
    ASSERT_EQ(print(again), text);
    NodeRef from_json = load_json(save_json(func), tir_node_types());
    ASSERT_TRUE(structural_equal(func, from_json)) << text;
    ASSERT_EQ(print(from_json.cast<FuncNode>()), text);
  }
}

TEST(Text, FloatsKeepEveryBit) {
  for (double value :
       std::vector<double>{0.1, 1.0, -0.0, 1e300, 5e-324, 1.0 / 3, static_cast<double>(0.1f), 1e22, INFINITY,
                           -INFINITY, NAN, -NAN, std::numeric_limits<double>::signaling_NaN()}) {
    for (DataType type : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
      Buffer out = buffer("out", {}, type);
      Func func =
          make<FuncNode>("f", std::vector<Buffer>{out}, int64_t{1}, store(out, {}, fimm(type, value)));
      EXPECT_TRUE(structural_equal(func, parse_func(print(func)))) << print(func);
    }
  }
}

TEST(Text, NamesAreMadeUniqueAndLegal) {
  Buffer a = buffer("x", {4}, kFloat32), b = buffer("x", {4}, kFloat32), c = buffer("for", {4}, kFloat32);
  Var i = var("x");
  Stmt body = for_loop(i, 4, seq({store(b, {i}, load(a, {i})), store(c, {i}, load(b, {i}))}));
  Func func = make<FuncNode>("a name", std::vector<Buffer>{a, b, c}, int64_t{2}, body);
  EXPECT_EQ(print(func), R"(func "a name"(x: float32[4]) -> (x_1: float32[4], _for: float32[4]) {
  for x_2 in 0..4 {
    x_1[x_2] = x[x_2]
    _for[x_2] = x_1[x_2]
  }
}
)");
  EXPECT_TRUE(structural_equal(func, parse_func(print(func))));
}

TEST(Text, NamesOfAnyCharactersReadBack) {
  Buffer a = buffer("a", {1}, kFloat32);
  for (const char* name : {"a\"b", "two\nlines", "back\\slash", "\\n", "\\\"", "", "ends in \\"}) {
    Func func = make<FuncNode>(name, std::vector<Buffer>{a}, int64_t{1}, store(a, {0}, fimm(kFloat32, 1)),
                               Annotations{{name, 3}});
    Func again = parse_func(print(func));
    EXPECT_EQ(again->name, name) << print(func);
    EXPECT_TRUE(structural_equal(func, again)) << print(func);
    EXPECT_EQ(again->annotations, func->annotations);
  }
  EXPECT_THROW(parse_func("func \"a\\"), Error);
  EXPECT_THROW(parse_func("func \"a\\\n\"() -> () { }"), Error);
}

TEST(Text, SequencesKeepTheirShape) {
  Buffer a = buffer("a", {1}, kFloat32);
  Stmt s = store(a, {0}, fimm(kFloat32, 1));
  auto sequence = [](std::vector<Stmt> list) { return Stmt(make<Seq>(std::move(list))); };
  for (const Stmt& body :
       {sequence({}), sequence({s}), sequence({sequence({s})}), sequence({sequence({s, s}), s}),
        sequence({sequence({}), sequence({sequence({})})})}) {
    Func func = make<FuncNode>("f", std::vector<Buffer>{a}, int64_t{1}, body);
    EXPECT_TRUE(structural_equal(func, parse_func(print(func)))) << print(func);
  }
}

TEST(Text, CanonicalNamesDependOnStructureAlone) {
  auto build = [](const std::string& prefix, int64_t extent) {
    FuncBuilder f;
    Buffer a = f.input(prefix + "a", {var(prefix + "n"), extent}, kFloat32);
    Buffer b = f.compute(prefix + "b", a->shape, [&](Vars i) {
      return load(a, {i[0], i[1]}) + load(a, {i[0], 0});
    });
    Buffer c = f.compute(prefix + "c", a->shape, [&](Vars i) { return load(b, {i[0], i[1]}); });
    return f.finish(prefix + "f", {c});
  };
  EXPECT_NE(print(build("x", 4)), print(build("y", 4)));
  EXPECT_EQ(print(canonical(build("x", 4))), print(canonical(build("y", 4))));
  EXPECT_NE(workload_digest(build("x", 4)), workload_digest(build("x", 5)));
  Func once = canonical(build("x", 4));
  EXPECT_EQ(print(canonical(once)), print(once));
  EXPECT_EQ(print(once), R"(func main[n0](p0: float32[n0, 4]) -> (p1: float32[n0, 4]) {
  block root {
    alloc t0: float32[n0, 4]
    for i0 in 0..n0 {
      for i1 in 0..4 {
        block b0(spatial v0 in 0..n0 = i0, spatial v1 in 0..4 = i1) {
          reads p0[v0, 0:v1 + 1]
          writes t0[v0, v1]
          t0[v0, v1] = p0[v0, v1] + p0[v0, 0]
        }
      }
    }
    for i2 in 0..n0 {
      for i3 in 0..4 {
        block b1(spatial v2 in 0..n0 = i2, spatial v3 in 0..4 = i3) {
          reads t0[v2, v3]
          writes p1[v2, v3]
          p1[v2, v3] = t0[v2, v3]
        }
      }
    }
  }
}
)");
}

TEST(Text, DigestsNeverChange) {
  // Test vectors: tuning databases are keyed by these.
  EXPECT_EQ(workload_digest(parse_func(kDense)),
            "0cf7f92983e8ee81eb35a302ec24957a9c2b776238341defff03c00f434941b6");
  EXPECT_EQ(workload_digest(parse_func(kLowered)),
            "3da54acbe211390b25568c7cc77e872bbb8384c384455d6bdbfecd0a4fa7f427");
}

std::string error_of(std::string_view text) {
  return thrown_by([&] { parse_func(text, "f.tir"); });
}

std::string error_in_body(const std::string& body) {
  return error_of("func f(a: float32[4]) -> (out: float32[4]) {\n  " + body + "\n}\n");
}

/// Who asks for the number of a dimension ended the process where one was written as a sum.
TEST(Text, ADimensionIsANumberHoweverItIsWritten) {
  Func func = parse_func(
      "func f[n](a: float32[112 + 2, n + 1], b: float32[n - n + 3]) -> (out: float32[2 * 3]) "
      "{ for i in 0..8 - 2 { out[i] = a[i, 0] } }");
  EXPECT_EQ(as_int(func->params[0]->shape[0]) ? int_value(func->params[0]->shape[0]) : 0, 114);
  EXPECT_FALSE(as_int(func->params[0]->shape[1]));
  EXPECT_TRUE(is_int(func->params[1]->shape[0], 3));
  EXPECT_TRUE(is_int(func->params[2]->shape[0], 6));
  EXPECT_TRUE(is_int(func->body.as<For>()->extent, 6));
  EXPECT_EQ(error_of("func f(a: float32[5 % 0]) -> () { }"),
            "f.tir:1:19: error: a dimension is a number that cannot be computed\n"
            "  func f(a: float32[5 % 0]) -> () { }\n                    ^");
}

TEST(Text, ErrorsSayWhereAndWhat) {
  EXPECT_EQ(
      error_in_body("out[0] = b[1]"),
      "f.tir:2:12: error: no buffer is called `b`; did you mean `a`?\n    out[0] = b[1]\n             ^");
  EXPECT_EQ(error_in_body("out[0] = a[0] + 1"),
            "f.tir:2:17: error: the operands of + are float32 and int64\n    out[0] = a[0] + 1\n             "
            "     ^");
  EXPECT_EQ(error_in_body("out[0, 1] = 1.0"),
            "f.tir:2:3: error: out has 1 dimensions, got 2 indices\n    out[0, 1] = 1.0\n    ^^^");
  EXPECT_EQ(error_in_body("for i in 0..4 vectorised { }"),
            "f.tir:2:17: error: `vectorised` is no way to run a loop; did you mean `vectorized`?\n"
            "    for i in 0..4 vectorised { }\n                  ^^^^^^^^^^");
  EXPECT_EQ(error_in_body("out[0] = sqr(1.0)"),
            "f.tir:2:12: error: no function is called `sqr`; did you mean `sqrt`?\n    out[0] = sqr(1.0)\n   "
            "          ^^^");
  EXPECT_EQ(error_in_body("out[0] = 1"),
            "f.tir:2:10: error: out holds float32, the value is int64\n    out[0] = 1\n           ^");
  EXPECT_EQ(error_in_body("out[0] = 1.0 $"),
            "f.tir:2:16: error: unexpected character\n    out[0] = 1.0 $\n                 ^");
  EXPECT_EQ(error_of("func f() -> () {"),
            "f.tir:1:17: error: expected `}`, the text ends\n  func f() -> () {\n                  ^");
  EXPECT_EQ(error_of(""), "f.tir:1:1: error: expected `func`, the text ends\n  \n  ^");
}

TEST(Text, JsonOfAnUnknownOperatorIsRefused) {
  Func func = parse_func("func f(a: int32[4]) -> (out: int32[4]) { out[0] = a[0] - 1i32 }");
  const std::string json = save_json(func), op = "\"op\":1";
  size_t at = json.find(op);
  ASSERT_NE(at, std::string::npos);
  auto error_with = [&](const std::string& number) -> std::string {
    return thrown_by(
        [&] { load_json(std::string(json).replace(at, op.size(), "\"op\":" + number), tir_node_types()); });
  };
  EXPECT_EQ(error_with("20"), "no error");
  for (const char* number : {"21", "99", "-1", "256"})
    EXPECT_EQ(error_with(number), std::string("json: ") + number + " is none of the 21 values of its field");
}

TEST(Text, HostileTextIsRefused) {
  std::string deep(100000, '(');
  EXPECT_NE(error_in_body("out[0] = " + deep).find("nested more than 500 deep"), std::string::npos);
  EXPECT_NE(error_in_body(std::string(100000, '{')).find("nested more than 500 deep"), std::string::npos);
  std::string chain = "1.0";
  for (int i = 0; i < 100000; ++i) chain += "+1.0";
  EXPECT_EQ(error_in_body("out[0] = " + chain), "f.tir: error: expressions nested more than 3000 deep");
  EXPECT_NE(error_in_body("out[0] = 1e999").find("out of range"), std::string::npos);
  EXPECT_NE(error_in_body("out[0] = broadcast(1.0, 100000)").find("must be 2 to 1024"), std::string::npos);
}

}  // namespace
}  // namespace lathe::tir
