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

/// For each block, in the order in which they lie in memory, the blocks that end where it may begin: those
/// that live at a step with it and lie lower in `plan`, but for those which another of them lies above.
/// Whatever sizes the blocks take, no two that live together overlap when each begins where the last of its
/// own ends.
struct Stack {
  std::vector<size_t> order;               // from the bottom
  std::vector<std::vector<size_t>> below;  // by block
};
Stack stack_of(std::span<const Block> blocks, const MemoryPlan& plan);

}  // namespace lathe::runtime
