// Tensors of float16, which are computed on as float32.
#include <gtest/gtest.h>

#include <functional>

#include "core/codegen/host_target.h"
#include "core/support/error.h"
#include "core/tir/interpret.h"
#include "tests/codegen/assembly.h"
#include "tests/codegen/run_kernel.h"

namespace lathe::codegen {
namespace {
using tir::Buffer, tir::load, tir::store;

/// y[lane] = f(x[lane], z[lane]) in float32, of 16 lanes; where `masked`, of the first n.
tir::Func of_halves(const std::function<Expr(const Expr& x, const Expr& z)>& f, bool masked = false) {
  Var n = var("n");
  Buffer x = tir::buffer("x", {Expr(16)}, kFloat16), z = tir::buffer("z", {Expr(16)}, kFloat16),
         y = tir::buffer("y", {Expr(16)}, kFloat16), size = tir::buffer("size", {n}, kFloat32);
  const Expr place = ramp(Expr(0), Expr(1), 16);
  auto wide = [&](const Buffer& b) { return cast(kFloat32.with_lanes(16), load(b, {place})); };
  tir::Stmt body = store(y, {place}, cast(kFloat16.with_lanes(16), f(wide(x), wide(z))));
  if (masked) body = make<tir::If>(less(place, broadcast(Expr(n), 16)), body);
  std::vector<Buffer> buffers{x, z, size, y};
  return make<tir::FuncNode>(std::string("halves"), buffers, int64_t{1}, body);
}

const std::pair<const char*, std::function<Expr(const Expr& x, const Expr& z)>> kCompared[] = {
    {"max", [](const Expr& x, const Expr& z) { return max(x, z); }},
    {"least", [](const Expr& x, const Expr&) { return min(x, broadcast(Expr(0.0), 16)); }},
    {"floor", [](const Expr& x, const Expr&) { return intrinsic(Intrinsic::kFloor, x); }},
    {"sign", [](const Expr& x, const Expr&) { return intrinsic(Intrinsic::kSign, x); }},
    {"select", [](const Expr& x, const Expr& z) { return select(less(x, z), x * z, z); }},
};

/// LLVM compares what was widened as halves, and takes vectors of these apart.
TEST(Halves, AreComparedAndRoundedAsVectors) {
  for (const char* name : {"cpu:mcpu=haswell", "cpu:mcpu=znver4"})
    for (const auto& [what, f] : kCompared) {
      SCOPED_TRACE(fmt::format("{} for {}", what, name));
      const std::string text = assembly_of(of_halves(f), resolve_target(name));
      EXPECT_GT(count(text, "vcvtph2ps"), 0);
      for (const char* one_by_one :
           {"comiss", "cmpss", "cmpltss", "vroundss", "vrndscaless", "vpextrw", "vpinsrw"})
        EXPECT_EQ(count(text, one_by_one), 0) << one_by_one << "\n" << text;
    }
}

TEST(Halves, AreWhatTheInterpreterComputes) {
  for (const auto& [what, f] : kCompared)
    for (const int64_t n : {0, 5, 16}) {
      auto params = [&] {
        return std::vector<Tensor>{random_tensor({16}, kFloat16, 3), random_tensor({16}, kFloat16, 4),
                                   zeros({n}, kFloat32), zeros({16}, kFloat16)};
      };
      std::vector<Tensor> found = params(), expected = params();
      run_kernel(of_halves(f, true), host_target(), found);
      tir::interpret(of_halves(f, true), expected);
      for (int64_t i = 0; i < 16; ++i)
        EXPECT_EQ(found[3].value(i), expected[3].value(i)) << what << ", lane " << i << " of " << n;
    }
}

}  // namespace
}  // namespace lathe::codegen
