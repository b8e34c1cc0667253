#include "core/tir/join_dims.h"

#include <gtest/gtest.h>

#include "core/arith/simplify.h"
#include "core/tir/builder.h"
#include "core/tir/dims.h"
#include "core/tir/interpret.h"
#include "core/tir/text.h"
#include "core/tir/verify.h"

namespace lathe::tir {
namespace {

/// A 1x1 convolution, and what follows it.
constexpr const char* kPointwise = R"(
func pointwise[n, h, w](x: float32[n, 3, h, w], k: float32[2, 3, 1, 1], s: float32[n, 2, 1, 1]) -> (y: float32[n, 2, h, w]) {
  block root {
    alloc t: float32[n, 2, h, w]
    for i0 in 0..n { for i1 in 0..2 { for i2 in 0..h { for i3 in 0..w { for i4 in 0..3 { for i5 in 0..1 { for i6 in 0..1 {
      block conv(spatial b in 0..n = i0, spatial o in 0..2 = i1, spatial r in 0..h = i2, spatial c in 0..w = i3, reduce k0 in 0..3 = i4, reduce k1 in 0..1 = i5, reduce k2 in 0..1 = i6) {
        reads x[b, k0, r + k1, c + k2], k[o, k0, k1, k2]
        writes t[b, o, r, c]
        init { t[b, o, r, c] = 0.0 }
        t[b, o, r, c] = t[b, o, r, c] + x[b, k0, r + k1, c + k2] * k[o, k0, k1, k2]
    } } } } } } } }
    for i0 in 0..n { for i1 in 0..2 { for i2 in 0..h { for i3 in 0..w {
      block scale(spatial b in 0..n = i0, spatial o in 0..2 = i1, spatial r in 0..h = i2, spatial c in 0..w = i3) {
        reads t[b, o, r, c], s[b, o, 0, 0]
        writes y[b, o, r, c]
        y[b, o, r, c] = t[b, o, r, c] * s[b, o, 0, 0]
    } } } } }
} })";

std::string shape_of_result(const Func& func) {
  std::string text;
  for (const Expr& extent : func->params.back()->shape) text += (text.empty() ? "" : ", ") + print(extent);
  return text;
}

std::vector<Tensor> run(const Func& func, std::vector<Tensor> tensors) {
  interpret(func, tensors);
  return tensors;
}

TEST(DimsWithin, WhatIsOneNumberForAllOfThemIsThatNumber) {
  const Func func = parse_func(R"(
func rows[n, m](x: float32[n, m]) -> (y: float32[n, (m + 1) // 2]) {
  block root {
    for i in 0..n { for j in 0..(m + 1) // 2 {
      block b(spatial r in 0..n = i, spatial c in 0..(m + 1) // 2 = j) {
        reads x[r, c * 2]
        writes y[r, c]
        y[r, c] = select(c < (m + 1) // 2 - 1, x[r, c * 2], 0.0)
    } } }
} })");
  EXPECT_EQ(shape_of_result(with_dims_within(func, std::vector<Bound>{{0, 9}, {3, 4}})), "n, 2");
  EXPECT_EQ(shape_of_result(with_dims_within(func, std::vector<Bound>{{3, 3}, {3, 5}})), "3, (m + 1) // 2");
  const Func within = with_dims_within(func, std::vector<Bound>{{0, 9}, {3, 4}});
  EXPECT_EQ(find_fault(within, level_of(within)), std::nullopt);
  EXPECT_EQ(print(within).find("//"), std::string::npos);
  for (int64_t m : {3, 4}) {
    const std::vector<int64_t> dims = {5, m};
    const Tensor x = random_tensor({5, m}, kFloat32, 1), y({5, 2}, kFloat32);
    EXPECT_EQ(max_relative_error(run(with_dims(within, dims), {x, y}).back(),
                                 run(with_dims(func, dims), {x, y}).back()),
              0);
  }
}

TEST(JoinDims, RowsAndColumnsThatNothingTellsApartAreOne) {
  const Func func = parse_func(kPointwise), joined = join_open_dims(func);
  EXPECT_EQ(shape_of_result(joined), "n, 2, h * w");
  EXPECT_EQ(find_fault(joined, level_of(joined)), std::nullopt);
  EXPECT_EQ(dims_of(*joined).size(), 3u);  // in the same order: callers go on to pass them
  for (std::vector<int64_t> dims : {std::vector<int64_t>{2, 5, 3}, {1, 1, 1}, {1, 0, 4}}) {
    const int64_t n = dims[0], h = dims[1], w = dims[2];
    const Tensor x = random_tensor({n, 3, h, w}, kFloat32, 1), k = random_tensor({2, 3, 1, 1}, kFloat32, 2),
                 s = random_tensor({n, 2, 1, 1}, kFloat32, 3);
    const Tensor expected = run(with_dims(func, dims), {x, k, s, Tensor({n, 2, h, w}, kFloat32)}).back();
    const Tensor found =
        run(with_dims(joined, dims), {x.reshaped({n, 3, h * w}), k, s, Tensor({n, 2, h * w}, kFloat32)})
            .back();
    EXPECT_LE(max_relative_error(found.reshaped({n, 2, h, w}), expected), 1e-6);
  }
}

/// `text` with `from` as `to`, once.
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(JoinDims, WhatTellsThemApartKeepsThem) {
  const std::string text = kPointwise;
  const std::string body = "y[b, o, r, c] = t[b, o, r, c] * s[b, o, 0, 0]";
  for (const std::string& changed :
       {replaced(text, body, "y[b, o, r, c] = t[b, o, r, c] * cast(float32, c)"),
        replaced(text, body, "y[b, o, r, c] = select(r < 1, t[b, o, r, c], 0.0)"),
        replaced(replaced(text, "reads t[b, o, r, c], s[b, o, 0, 0]", "reads t[b, o, h - 1 - r, c]"), body,
                 "y[b, o, r, c] = t[b, o, h - 1 - r, c]")}) {
    const Func func = parse_func(changed);
    EXPECT_EQ(join_open_dims(func), func) << changed;
  }
}

/// x of `columns` with slices of updates put at places, by a statement of its own that multiplies an element
/// of row r and column c by times(r, c), if given.
Func scatter(const Expr& columns, const std::function<Expr(const Expr& r, const Expr& c)>& times = {}) {
  const Var n = var("n"), h = var("h"), k = var("k");
  FuncBuilder f;
  const Buffer x = f.input("x", {n, h, columns}, kFloat32), places = f.input("places", {k}, kInt64),
               updates = f.input("updates", {k, h, columns}, kFloat32);
  return f.finish(
      "scatter", {f.opaque("scatter", x->shape, kFloat32, {x, places, updates}, [&](const Buffer& out) {
        const Var i = var("i"), r = var("r"), c = var("c"), u = var("u"), s = var("s"), t = var("t");
        const Stmt copied = store(out, {i, r, c}, load(x, {i, r, c}));
        const Expr value = load(updates, {u, s, t});
        const Stmt updated = store(out, {load(places, {u}), s, t}, times ? value * times(s, t) : value);
        return seq({for_loop(i, n, for_loop(r, h, for_loop(c, columns, copied)), Iteration::kParallel),
                    for_loop(u, k, for_loop(s, h, for_loop(t, columns, updated)))});
      })});
}

TEST(JoinDims, RowsThatAStatementPutsSomewhereAreRunsOfMemory) {
  for (const Expr& columns : {Expr(var("w")), Expr(3)}) {
    const Func func = scatter(columns), joined = join_open_dims(func);
    EXPECT_EQ(shape_of_result(joined), "n, " + print(simplify(var("h") * columns))) << print(joined);
    EXPECT_EQ(find_fault(joined, level_of(joined)), std::nullopt);
    for (std::vector<int64_t> dims : {std::vector<int64_t>{4, 5, 3}, {1, 1, 1}, {2, 0, 1}}) {
      const int64_t n = dims[0], h = dims[1], w = 3, k = 2;
      // In the order of dims_of: n, h, what columns are where that is open, k.
      std::vector<int64_t> values{n, h, k};
      if (!as_int(columns)) values.insert(values.begin() + 2, w);
      Tensor places = zeros({k}, kInt64);
      places.set_integer(1, n - 1);
      const Tensor x = random_tensor({n, h, w}, kFloat32, 1), u = random_tensor({k, h, w}, kFloat32, 2);
      const Tensor expected =
          run(with_dims(func, values), {x, places, u, Tensor({n, h, w}, kFloat32)}).back();
      const Tensor found =
          run(with_dims(joined, values),
              {x.reshaped({n, h * w}), places, u.reshaped({k, h * w}), Tensor({n, h * w}, kFloat32)})
              .back();
      EXPECT_EQ(max_relative_error(found.reshaped({n, h, w}), expected), 0);
    }
  }
}

/// Their product with none is none: they would be gone, which callers look for.
TEST(JoinDims, RowsOfNothingStay) {
  const Func func = scatter(Expr(0));
  EXPECT_EQ(dims_of(*join_open_dims(func)), dims_of(*func));
}

TEST(JoinDims, StatementsThatTellRowsFromColumnsKeepThem) {
  for (const auto& times : {+[](const Expr&r, const Expr&) { return cast(kFloat32, r); },
                            +[](const Expr&, const Expr&c) { return cast(kFloat32, c); }}) {
    const Func func = scatter(var("w"), times);
    EXPECT_EQ(join_open_dims(func), func);
  }
}

}  // namespace
}  // namespace lathe::tir
