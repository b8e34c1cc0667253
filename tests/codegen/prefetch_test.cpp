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

}  // namespace
}  // namespace lathe::codegen
