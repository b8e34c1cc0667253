// The text of tensor programs, and the verifier that guards everything behind it.
#include "core/support/error.h"
#include "core/tir/builder.h"
#include "core/tir/prologue.h"
#include "core/tir/text.h"
#include "core/tir/verify.h"
#include "tests/fuzz/fuzz.h"

namespace lathe::fuzz {

namespace {

bool has_constant_shapes(const tir::Func& func) {
  bool constant = true;
  for (const tir::Buffer& param : func->params)
    for (const Expr& dim : param->shape) constant &= as_int(dim) != nullptr;
  return constant;
}

/// The parts of a valid program are valid, whichever inputs are constant.
void split(const tir::Func& func) {
  size_t inputs = std::min<size_t>(func->params.size() - static_cast<size_t>(func->outputs), 3);
  for (int64_t mask = 0; mask < int64_t{1} << inputs; ++mask) {
    tir::SplitProgram parts = tir::split_prologue(tir::with_constant_params(func, mask));
    for (const tir::Func& part : {parts.prologue, parts.main})
      if (auto fault = part ? tir::find_fault(part) : std::nullopt)
        CHECK(false, "{}\n{}of\n{}", *fault, tir::print(part), tir::print(func));
  }
}

/// Weights that are scaled ahead, with their marks.
std::string scaled_weights() {
  tir::FuncBuilder f;
  tir::Buffer x = f.input("x", {8}, kFloat32), w = f.input("w", {8}, kFloat32);
  tir::Buffer scaled =
      f.compute("scaled", {8}, [&](tir::Vars i) { return tir::load(w, {i[0]}) * Expr(2.0); });
  tir::Buffer out =
      f.compute("out", {8}, [&](tir::Vars i) { return tir::load(x, {i[0]}) * tir::load(scaled, {i[0]}); });
  return tir::print(tir::with_constant_params(f.finish("f", {out}), 0b10));
}

}  // namespace

std::vector<std::string> seeds() {
  tir::FuncBuilder f;
  tir::Buffer a = f.input("a", {8, var("n")}, kFloat32), b = f.input("b", {16, 12}, kInt32);
  tir::Buffer c = f.reduce("sum", {8}, {12}, tir::Combiner::kMax, [&](tir::Vars i, tir::Vars r) {
    return select(less(tir::load(b, {i[0], r[0]}), imm(kInt32, 3)), tir::load(a, {i[0], r[0]}), Expr(0.5));
  });
  tir::Buffer d = f.compute("cast", {8, 16},
                            [&](tir::Vars i) { return cast(kFloat16, tir::load(c, {floordiv(i[0], 2)})); });
  std::string block = tir::print(f.finish("everything", {d}));
  Var i = var("i"), j = var("j");
  tir::Buffer x = tir::buffer("x", {4, 4}, kFloat32);
  tir::Stmt body = tir::for_loop(i, 4,
                                 tir::for_loop(j, 4, tir::store(x, {i, j}, tir::load(x, {j, i}) * Expr(2.0)),
                                               tir::Iteration::kVectorized),
                                 tir::Iteration::kParallel);
  return {block, scaled_weights(),
          tir::print(make<tir::FuncNode>("lowered", std::vector<tir::Buffer>{x}, int64_t{1}, body))};
}

void run_one(std::string_view bytes) {
  tir::Func func = tir::parse_func(bytes);
  std::string text = tir::print(func);
  tir::Func again = tir::parse_func(text);
  CHECK(structural_equal(func, again, /*map_free=*/true), "{}", text);
  CHECK(tir::print(again) == text, "{}\nprints as\n{}", text, tir::print(again));
  tir::workload_digest(func);
  // The verifier takes anything that parses, and what it accepts other passes may take.
  tir::find_fault(func, tir::Level::kVectors);
  if (!tir::find_fault(func) && has_constant_shapes(func)) split(func);
}

}  // namespace lathe::fuzz
