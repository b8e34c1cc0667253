#include "core/tir/own_dims.h"

#include <gtest/gtest.h>

#include "core/tir/dims.h"
#include "core/tir/interpret.h"
#include "core/tir/text.h"
#include "core/tir/verify.h"

namespace lathe::tir {
namespace {

/// y[i] = x[i] + j's sum, of `extent` elements that a dimension's expression counts; `inside` is one more
/// use.
Func program(const std::string& dims, const std::string& extent, const std::string& others = "",
             const std::string& inside = "0") {
  return parse_func("func f[" + dims + "](x: float32[" + extent + ", 4]" + others + ") -> (y: float32[" +
                    extent +
                    R"(]) {
  block root {
    for i in 0..)" + extent +
                    R"( { for k in 0..4 {
      block sum(spatial a in 0..)" +
                    extent + R"( = i, reduce b in 0..4 = k) {
        reads x[a, b]
        writes y[a]
        init { y[a] = 0.0 }
        y[a] = y[a] + select(a < )" +
                    inside + R"(, 0.0, x[a, b])
    } } }
  }
})");
}

/// "f[n](x: float32[n, 4]) -> (y: float32[n])"
std::string signature_of(const Func& func) {
  EXPECT_EQ(find_fault(func, level_of(func)), std::nullopt);
  const std::string text = print(func);
  return text.substr(5, text.find(" {") - 5);
}

TEST(OwnDims, NamesWhatTheProgramNeeds) {
  const std::string patches = "h // 14 * (w // 14)";
  auto own = [](const std::string& d) {
    return "f[" + d + "](x: float32[" + d + ", 4]) -> (y: float32[" + d + "])";
  };
  EXPECT_EQ(signature_of(with_own_dims(program("h, w", patches))), own("d2"));
  EXPECT_EQ(signature_of(with_own_dims(program("h, w", patches + " + 1"))), own("d0"));
  EXPECT_EQ(signature_of(with_own_dims(program("n", "n + 3"))), own("d0"));
  EXPECT_EQ(signature_of(with_own_dims(program("n", "(n - 5) // 2 + 3"))), own("d0"));
  EXPECT_EQ(signature_of(with_own_dims(
                program("h, w", "4 * (h // 14) * (w // 14)", ", z: float32[h // 14, w // 14]"))),
            "f[d0, d1](x: float32[d0 * d1 * 4, 4], z: float32[d0, d1]) -> (y: float32[d0 * d1 * 4])");
}

/// A multiple keeps its dimension, unless that keeps another expression from having a name.
TEST(OwnDims, NamesMultiplesBesideProducts) {
  EXPECT_EQ(signature_of(with_own_dims(
                program("c, n", "max(0, n // 8 - 1)", ", z: float32[7 * c, max(0, n // 8 - 1)]"))),
            "f[d1, d0](x: float32[d1, 4], z: float32[d0, d1]) -> (y: float32[d1])");
  const Func used = program("c, n", "n // 8", ", z: float32[7 * c, 3 * c]");
  EXPECT_EQ(with_own_dims(used), used);
}

TEST(OwnDims, LeavesWhatHasOtherUses) {
  for (const Func& func :
       {program("n", "n"), program("n, m", "n + m"), program("n", "n // 2", ", z: float32[n]"),
        program("n", "n // 2", "", "n"), program("n", "2 * n")})
    EXPECT_EQ(with_own_dims(func), func) << print(func);
}

TEST(OwnDims, AreThoseOfResults) {
  auto program_of = [](const std::string& dims, const std::string& x, const std::string& y) {
    return parse_func("func f[" + dims + "](x: float32[" + x + "]) -> (y: float32[" + y + R"(]) {
  block root {
    for i in 0..)" + y +
                      R"( {
      block b(spatial a in 0..)" +
                      y + R"( = i) {
        reads x[a]
        writes y[a]
        y[a] = x[a]
    } }
  }
})");
  };
  EXPECT_EQ(signature_of(with_dims_of_results(program_of("n", "n", "n - 4"))),
            "f[d0](x: float32[d0 + 4]) -> (y: float32[d0])");
  for (const Func& func :
       {program_of("n", "n", "n"), program_of("n", "n", "n // 2"), program_of("n, m", "n + m", "n + m")})
    EXPECT_EQ(with_dims_of_results(func), func) << print(func);
}

/// A call may have several dimensions where the program has one.
TEST(OwnDims, AreToldByTheShapesOfCalls) {
  const Var b = var("b"), t = var("t"), u = var("u");
  auto told = [](const std::string& x, const std::vector<Expr>& shape) {
    const Func func = parse_func("func f[n, m](x: float32[" + x + "], y: float32[m]) -> (z: float32[1]) {\n" +
                                 "  z[0] = 0.0\n}");
    const auto values = told_dims(*func, std::vector<std::vector<Expr>>{shape, {Expr(7)}, {Expr(1)}});
    return values ? print(values->at(0)) : "nothing";
  };
  EXPECT_EQ(told("n, 4", {b, 4}), "b");
  EXPECT_EQ(told("n, 4", {b, t, 4}), "b * t");
  EXPECT_EQ(told("3, n, 4", {3, b, t, u, 4}), "b * t * u");
  EXPECT_EQ(told("4, n, 3, m", {4, t, u, 3, b}), "t * u");
  EXPECT_EQ(told("n, m", {b, t, u}), "nothing") << "either may be two of them";
  EXPECT_EQ(told("n, 4", {b, 2, t, 4}), "nothing");
  EXPECT_EQ(told("n, 4", {3, 4, 4}), "nothing");
}

TEST(OwnDims, ComputesTheSame) {
  const Func func = program("h, w", "h // 2 * (w // 2) + 1", "", "h // 2 * (w // 2)"),
             own = with_own_dims(func);
  ASSERT_NE(own, func);
  ASSERT_EQ(dims_of(*own).size(), 1u);
  const Tensor x = random_tensor({7, 4}, kFloat32, 1);
  std::vector<Tensor> before = {x, Tensor({7}, kFloat32)}, after = {x, Tensor({7}, kFloat32)};
  interpret(with_dims(func, std::vector<int64_t>{4, 7}), before);
  interpret(with_dims(own, std::vector<int64_t>{7}), after);
  EXPECT_EQ(max_relative_error(before[1], after[1]), 0);
}

}  // namespace
}  // namespace lathe::tir
