// Statements of which some lanes are meant.
#include <gtest/gtest.h>

#include <cstring>

#include "core/codegen/host_target.h"
#include "core/tir/interpret.h"
#include "tests/codegen/assembly.h"
#include "tests/codegen/run_kernel.h"

namespace lathe::codegen {
namespace {
using tir::Buffer, tir::for_loop, tir::load, tir::Stmt, tir::store;

tir::Func func(std::string name, std::vector<Buffer> params, Stmt body) {
  return make<tir::FuncNode>(std::move(name), std::move(params), int64_t{1}, std::move(body));
}

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

TEST(Masks, KeepWhatTheyHoldBack) {
  for (DataType type : {kFloat32, kFloat16, kBFloat16, kInt8, kBool}) {
    Buffer x = tir::buffer("x", {5}, type), y = tir::buffer("y", {16}, type);
    Expr lanes = ramp(Expr(0), Expr(1), 16);
    auto masked = make<tir::If>(less(lanes, broadcast(Expr(5), 16)), store(y, {lanes}, load(x, {lanes})));
    Tensor ones = full({5}, type, 1), out = zeros({16}, type);
    run_kernel(func("copy", {x, y}, masked), host_target(), std::vector{ones, out});
    size_t bytes = static_cast<size_t>(5 * type.bytes());
    EXPECT_EQ(std::memcmp(out.data(), ones.data(), bytes), 0) << to_string(type);
    const auto* rest = static_cast<const uint8_t*>(out.data());
    for (size_t i = bytes; i < static_cast<size_t>(out.bytes()); ++i)
      EXPECT_EQ(rest[i], 0) << to_string(type);
  }
}

/// A masked store takes a dozen cycles where no register holds masks.
// They are computed with: what is on the stack may be denormal numbers, each of which costs a hundred cycles.
TEST(Masks, HoldZerosBackInRegistersThatNothingWasStoredTo) {
  Buffer x = tir::buffer("x", {16}, kFloat32), y = tir::buffer("y", {2, 16}, kFloat32),
         local = tir::buffer("local", {16}, kFloat32, tir::Scope::kLocal);
  const Expr lanes = ramp(Expr(0), Expr(1), 16);
  Var i = var("i");
  const Expr meant = Expr(5) - Expr(i) * 2;
  const Stmt masked =
      make<tir::If>(less(lanes, broadcast(meant, 16)), store(local, {lanes}, load(x, {lanes})));
  const Stmt body = tir::seq({masked, store(y, {Expr(i), lanes}, load(local, {lanes}))});
  Tensor ones = full({16}, kFloat32, 1), out = full({2, 16}, kFloat32, 7);
  run_kernel(func("twice", {x, y}, for_loop(i, 2, make<tir::Alloc>(local, body))), host_target(),
             std::vector{ones, out});
  for (int64_t at = 0; at < 32; ++at) EXPECT_EQ(out.value(at), at % 16 < 5 - at / 16 * 2 ? 1 : 0) << at;
}

TEST(Masks, ThatAreKnownBecomeShorterStores) {
  for (int width : {4, 8, 16})
    for (int begin : {0, 1})
      for (int end = begin + 1; end < width; ++end) {
        Buffer x = tir::buffer("x", {width}, kFloat32), y = tir::buffer("y", {width}, kFloat32);
        const Expr lanes = ramp(Expr(0), Expr(1), width);
        Expr wanted = less(lanes, broadcast(Expr(end), width));
        if (begin > 0) wanted = logical_and(less_equal(broadcast(Expr(begin), width), lanes), wanted);
        tir::Func f = func("copy", {x, y}, make<tir::If>(wanted, store(y, {lanes}, load(x, {lanes}))));
        Tensor ones = full({width}, kFloat32, 1), out = zeros({width}, kFloat32);
        run_kernel(f, host_target(), std::vector{ones, out});
        for (int l = 0; l < width; ++l) EXPECT_EQ(out.as<float>()[l], l >= begin && l < end) << end;
        if (begin > 0) continue;
        const std::string text = assembly_of(f, resolve_target("cpu:mcpu=znver3"));
        EXPECT_EQ(count(text, "vmaskmovps\t%"), 0) << end << " of " << width << "\n" << text;
      }
}

/// The lanes held back are 0, and dividing by that ends a process.
TEST(Masks, KeepDivisorsThatTheyHoldBack) {
  for (DataType type : {kInt8, kUInt8, kInt32, kInt64})
    for (BinaryOp op : {BinaryOp::kDiv, BinaryOp::kMod, BinaryOp::kFloorDiv, BinaryOp::kFloorMod}) {
      Buffer x = tir::buffer("x", {5}, type), y = tir::buffer("y", {5}, type),
             z = tir::buffer("z", {5}, type);
      Expr lanes = ramp(Expr(0), Expr(1), 16);
      Expr quotient = binary(op, load(x, {lanes}), load(y, {lanes}));
      auto masked = make<tir::If>(less(lanes, broadcast(Expr(5), 16)), store(z, {lanes}, quotient));
      std::vector<Tensor> params{full({5}, type, 7), full({5}, type, 4), zeros({5}, type)};
      run_kernel(func("divide", {x, y, z}, masked), host_target(), params);
      bool divides = op == BinaryOp::kDiv || op == BinaryOp::kFloorDiv;
      EXPECT_EQ(std::memcmp(params[2].data(), full({5}, type, divides ? 1 : 3).data(),
                            static_cast<size_t>(params[2].bytes())),
                0)
          << to_string(type);
    }
}

/// Held back by a constant or by a loop's variable; neither takes a gather, which is slower than its parts.
TEST(Masks, OfEveryNthElement) {
  const Target target = resolve_target("cpu:mcpu=x86-64-v4");
  for (int64_t stride = 2; stride <= 4; ++stride)
    for (bool constant : {true, false}) {
      const int64_t rows = constant ? 1 : 16, columns = 15 * stride + 1;
      Buffer x = tir::buffer("x", {rows, columns}, kFloat32), y = tir::buffer("y", {rows, 16}, kFloat32);
      Var i = var("i");
      Expr lanes = ramp(Expr(0), Expr(1), 16), bound = constant ? Expr(9) : Expr(i);
      Stmt copy = store(y, {i, lanes}, load(x, {i, ramp(Expr(0), Expr(stride), 16)}));
      tir::Func f =
          func("pick", {x, y}, for_loop(i, rows, make<tir::If>(less(lanes, broadcast(bound, 16)), copy)));
      EXPECT_EQ(count(assembly_of(f, target), "gather"), 0) << "stride " << stride;
      std::vector<Tensor> params{random_tensor({rows, columns}, kFloat32, 3), zeros({rows, 16}, kFloat32)};
      run_kernel(f, host_target(), params);
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t k = 0; k < 16; ++k)
          ASSERT_EQ(params[1].value(row * 16 + k),
                    k < (constant ? 9 : row) ? params[0].value(row * columns + k * stride) : 0)
              << "stride " << stride << ", row " << row << ", lane " << k;
    }
}

/// y[8 i + lane] += x[k, 8 i + lane] where that is below n.
tir::Func sum_of_rows() {
  Var n = var("n"), i = var("i"), k = var("k");
  Buffer x = tir::buffer("x", {Expr(5), n}, kFloat32), y = tir::buffer("y", {Expr(n)}, kFloat32),
         sum = tir::buffer("sum", {8}, kFloat32, tir::Scope::kLocal);
  const Expr lanes = ramp(Expr(0), Expr(1), 8), place = ramp(Expr(i) * 8, Expr(1), 8),
             inside = less(place, broadcast(Expr(n), 8)), zero = broadcast(fimm(kFloat32, 0), 8);
  const Stmt add = store(sum, {lanes}, load(sum, {lanes}) + select(inside, load(x, {Expr(k), place}), zero));
  const Stmt tile = tir::seq({store(sum, {lanes}, zero), for_loop(k, 5, add),
                              make<tir::If>(inside, store(y, {place}, load(sum, {lanes})))});
  return func("sum_of_rows", {x, y},
              for_loop(i, floordiv(Expr(n) + 7, Expr(8)), make<tir::Alloc>(sum, tile)));
}

TEST(Masks, ThatAreVectorsAreComputedBeforeTheLoop) {
  const std::string text = assembly_of(sum_of_rows(), resolve_target("cpu:mcpu=haswell"));
  const size_t load = text.find("vmaskmovps\t(");
  ASSERT_NE(load, std::string::npos) << text;
  const size_t end = text.find("\tj", load), begin = text.rfind(":\n", load);
  const std::string loop = text.substr(begin, end - begin);
  EXPECT_EQ(count(loop, "vpcmpgt") + count(loop, "vpackss") + count(loop, "vblendv"), 0) << loop;
}

TEST(Masks, OfLoadsInALoopGiveZerosBeyond) {
  for (const int64_t n : {1, 7, 8, 9, 20}) {
    std::vector<Tensor> found{random_tensor({5, n}, kFloat32, 3), zeros({n}, kFloat32)};
    run_kernel(sum_of_rows(), host_target(), found);
    const auto* x = static_cast<const float*>(found[0].data());
    const auto* y = static_cast<const float*>(found[1].data());
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (int64_t row = 0; row < 5; ++row) sum += x[row * n + j];
      EXPECT_EQ(y[j], sum) << j << " of " << n;
    }
  }
}

}  // namespace
}  // namespace lathe::codegen
