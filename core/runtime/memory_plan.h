// Offsets in one arena for blocks of memory with known sizes and lifetimes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lathe::runtime {

/// Memory needed by the steps first..last, both included.
struct Block {
  int64_t bytes = 0;
  int64_t first = 0, last = 0;
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  // one a block, multiples of kAlignment
  int64_t bytes = 0;             // of the arena
  int64_t lower_bound = 0;       // the most bytes live at one step: no plan can be smaller
};

/// Blocks that live at a common step never overlap. Greedy by size with the best-fitting gap (Pisarchyk and
/// Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020, section 4.2); deterministic; O(n
/// log n) and, for each block, those that live together with it. REQUIRES: bytes >= 0 and 0 <= first <= last.
MemoryPlan plan_memory(std::span<const Block> blocks);

}  // namespace lathe::runtime
