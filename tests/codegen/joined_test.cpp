// Two tensors joined in one: a select by place, of which each side is far outside where the other is meant.
#include <gtest/gtest.h>

#include "core/codegen/host_target.h"
#include "core/tir/interpret.h"
#include "tests/codegen/assembly.h"
#include "tests/codegen/run_kernel.h"

namespace lathe::codegen {
namespace {
using tir::Buffer, tir::for_loop, tir::load, tir::store;

TEST(Joined, SidesThatNoLaneWantsArePassedBy) {
  constexpr int64_t kFirst = 93, kAll = 186, kRows = 12;
  Buffer x = tir::buffer("x", {kFirst}, kFloat32), y = tir::buffer("y", {kAll - kFirst}, kFloat32),
         z = tir::buffer("z", {kRows, 16}, kFloat32);
  Var i = var("i");
  const Expr place = broadcast(i * 16, 16) + ramp(Expr(0), Expr(1), 16);
  const auto many = [](int64_t value) { return broadcast(Expr(value), 16); };
  const Expr joined = select(less(place, many(kFirst)), load(x, {place}), load(y, {place - many(kFirst)})),
             padded = select(less(place, many(kAll)), joined, broadcast(Expr(0.0F), 16));
  const std::vector<Buffer> buffers{x, y, z};
  tir::Func f = make<tir::FuncNode>(std::string("join"), buffers, int64_t{1},
                                    for_loop(i, kRows, store(z, {i, ramp(Expr(0), Expr(1), 16)}, padded)));
  const std::string text = assembly_of(f, resolve_target("cpu:mcpu=znver4"));
  EXPECT_GE(count(text, "kortest") + count(text, "ktest") + count(text, "testw"), 2) << text;
  const auto params = [&] {
    return std::vector<Tensor>{random_tensor({kFirst}, kFloat32, 3),
                               random_tensor({kAll - kFirst}, kFloat32, 4), zeros({kRows, 16}, kFloat32)};
  };
  std::vector<Tensor> found = params(), expected = params();
  run_kernel(f, host_target(), found);
  tir::interpret(f, expected);
  EXPECT_EQ(max_relative_error(found[2], expected[2]), 0);
}

/// Counting what is larger, as where the largest of a row are found: a count is loaded whether it grows or
/// not, so no side is passed by.
TEST(Joined, WhatBothSidesLoadNeedsNoBranch) {
  constexpr int64_t kRows = 12;
  Buffer x = tir::buffer("x", {kRows}, kFloat32), y = tir::buffer("y", {16}, kFloat32),
         counts = tir::buffer("counts", {16}, kInt32);
  Var i = var("i");
  const Expr lanes = ramp(Expr(0), Expr(1), 16), count_now = load(counts, {lanes});
  const Expr grown = select(less(load(y, {lanes}), broadcast(load(x, {i}), 16)),
                            count_now + broadcast(imm(kInt32, 1), 16), count_now);
  const std::vector<Buffer> buffers{x, y, counts};
  const tir::Stmt none = store(counts, {lanes}, broadcast(imm(kInt32, 0), 16)),
                  all = for_loop(i, kRows, store(counts, {lanes}, grown));
  tir::Func f = make<tir::FuncNode>(std::string("count"), buffers, int64_t{1}, tir::seq({none, all}));
  const std::string text = assembly_of(f, resolve_target("cpu:mcpu=znver4"));
  EXPECT_EQ(count(text, "kortest") + count(text, "ktest") + count(text, "testw"), 0) << text;
  const auto params = [&] {
    return std::vector<Tensor>{random_tensor({kRows}, kFloat32, 3), random_tensor({16}, kFloat32, 4),
                               zeros({16}, kInt32)};
  };
  std::vector<Tensor> found = params(), expected = params();
  run_kernel(f, host_target(), found);
  tir::interpret(f, expected);
  EXPECT_EQ(max_relative_error(found[2], expected[2]), 0);
}

/// What a choice inside a side may not load is no load that always happens.
TEST(Joined, WhatASideMayNotLoadIsLoadedUnderAMask) {
  constexpr int64_t kFirst = 20, kAll = 64;
  Buffer x = tir::buffer("x", {kFirst}, kFloat32), y = tir::buffer("y", {kAll}, kFloat32),
         z = tir::buffer("z", {kAll}, kFloat32);
  Var i = var("i");
  const Expr place = broadcast(i * 16, 16) + ramp(Expr(0), Expr(1), 16);
  const auto many = [](int64_t value) { return broadcast(Expr(value), 16); };
  const Expr of_x = load(x, {place}), of_y = load(y, {place});
  // x where the place is below 4 and, of others, below 20: at no other place, though both sides name it.
  const Expr either =
      select(less(place, many(4)), of_x, select(less(place, many(kFirst)), of_x + of_y, of_y));
  const std::vector<Buffer> buffers{x, y, z};
  tir::Func f = make<tir::FuncNode>(std::string("either"), buffers, int64_t{1},
                                    for_loop(i, kAll / 16, store(z, {place}, either)));
  const std::string text = assembly_of(f, resolve_target("cpu:mcpu=znver4"));
  EXPECT_GE(count(text, "{%k"), 2) << text;
  const auto params = [&] {
    return std::vector<Tensor>{random_tensor({kFirst}, kFloat32, 3), random_tensor({kAll}, kFloat32, 4),
                               zeros({kAll}, kFloat32)};
  };
  std::vector<Tensor> found = params(), expected = params();
  run_kernel(f, host_target(), found);
  tir::interpret(f, expected);
  EXPECT_EQ(max_relative_error(found[2], expected[2]), 0);
}

}  // namespace
}  // namespace lathe::codegen
