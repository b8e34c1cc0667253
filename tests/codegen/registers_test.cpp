// Register tiles stay in registers: no vector moves to or from the stack.
#include "core/codegen/registers.h"

#include <gtest/gtest.h>

#include <sstream>

#include "core/codegen/compile.h"
#include "core/codegen/host_target.h"
#include "core/support/error.h"
#include "core/tir/lower.h"
#include "schedules/space.h"
#include "tests/codegen/run_kernel.h"
#include "tests/schedules/programs.h"
#include "tests/tir/random_func.h"

namespace lathe::codegen {
namespace {
using tir::Buffer, tir::Stmt, tir::for_loop, tir::load, tir::store;

/// c[i, j] += a[k, i] * b[k, j] for a tile of `rows` by `vectors` vectors, accumulators in a local buffer.
tir::Func tile_kernel(int rows, int vectors, int lanes) {
  int64_t depth = 256, width = int64_t{vectors} * lanes;
  Buffer a = tir::buffer("a", {depth, rows}, kFloat32), b = tir::buffer("b", {depth, width}, kFloat32),
         c = tir::buffer("c", {rows, width}, kFloat32);
  Buffer sums = tir::buffer("sums", {rows, width}, kFloat32, tir::Scope::kLocal);
  Var k = var("k");
  auto tile = [&](const std::function<Stmt(Expr, Expr)>& statement) {
    std::vector<Stmt> stmts;
    for (int i = 0; i < rows; ++i)
      for (int v = 0; v < vectors; ++v) stmts.push_back(statement(i, ramp(Expr(v * lanes), Expr(1), lanes)));
    return tir::seq(stmts);
  };
  Stmt init = tile([&](Expr i, Expr j) { return store(sums, {i, j}, broadcast(Expr(0.0), lanes)); });
  Stmt step = tile([&](Expr i, Expr j) {
    return store(sums, {i, j}, load(sums, {i, j}) + broadcast(load(a, {k, i}), lanes) * load(b, {k, j}));
  });
  Stmt out = tile([&](Expr i, Expr j) { return store(c, {i, j}, load(sums, {i, j})); });
  Stmt body = make<tir::Alloc>(sums, tir::seq({init, for_loop(k, depth, step), out}));
  return make<tir::FuncNode>("tile", std::vector{a, b, c}, int64_t{1}, body);
}

struct Counts {
  int fused = 0, spills = 0;
};
Counts count(const std::string& assembly, const std::string& vector_register) {
  Counts counts;
  std::istringstream lines(assembly);
  for (std::string line; std::getline(lines, line);) {
    counts.fused +=
        line.find("vfmadd") != std::string::npos && line.find(vector_register) != std::string::npos;
    counts.spills +=
        line.find("%rsp") != std::string::npos && line.find(vector_register) != std::string::npos;
  }
  return counts;
}

struct TileCase {
  const char* target;
  const char* vector_register;
  int rows, vectors, lanes;
};
class RegisterTile : public testing::TestWithParam<TileCase> {};

TEST_P(RegisterTile, DoesNotSpill) {
  const TileCase& p = GetParam();
  tir::Func f = tile_kernel(p.rows, p.vectors, p.lanes);
  Counts counts = count(compile_to_assembly(std::span(&f, 1), resolve_target(p.target)), p.vector_register);
  EXPECT_EQ(counts.fused, p.rows * p.vectors);
  EXPECT_EQ(counts.spills, 0);
}

constexpr TileCase kTiles[] = {
    {"cpu:mcpu=skylake-avx512,vector=512", "%zmm", 14, 2, 16},
    {"cpu:mcpu=skylake-avx512,vector=512", "%zmm", 28, 1, 16},
    {"cpu:mcpu=skylake-avx512,vector=512", "%zmm", 6, 4, 16},
    {"cpu:mcpu=skylake-avx512,vector=512", "%zmm", 9, 3, 16},
    {"cpu:mcpu=haswell", "%ymm", 6, 2, 8},
    {"cpu:mcpu=haswell", "%ymm", 4, 3, 8},
};
INSTANTIATE_TEST_SUITE_P(Tiles, RegisterTile, testing::ValuesIn(kTiles), [](const auto& info) {
  return fmt::format("{}x{}x{}", info.param.rows, info.param.vectors, info.param.lanes);
});

/// The counter counts: a tile of more accumulators than registers must spill.
TEST(RegisterTileCounter, SeesSpills) {
  tir::Func f = tile_kernel(20, 2, 16);
  Target target = resolve_target("cpu:mcpu=skylake-avx512,vector=512");
  EXPECT_GT(count(compile_to_assembly(std::span(&f, 1), target), "%zmm").spills, 0);
}

TEST(RegisterTiles, DefaultConvolutionSchedulesDoNotSpill) {
  Target target = resolve_target("cpu:mcpu=sapphirerapids");
  for (int64_t size : {7, 14, 28, 56}) {
    tir::Func f =
        schedule::conv2d({.out_blocks = 4, .in_blocks = 4, .height = size, .width = size}, kFloat32);
    tir::Func lowered = tir::lower(schedule::replay(schedule::default_trace(f, target), f), target);
    Counts counts = count(compile_to_assembly(std::span(&lowered, 1), target), "%zmm");
    EXPECT_GE(counts.fused, 14) << size;
    EXPECT_EQ(counts.spills, 0) << size;
  }
}

/// Vectors that go to the stack in loops over the terms of sums: blocks of many products that jump to
/// their own beginning.
int spills_beside_products(const std::string& assembly) {
  int spills = 0;
  std::string label, block;
  std::istringstream lines(assembly);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(".L") && line.find(':') != std::string::npos) {
      label = line.substr(0, line.find(':'));
      block.clear();
      continue;
    }
    block += line + '\n';
    const Counts counts = count(block, "%zmm");
    if (line.starts_with("\tj") && line.ends_with("\t" + label) && counts.fused > 50) spills += counts.spills;
  }
  return spills;
}

/// Functions of finished sums have constants, which are registers too.
TEST(RegisterTiles, SumsStayWhereFunctionsFollow) {
  Target target = resolve_target("cpu:mcpu=znver4");
  for (Intrinsic function : {Intrinsic::kErf, Intrinsic::kSigmoid, Intrinsic::kTanh}) {
    tir::Func f = schedule::dense(196, 768, 192, kFloat32, function);
    tir::Func lowered = tir::lower(schedule::replay(schedule::default_trace(f, target), f), target);
    const std::string assembly = compile_to_assembly(std::span(&lowered, 1), target);
    EXPECT_GT(count(assembly, "%zmm").fused, 50);
    EXPECT_EQ(spills_beside_products(assembly), 0) << spelling(function);
  }
}

TEST(PlanRegisters, RefusesPlacesThatOverlapOrVary) {
  Buffer apart = tir::buffer("apart", {32}, kFloat32, tir::Scope::kLocal);
  Buffer overlap = tir::buffer("overlap", {32}, kFloat32, tir::Scope::kLocal);
  Buffer varying = tir::buffer("varying", {32}, kFloat32, tir::Scope::kLocal);
  Buffer shifted = tir::buffer("shifted", {32}, kFloat32, tir::Scope::kLocal),
         y = tir::buffer("y", {32}, kFloat32);
  Var i = var("i");
  Expr zeros = broadcast(Expr(0.0), 16);
  Stmt body = tir::seq(
      {store(apart, {ramp(Expr(0), Expr(1), 16)}, zeros), store(apart, {ramp(Expr(16), Expr(1), 16)}, zeros),
       // Read as one by an operator that takes two vectors at a time.
       store(y, {ramp(Expr(0), Expr(1), 32)}, load(apart, {ramp(Expr(0), Expr(1), 32)})),
       store(overlap, {ramp(Expr(0), Expr(1), 16)}, zeros), store(overlap, {Expr(3)}, Expr(0.0)),
       store(shifted, {ramp(Expr(0), Expr(1), 16)}, zeros),
       store(y, {ramp(Expr(0), Expr(1), 16)}, load(shifted, {ramp(Expr(8), Expr(1), 16)})),
       for_loop(i, 32, store(varying, {i}, Expr(0.0)))});
  for (const Buffer& b : {apart, overlap, varying, shifted}) body = make<tir::Alloc>(b, body);
  RegisterPlan plan = plan_registers(body);
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_EQ(plan.begin()->first, apart.get());
  EXPECT_EQ(plan.begin()->second.places, (std::set<std::pair<int64_t, int>>{{0, 16}, {16, 16}}));
}

/// y[j, i] = 2 x[i, j] by rows and columns of a local matrix.
tir::Func transposition(int64_t rows, int64_t columns, DataType type) {
  Buffer x = tir::buffer("x", {rows, columns}, type), y = tir::buffer("y", {columns, rows}, type);
  Buffer tile = tir::buffer("tile", {rows, columns}, type, tir::Scope::kLocal);
  std::vector<Stmt> stmts;
  Expr row = ramp(Expr(0), Expr(1), static_cast<int>(columns)),
       column = ramp(Expr(0), Expr(1), static_cast<int>(rows));
  for (int64_t i = 0; i < rows; ++i) stmts.push_back(store(tile, {i, row}, load(x, {i, row})));
  for (int64_t j = 0; j < columns; ++j) {
    Expr value = load(tile, {column, j});
    stmts.push_back(store(y, {j, column}, value + value));
  }
  return make<tir::FuncNode>("transposition", std::vector{x, y}, int64_t{1},
                             Stmt(make<tir::Alloc>(tile, tir::seq(stmts))));
}

TEST(PlanRegisters, MatricesAreTransposedByShuffles) {
  for (const char* target : {"cpu:mcpu=skylake-avx512", "cpu:mcpu=haswell"})
    for (auto [rows, columns] : {std::pair{16, 16}, {8, 8}, {16, 7}, {4, 16}, {5, 3}}) {
      tir::Func f = transposition(rows, columns, kFloat32);
      RegisterPlan plan = plan_registers(f->body);
      ASSERT_EQ(plan.size(), 1u) << rows << "x" << columns;
      EXPECT_EQ(plan.begin()->second.row_elements, columns);
      EXPECT_EQ(plan.begin()->second.column_lanes, rows);
      EXPECT_NE(compile_to_assembly({&f, 1}, resolve_target(target)), "");
    }
  for (DataType type : {kFloat32, kFloat64, kInt8, kBFloat16})
    for (auto [rows, columns] : {std::pair{16, 16}, {8, 8}, {16, 7}, {4, 16}, {5, 3}}) {
      tir::Func f = transposition(rows, columns, type);
      std::vector<Tensor> params = tir::random_params(f), expected = tir::interpreted_outputs(f);
      run_kernel(f, host_target(), params);
      EXPECT_LE(max_relative_error(params.back(), expected[0]), 1e-5) << rows << "x" << columns;
    }
}
}  // namespace
}  // namespace lathe::codegen
