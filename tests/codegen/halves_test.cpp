// Real numbers of 16 bits, which are computed on as float32, and conversions of vectors to integers.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "core/codegen/host_target.h"
#include "core/support/error.h"
#include "core/tir/interpret.h"
#include "core/tir/text.h"
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

/// LLVM changes the sign behind the conversion, where the processor has no vectors for it.
TEST(Halves, SignsOfBFloat16AreChangedInVectors) {
  Buffer x = tir::buffer("x", {Expr(16)}, kBFloat16), y = tir::buffer("y", {Expr(16)}, kBFloat16);
  const Expr place = ramp(Expr(0), Expr(1), 16), loaded = cast(kFloat32.with_lanes(16), load(x, {place}));
  for (const Expr& e : {intrinsic(Intrinsic::kAbs, loaded), broadcast(fimm(kFloat32, 0), 16) - loaded}) {
    const std::vector<Buffer> buffers{x, y};
    const auto f = make<tir::FuncNode>(std::string("signs"), buffers, int64_t{1},
                                       store(y, {place}, cast(kBFloat16.with_lanes(16), e)));
    const std::string text = assembly_of(f, resolve_target("cpu:mcpu=znver4"));
    EXPECT_EQ(count(text, "vcvtneps2bf16"), 1) << text;
    EXPECT_EQ(count(text, "vpextrw") + count(text, "vpinsrw"), 0) << text;
  }
}

/// Planes of channels become channels of pixels, rounded on the way: LLVM makes vectors of such a loop.
TEST(Halves, PlanesAreInterleavedInVectors) {
  const tir::Func f = tir::parse_func(R"(func pixels(x: float32[4, 96]) -> (y: bfloat16[96, 4]) {
    for i in 0..96 {
      y[i, 0] = cast(bfloat16, x[0, i])
      y[i, 1] = cast(bfloat16, x[1, i])
      y[i, 2] = cast(bfloat16, x[2, i])
      y[i, 3] = cast(bfloat16, x[3, i])
    }
  })");
  const std::string text = assembly_of(f, resolve_target("cpu:mcpu=znver4"));
  EXPECT_EQ(count(text, "vpextrw") + count(text, "vmovss"), 0) << text;
}

/// Numbers that int64 has not become the nearest that it has, and NaN 0, in vectors as one by one.
TEST(Casts, ToInt64Saturate) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> given{0.9,    -0.9,    1e9, -3e9, 0x1p62,       -0x1p62, 0x1p63, -0x1p63,
                                  0x1p80, -0x1p80, inf, -inf, std::nan(""), -0.0,    0x1p31, 123456.75};
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
  const std::vector<int64_t> expected{0,
                                      0,
                                      1000000000,
                                      -3000000000,
                                      int64_t{1} << 62,
                                      -(int64_t{1} << 62),
                                      kMost,
                                      kLeast,
                                      kMost,
                                      kLeast,
                                      kMost,
                                      kLeast,
                                      0,
                                      0,
                                      int64_t{1} << 31,
                                      123456};
  for (const DataType dtype : {kFloat32, kFloat64})
    for (const int lanes : {1, 16}) {
      Buffer x = tir::buffer("x", {Expr(16)}, dtype), y = tir::buffer("y", {Expr(16)}, kInt64);
      Var i = var("i");
      const Expr place = lanes == 1 ? Expr(i) : ramp(Expr(i) * 16, Expr(1), 16);
      const std::vector<Buffer> buffers{x, y};
      const auto f = make<tir::FuncNode>(
          std::string("whole"), buffers, int64_t{1},
          tir::for_loop(i, 16 / lanes, store(y, {place}, cast(kInt64.with_lanes(lanes), load(x, {place})))));
      std::vector<Tensor> tensors{zeros({16}, dtype), zeros({16}, kInt64)};
      for (size_t k = 0; k < given.size(); ++k) tensors[0].set(static_cast<int64_t>(k), given[k]);
      run_kernel(f, host_target(), tensors);
      for (size_t k = 0; k < given.size(); ++k)
        EXPECT_EQ(tensors[1].integer(static_cast<int64_t>(k)), expected[k])
            << given[k] << " in " << to_string(dtype) << ", " << lanes << " lanes";
    }
}

/// One by one they take six times as long.
TEST(Casts, ToInt64AreVectors) {
  Buffer x = tir::buffer("x", {Expr(16)}, kFloat32), y = tir::buffer("y", {Expr(16)}, kInt64);
  const Expr place = ramp(Expr(0), Expr(1), 16);
  const std::vector<Buffer> buffers{x, y};
  const auto f = make<tir::FuncNode>(std::string("whole"), buffers, int64_t{1},
                                     store(y, {place}, cast(kInt64.with_lanes(16), load(x, {place}))));
  const std::string text = assembly_of(f, resolve_target("cpu:mcpu=znver4"));
  EXPECT_EQ(count(text, "vcvttps2qq"), 2) << text;
  EXPECT_EQ(count(text, "vcvttss2si"), 0) << text;
}

}  // namespace
}  // namespace lathe::codegen
