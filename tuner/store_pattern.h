// How each store of a scheduled program walks over memory: the loops around it and, for each access, how far
// each loop moves it. Found by evaluating the index expressions at a few points, which is exact for sums of
// loops and close for the quotients and remainders of fused ones.
#pragma once

#include <vector>

#include "core/tir/stmt.h"

namespace lathe::tuner {

struct PatternLoop {
  int64_t extent = 1;
  tir::Iteration iteration = tir::Iteration::kSerial;
  bool reduces = false;  // moves a reduction variable of the store's block
};

/// One buffer as the store sees it; accesses of equal indices are one.
struct PatternAccess {
  tir::Buffer buffer;
  bool writes = false, reads = false;
  bool intermediate = false;                // no parameter: its memory is reused outside of `alive_from`
  size_t alive_from = 0;                    // the number of outer loops around its allocation
  std::vector<int64_t> stride;              // elements moved by one step of each loop
  std::vector<std::vector<int64_t>> spans;  // elements moved from first to last step: [loop][dimension]

  /// Distinct elements touched while the loops from `depth` on run, and cache lines of 64 bytes for them.
  int64_t elements(size_t depth) const;
  int64_t lines(size_t depth) const;
};

/// Operations of one execution, by cost; address arithmetic is left out.
struct OperationCounts {
  int adds = 0, multiplies = 0, divides = 0, compares = 0, intrinsics = 0, casts = 0, integers = 0, loads = 0;

  int floats() const { return adds + multiplies + divides + compares + intrinsics; }
};

struct StorePattern {
  std::vector<PatternLoop> loops;       // outermost first
  std::vector<PatternAccess> accesses;  // the written buffer first
  OperationCounts operations;
  bool reduction = false, predicated = false;

  /// How often the loops from `depth` on run their body, all together.
  double iterations(size_t depth = 0) const;
};

/// One for each store of the blocks' bodies, in program order. Stores of an `init` that was not decomposed
/// are left out, as is what never runs: loops without iterations, reads of buffers without elements.
/// REQUIRES: the scheduled level.
std::vector<StorePattern> store_patterns(const tir::Func& scheduled);

}  // namespace lathe::tuner
