// Lanes that are short rows, one behind the other: in whole vectors, and right at their end too.
#include <gtest/gtest.h>

#include "core/codegen/host_target.h"
#include "core/tir/interpret.h"
#include "core/tir/lower.h"
#include "schedules/space.h"
#include "tests/codegen/assembly.h"
#include "tests/codegen/run_kernel.h"
#include "tests/schedules/programs.h"

namespace lathe::codegen {
namespace {

tir::Func lowered(const tir::Func& func, const Target& target) {
  return tir::lower(schedule::replay(schedule::default_trace(func, target), func), target);
}

TEST(ShortRows, GiveWhatTheInterpreterDoes) {
  const Target target = host_target();
  for (int64_t length : {2, 3, 4, 5, 6, 7})
    for (int64_t rows : {16, 32, 37}) {
      SCOPED_TRACE(fmt::format("{} rows of {}", rows, length));
      const tir::Func func = schedule::softmax(rows, length);
      std::vector<Tensor> found{random_tensor({rows, length}, kFloat32, 1), zeros({rows, length}, kFloat32)};
      std::vector<Tensor> expected{found[0], zeros({rows, length}, kFloat32)};
      run_kernel(lowered(func, target), target, found);
      tir::interpret(func, expected);
      EXPECT_LT(max_relative_error(found[1], expected[1]), 1e-6);
    }
}

/// No element by itself, and of whole vectors no mask.
TEST(ShortRows, AreReadAndWrittenInWholeVectors) {
  for (const char* target : {"cpu:mcpu=haswell", "cpu:mcpu=znver4"})
    for (int64_t length : {3, 5, 7}) {
      SCOPED_TRACE(fmt::format("{}, {}", target, length));
      const Target resolved = resolve_target(target);
      const std::string text = assembly_of(lowered(schedule::softmax(64, length), resolved), resolved);
      EXPECT_EQ(count(text, "vgather") + count(text, "vscatter") + count(text, "vmaskmov"), 0);
      EXPECT_LE(count(text, "vmovss") + count(text, "vextractps"), 4) << text;
    }
}

}  // namespace
}  // namespace lathe::codegen
