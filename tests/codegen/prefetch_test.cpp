#include <gtest/gtest.h>

#include "core/codegen/host_target.h"
#include "core/tir/lower.h"
#include "schedules/schedule.h"
#include "tests/codegen/assembly.h"
#include "tests/schedules/programs.h"

namespace lathe::codegen {
namespace {

/// How many products of vectors a prefetch serves in a matrix product whose tiles are four rows times one
/// vector, unrolled, and whose loops over tiles are one.
double products_of_a_prefetch(DataType dtype, int64_t n, int64_t unrolled_steps, const char* product) {
  schedule::Schedule s(schedule::matmul(8, n, 4096, dtype));
  schedule::BlockHandle block = s.get_block("matmul");
  std::vector<schedule::LoopHandle> loops = s.get_loops(block);
  auto rows = s.split(loops[0], {schedule::kInferred, 4}),
       columns = s.split(loops[1], {schedule::kInferred, 16});
  auto steps = s.split(loops[2], {schedule::kInferred, unrolled_steps});
  s.reorder({rows[0], columns[0], steps[0], steps[1], rows[1], columns[1]});
  s.fuse({rows[0], columns[0]});
  s.vectorize(columns[1]);
  s.unroll(rows[1]);
  s.unroll(steps[1]);
  s.annotate(steps[0], tir::kPrefetch, 4096);
  s.decompose_reduction(block, steps[0]);
  Target target = resolve_target("cpu:mcpu=skylake-avx512");
  std::string text = assembly_of(tir::lower(s.func(), target), target);
  return static_cast<double>(count(text, product)) / static_cast<double>(count(text, "prefetcht0"));
}

TEST(Prefetch, AsksForALineOnce) {
  EXPECT_EQ(products_of_a_prefetch(kFloat32, 32, 1, "vfmadd"), 4) << "four rows read one vector";
  EXPECT_EQ(products_of_a_prefetch(kFloat32, 32, 4, "vfmadd"), 4);
  EXPECT_EQ(products_of_a_prefetch(kFloat16, 16, 4, "vfmadd"), 8) << "a line holds two rows of weights";
}

/// Prefetches into the second-level cache of a product in tasks of one vector of columns, `rows` rows at a
/// time, which ask for `lines` of what the next one reads.
int64_t prefetches_of_next(int64_t rows, int64_t lines) {
  schedule::Schedule s(schedule::matmul(8, 64, 4096, kFloat32));
  schedule::BlockHandle block = s.get_block("matmul");
  std::vector<schedule::LoopHandle> loops = s.get_loops(block);
  auto tiles = s.split(loops[0], {schedule::kInferred, rows}),
       columns = s.split(loops[1], {schedule::kInferred, 16});
  s.reorder({columns[0], tiles[0], loops[2], tiles[1], columns[1]});
  s.vectorize(columns[1]);
  s.unroll(tiles[1]);
  s.annotate(columns[0], tir::kPrefetchNext, lines);
  s.annotate(loops[2], tir::kPrefetch, 4096);
  s.decompose_reduction(block, loops[2]);
  Target target = resolve_target("cpu:mcpu=skylake-avx512");
  return count(assembly_of(tir::lower(s.func(), target), target), "prefetcht1");
}

TEST(Prefetch, AsksForWhatTheNextTaskReadsOnceAnIteration) {
  EXPECT_EQ(prefetches_of_next(4, 0), 0);
  EXPECT_EQ(prefetches_of_next(4, 1), 1) << "four rows read one vector";
  EXPECT_EQ(prefetches_of_next(2, 3), 3);
}

}  // namespace
}  // namespace lathe::codegen
