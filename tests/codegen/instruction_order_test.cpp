#include "core/codegen/llvm/instruction_order.h"

#include <gtest/gtest.h>

#include <sstream>

#include "core/codegen/host_target.h"
#include "tests/codegen/assembly.h"

namespace lathe::codegen {
namespace {
using tir::Buffer, tir::for_loop, tir::load, tir::Stmt, tir::store;

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
  std::istringstream text(assembly_of(make<tir::FuncNode>("tile", std::vector{x, w, y}, int64_t{1}, body),
                                      resolve_target("cpu:mcpu=sapphirerapids,vector=512")));
  int64_t spilled = 0;
  for (std::string line; std::getline(text, line);)
    spilled += line.find("(%rsp)") != std::string::npos && line.find("zmm") != std::string::npos ? 1 : 0;
  EXPECT_LE(spilled, 8);
}

}  // namespace
}  // namespace lathe::codegen
