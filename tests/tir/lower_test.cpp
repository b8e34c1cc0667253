#include "core/tir/lower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/support/error.h"
#include "core/tir/interpret.h"
#include "core/tir/passes/place_allocations.h"
#include "core/tir/passes/simplify_program.h"
#include "core/tir/passes/specialize_boundaries.h"
#include "core/tir/passes/unroll_loops.h"
#include "core/tir/passes/vectorize_loops.h"
#include "core/tir/text.h"
#include "core/tir/verify.h"
#include "tests/tir/passes.h"
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

TEST(Lower, RefusesSymbolicShapes) {
  FuncBuilder b;
  Var n = var("n");
  Buffer x = b.input("x", {n}, kFloat32);
  Buffer y = b.compute("y", {n}, [&](Vars i) { return load(x, {i[0]}); });
  try {
    lower(b.finish("copy", {y}), Target{});
    FAIL() << "must throw";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "copy: a dimension of x is not constant; bind it before lowering");
  }
}

TEST(VectorizeLoops, MakesRampsAndBroadcasts) {
  EXPECT_EQ(after({vectorize_loops}, R"(func f(x: float32[4, 8], s: float32[4]) -> (y: float32[4, 8]) {
  for i in 0..4 {
    for v in 0..8 vectorized {
      y[i, v] = x[i, v] * s[i] + 1.0
    }
  }
}
)"),
            R"(  for i in 0..4 {
    y[i, ramp(0, 1, 8)] = x[i, ramp(0, 1, 8)] * broadcast(s[i], 8) + broadcast(1.0, 8)
  }
)");
}

TEST(VectorizeLoops, MasksVectorsThatStickOut) {
  EXPECT_EQ(after({vectorize_loops, simplify_program}, R"(func f(x: float32[20]) -> (y: float32[20]) {
  for i in 0..3 {
    for v in 0..8 vectorized {
      if i * 8 + v < 20 {
        y[i * 8 + v] = x[i * 8 + v]
      }
    }
  }
}
)"),
            R"(  for i in 0..3 {
    if i < 2 {
      y[ramp(i * 8, 1, 8)] = x[ramp(i * 8, 1, 8)]
    } else {
      if ramp(i * 8, 1, 8) < broadcast(20, 8) {
        y[ramp(i * 8, 1, 8)] = x[ramp(i * 8, 1, 8)]
      }
    }
  }
)");
}

TEST(SpecializeBoundaries, MasksOnlyTheLastTile) {
  EXPECT_EQ(after({specialize_boundaries, simplify_program},
                  R"(func f(x: float32[20]) -> (y: float32[24]) {
  for i in 0..3 {
    for v in 0..8 vectorized {
      y[i * 8 + v] = 2.0 * select(i * 8 + v < 20, x[i * 8 + v], 0.0)
    }
  }
}
)"),
            R"(  for i in 0..3 {
    if i < 2 {
      for v in 0..8 vectorized {
        y[i * 8 + v] = 2.0 * x[i * 8 + v]
      }
    } else {
      for v_1 in 0..8 vectorized {
        y[v_1 + 16] = 2.0 * select(v_1 < 4, x[v_1 + 16], 0.0)
      }
    }
  }
)");
}

TEST(VectorizeLoops, LeavesAccumulationAlongTheLoopSerial) {
  EXPECT_EQ(after({vectorize_loops}, R"(func f(x: float32[8]) -> (y: float32[1]) {
  y[0] = 0.0
  for v in 0..8 vectorized {
    y[0] = y[0] + x[v]
  }
}
)"),
            R"(  y[0] = 0.0
  for v in 0..8 {
    y[0] = y[0] + x[v]
  }
)");
}

TEST(UnrollLoops, RepeatsBodies) {
  EXPECT_EQ(after({unroll_loops}, R"(func f(x: float32[2, 4]) -> (y: float32[2, 4]) {
  for i in 0..2 unrolled {
    for j in 0..4 {
      y[i, j] = x[i, j]
    }
  }
}
)"),
            R"(  for j in 0..4 {
    y[0, j] = x[0, j]
  }
  for j_1 in 0..4 {
    y[1, j_1] = x[1, j_1]
  }
)");
}

TEST(PlaceAllocations, ShrinksToWhatATileUses) {
  EXPECT_EQ(after({place_allocations}, R"(func f(x: float32[32]) -> (y: float32[32]) {
  alloc t: float32[32] {
    for i in 0..4 {
      for j in 0..8 {
        t[i * 8 + j] = x[i * 8 + j] + 1.0
      }
      for k in 0..8 {
        y[i * 8 + k] = t[i * 8 + 7 - k]
      }
    }
  }
}
)"),
            R"(  for i in 0..4 {
    alloc t: float32[8] {
      for j in 0..8 {
        t[j] = x[i * 8 + j] + 1.0
      }
      for k in 0..8 {
        y[i * 8 + k] = t[7 - k]
      }
    }
  }
)");
}

TEST(PlaceAllocations, GoesUnderTheConditionOfAllUses) {
  EXPECT_EQ(after({place_allocations}, R"(func f(x: float32[4]) -> (y: float32[4]) {
  alloc t: float32[4] {
    for i in 0..4 {
      if i < 3 {
        t[i] = x[i]
        y[i] = t[i]
      }
    }
  }
}
)"),
            R"(  for i in 0..4 {
    if i < 3 {
      alloc t: float32[1] {
        t[0] = x[i]
        y[i] = t[0]
      }
    }
  }
)");
}

TEST(PlaceAllocations, StaysOutsideLoopsThatAccumulate) {
  EXPECT_EQ(after({place_allocations}, R"(func f(x: float32[4, 8]) -> (y: float32[4]) {
  alloc t: float32[4] {
    for i in 0..4 {
      for k in 0..8 {
        if k == 0 {
          t[i] = 0.0
        }
        t[i] = t[i] + x[i, k]
        if k == 7 {
          y[i] = t[i]
        }
      }
    }
  }
}
)"),
            R"(  for i in 0..4 {
    alloc t: float32[1] {
      for k in 0..8 {
        if k == 0 {
          t[0] = 0.0
        }
        t[0] = t[0] + x[i, k]
        if k == 7 {
          y[i] = t[0]
        }
      }
    }
  }
)");
}

/// A vector of pairs, as packing an operand for dot products makes them.
TEST(SpecializeBoundaries, SeesPartsOfATileLoop) {
  EXPECT_EQ(after({specialize_boundaries, simplify_program},
                  R"(func f(x: float32[11]) -> (y: float32[3, 8]) {
  for i in 0..3 {
    for v in 0..8 vectorized {
      y[i, v] = select(i * 4 + v // 2 < 11, x[i * 4 + v // 2], 0.0)
    }
  }
}
)"),
            R"(  for i in 0..3 {
    if i < 2 {
      for v in 0..8 vectorized {
        y[i, v] = x[i * 4 + v // 2]
      }
    } else {
      for v_1 in 0..8 vectorized {
        y[2, v_1] = select(v_1 // 2 < 3, x[v_1 // 2 + 8], 0.0)
      }
    }
  }
)");
}

TEST(SpecializeBoundaries, SplitsOffTheLastTile) {
  EXPECT_EQ(after({specialize_boundaries, simplify_program, unroll_loops, simplify_program},
                  R"(func f(x: float32[7]) -> (y: float32[7]) {
  for t in 0..3 {
    for i in 0..3 unrolled {
      if t * 3 + i < 7 {
        y[t * 3 + i] = x[t * 3 + i]
      }
    }
  }
}
)"),
            R"(  for t in 0..3 {
    if t < 2 {
      y[t * 3] = x[t * 3]
      y[t * 3 + 1] = x[t * 3 + 1]
      y[t * 3 + 2] = x[t * 3 + 2]
    } else {
      y[6] = x[6]
    }
  }
)");
}

}  // namespace
}  // namespace lathe::tir
