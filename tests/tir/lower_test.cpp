#include "core/tir/lower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/support/error.h"
#include "core/tir/interpret.h"
#include "core/tir/passes/simplify_program.h"
#include "core/tir/passes/specialize_boundaries.h"
#include "core/tir/passes/vectorize_loops.h"
#include "core/tir/text.h"
#include "core/tir/verify.h"
#include "tests/tir/random_func.h"

namespace lathe::tir {
namespace {

TEST(Lower, KeepsMeaningOfRandomPrograms) {
  for (uint32_t seed = 0; seed < 150; ++seed) {
    Func f = random_func(seed), lowered = lower(f, Target{});
    auto fault = find_lowered_fault(lowered);
    EXPECT_FALSE(fault) << "seed " << seed << ": " << *fault << "\n" << print(lowered);
    EXPECT_LE(output_difference(lowered, f), 1e-6) << "seed " << seed << "\n" << print(lowered);
  }
}
}  // namespace
}  // namespace lathe::tir
