// Statements of which some lanes are meant.
#include <gtest/gtest.h>

#include "core/codegen/host_target.h"
#include "core/tir/interpret.h"
#include "tests/codegen/assembly.h"
#include "tests/codegen/run_kernel.h"

namespace lathe::codegen {
namespace {
using tir::Buffer, tir::load, tir::store;

/// y[16 + lane] = 2 * x[16 + lane] where that is below n; `known`: that 16 is.
tir::Func edge(bool known) {
  Var n = var("n");
  Buffer x = tir::buffer("x", {n}, kFloat32), y = tir::buffer("y", {n}, kFloat32);
  const Expr place = ramp(Expr(16), Expr(1), 16);
  const tir::Stmt masked = make<tir::If>(less(place, broadcast(Expr(n), 16)),
                                         store(y, {place}, load(x, {place}) + load(x, {place})));
  const tir::Stmt first = store(y, {Expr(0)}, load(x, {Expr(0)}));
  const std::vector<Buffer> buffers{x, y};
  return make<tir::FuncNode>(
      std::string("edge"), buffers, int64_t{1},
      tir::seq({first, known ? tir::Stmt(make<tir::If>(less(Expr(16), Expr(n)), masked)) : masked}));
}

int tests_of_masks(const tir::Func& f) {
  const std::string text = assembly_of(f, resolve_target("cpu:mcpu=znver4"));
  return count(text, "kortest") + count(text, "ktest") + count(text, "testw");
}

TEST(Masks, OfWhichALaneIsKnownToBeMeantAreNotTested) {
  EXPECT_GT(tests_of_masks(edge(false)), 0);
  EXPECT_EQ(tests_of_masks(edge(true)), 0);
}

TEST(Masks, OfWhichNoLaneIsMeantStoreNothing) {
  for (const int64_t n : {1, 16, 17, 25, 32, 40})
    for (const bool known : {true, false}) {
      std::vector<Tensor> found{random_tensor({n}, kFloat32, 3), zeros({n}, kFloat32)};
      const auto* x = static_cast<const float*>(found[0].data());
      run_kernel(edge(known), host_target(), found);
      const auto* y = static_cast<const float*>(found[1].data());
      for (int64_t i = 1; i < n; ++i) EXPECT_EQ(y[i], i >= 16 && i < 32 ? 2 * x[i] : 0) << i << " of " << n;
    }
}

}  // namespace
}  // namespace lathe::codegen
