#include "core/codegen/llvm/instruction_order.h"

#include <gtest/gtest.h>

#include <sstream>

#include "core/codegen/host_target.h"
#include "tests/codegen/assembly.h"

namespace lathe::codegen {
namespace {
using tir::Buffer, tir::for_loop, tir::load, tir::Stmt, tir::store;

/// Moves of vectors to the stack or back.
int64_t vectors_on_stack(const std::string& assembly) {
  std::istringstream text(assembly);
  int64_t moves = 0;
  for (std::string line; std::getline(text, line);)
    moves += line.find("(%rsp)") != std::string::npos && line.find("zmm") != std::string::npos ? 1 : 0;
  return moves;
}

/// 26 sums, a step's two vectors and a broadcast are 29 of 32 registers, and the 13 rows of an open length
/// are as many pointers as there are registers for them.
TEST(InstructionOrder, KeepsSumsOfRowsOfOpenLengthInRegisters) {
  constexpr int64_t kRows = 13, kLanes = 16, kVectors = 2, kSteps = 4;
  Var n = var("n"), step = var("step");
  Buffer x = tir::buffer("x", {kRows, n}, kFloat32), w = tir::buffer("w", {n, kVectors * kLanes}, kFloat32),
         y = tir::buffer("y", {kRows, kVectors * kLanes}, kFloat32),
         sums = tir::buffer("sums", {kRows, kVectors * kLanes}, kFloat32, tir::Scope::kLocal);
  std::vector<Stmt> init, adds, finish;
  for (int64_t k = 0; k < kSteps; ++k)
    for (int64_t row = 0; row < kRows; ++row)
      for (int64_t vector = 0; vector < kVectors; ++vector) {
        const Expr lanes = ramp(Expr(vector * kLanes), Expr(1), kLanes);
        adds.push_back(store(sums, {row, lanes},
                             load(sums, {row, lanes}) + broadcast(load(x, {row, step * kSteps + k}), kLanes) *
                                                            load(w, {step * kSteps + k, lanes})));
        if (k > 0) continue;
        init.push_back(store(sums, {row, lanes}, broadcast(Expr(0.0f), kLanes)));
        finish.push_back(store(y, {row, lanes}, load(sums, {row, lanes})));
      }
  const Stmt loop = for_loop(step, floordiv(n, Expr(kSteps)), tir::seq(adds));
  const Stmt body = make<tir::Alloc>(sums, tir::seq({tir::seq(init), loop, tir::seq(finish)}));
  EXPECT_LE(vectors_on_stack(assembly_of(make<tir::FuncNode>("tile", std::vector{x, w, y}, int64_t{1}, body),
                                         resolve_target("cpu:mcpu=sapphirerapids,vector=512"))),
            8);
}

/// 24 vectors of sums and a few constants have registers if one function is computed after the other. The
/// loop before is scheduled as LLVM does.
TEST(InstructionOrder, ComputesFunctionsOfSumsOneAfterTheOther) {
  constexpr int64_t kVectors = 24, kLanes = 16;
  Var step = var("step");
  Buffer x = tir::buffer("x", {256, kVectors * kLanes}, kFloat32),
         y = tir::buffer("y", {kVectors * kLanes}, kFloat32),
         sums = tir::buffer("sums", {kVectors * kLanes}, kFloat32, tir::Scope::kLocal);
  std::vector<Stmt> init, adds, finish;
  for (int64_t vector = 0; vector < kVectors; ++vector) {
    const Expr lanes = ramp(Expr(vector * kLanes), Expr(1), kLanes), sum = load(sums, {lanes});
    init.push_back(store(sums, {lanes}, broadcast(Expr(0.0f), kLanes)));
    adds.push_back(store(sums, {lanes}, sum + load(x, {step, lanes})));
    finish.push_back(store(y, {lanes}, sum * intrinsic(Intrinsic::kSigmoid, sum)));
  }
  const Stmt loop = for_loop(step, 256, tir::seq(adds));
  const Stmt body = make<tir::Alloc>(sums, tir::seq({tir::seq(init), loop, tir::seq(finish)}));
  EXPECT_LE(vectors_on_stack(assembly_of(make<tir::FuncNode>("tile", std::vector{x, y}, int64_t{1}, body),
                                         resolve_target("cpu:mcpu=znver4"))),
            kVectors);
}

}  // namespace
}  // namespace lathe::codegen
