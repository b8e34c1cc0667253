// Traces as JSON, and what replaying a strange one does: any trace either applies or is refused.
#include "core/support/error.h"
#include "core/tir/builder.h"
#include "schedules/schedule.h"
#include "tests/fuzz/fuzz.h"

namespace lathe::fuzz {
namespace {

tir::Func dense() {
  tir::FuncBuilder f;
  tir::Buffer a = f.input("a", {8, 12}, kFloat32), b = f.input("b", {16, 12}, kFloat32);
  tir::Buffer c = f.reduce("dense", {8, 16}, {12}, tir::Combiner::kSum, [&](tir::Vars i, tir::Vars r) {
    return tir::load(a, {i[0], r[0]}) * tir::load(b, {i[1], r[0]});
  });
  tir::Buffer d = f.compute("double", {8, 16}, [&](tir::Vars i) {
    return tir::load(c, {i[0], i[1]}) * Expr(2.0);
  });
  return f.finish("dense", {d});
}

}  // namespace

std::vector<std::string> seeds() {
  schedule::Schedule s(dense(), 1);
  auto block = s.get_block("dense");
  auto loops = s.get_loops(block);
  auto tiles = s.sample_tuple(2, {8, 2, 4, 4, 2, 8});
  auto parts = s.split(loops[1], {tiles[0], tiles[1]});
  s.reorder({parts[0], loops[2], parts[1]});
  s.decompose_reduction(block, loops[2]);
  auto cached = s.cache_write(s.get_block("double"), 0, tir::Scope::kLocal);
  s.annotate(s.get_loops(cached)[0], "hint", 3);
  s.parallel(s.fuse({loops[0], parts[0]}));
  s.vectorize(parts[1]);
  return {schedule::to_json(s.trace())};
}

void run_one(std::string_view bytes) {
  schedule::Trace trace = schedule::parse_trace(bytes);
  CHECK(schedule::parse_trace(schedule::to_json(trace)) == trace);
  schedule::replay(trace, dense());
}

}  // namespace lathe::fuzz
