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

/// Products of two dimensions of a batch; "d" is what stands at the place of one that an operand lacks.
Func products(const std::string& x, const std::string& w) {
  auto dims = [](std::string batch) { return batch.replace(batch.find(','), 1, ", "); };
  auto place = [](const std::string& batch, size_t d) {
    return batch[2 * d] == '1' ? std::string("0") : std::string(1, "pq"[d]);
  };
  auto places = [&](const std::string& batch) { return place(batch, 0) + ", " + place(batch, 1); };
  return parse_func("func f[a, b, m](x: float32[" + dims(x) + ", m, 4], w: float32[" + dims(w) +
                    R"(, 4, 8]) -> (y: float32[a, b, m, 8]) {
  block root {
    for i in 0..a { for j in 0..b { for l in 0..m { for o in 0..8 { for k in 0..4 {
      block product(spatial p in 0..a = i, spatial q in 0..b = j, spatial r in 0..m = l, spatial s in 0..8 = o,
                    reduce t in 0..4 = k) {
        reads x[)" + places(x) +
                    R"(, r, t], w[)" + places(w) + R"(, t, s]
        writes y[p, q, r, s]
        init { y[p, q, r, s] = 0.0 }
        y[p, q, r, s] = y[p, q, r, s] + x[)" +
                    places(x) + R"(, r, t] * w[)" + places(w) + R"(, t, s]
    } } } } } }
  }
})");
}

TEST(OwnDims, AreThoseOfEachOperandOfABatch) {
  auto signature = [](const std::string& x, const std::string& w) {
    return signature_of(canonical(with_dims_of_operands(products(x, w))));
  };
  const std::string own = signature("a,1", "1,b");
  EXPECT_EQ(own,
            "main[n0, n1, n2, n3, n4, n5, n6](p0: float32[n0, n1, n2, 4], p1: float32[n3, n4, 4, 8]) -> (p2: "
            "float32[n5, n6, n2, 8])");
  for (const auto& [x, w] : {std::pair("1,1", "a,b"), {"1,b", "a,b"}, {"a,1", "a,b"}, {"a,b", "1,b"}})
    EXPECT_EQ(signature(x, w), own) << x << " and " << w;
  // Rows of all that have the same second operand are rows of one product.
  EXPECT_EQ(signature("1,b", "a,1"), signature("a,b", "a,1"));
  EXPECT_NE(signature("1,b", "a,1"), own);
  for (const auto& [x, w] : {std::pair("a,b", "a,b"), {"a,b", "1,1"}}) {
    const Func func = products(x, w);
    EXPECT_EQ(with_dims_of_operands(func), func) << x << " and " << w;
  }
}

TEST(OwnDims, OfOperandsComputeTheSame) {
  for (const auto& [x, w] : {std::pair("a,1", "1,b"), {"1,b", "a,1"}, {"1,1", "a,b"}}) {
    const Func func = products(x, w), own = with_dims_of_operands(func);
    ASSERT_NE(own, func);
    auto run = [](const Func& f, const std::vector<int64_t>& dims) {
      const Func known = with_dims(f, dims);
      std::vector<Tensor> args;
      for (const Buffer& param : known->params) {
        std::vector<int64_t> shape;
        for (const Expr& extent : param->shape) shape.push_back(int_value(extent));
        args.push_back(random_tensor(shape, kFloat32, args.size()));
      }
      interpret(known, args);
      return args.back();
    };
    std::vector<std::vector<Expr>> shapes;
    std::vector<int64_t> dims;
    const Func known = with_dims(func, std::vector<int64_t>{3, 2, 5});
    for (const Buffer& param : known->params) shapes.push_back(param->shape);
    const auto told = told_dims(*own, shapes);
    ASSERT_TRUE(told);
    for (const Expr& dim : *told) dims.push_back(int_value(dim));
    EXPECT_EQ(max_relative_error(run(known, {}), run(own, dims)), 0) << x << " and " << w;
  }
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
