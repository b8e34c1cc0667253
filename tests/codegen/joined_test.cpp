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

}  // namespace
}  // namespace lathe::codegen
