#include "core/runtime/memory_plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "core/runtime/kernel.h"
#include "core/support/error.h"

namespace lathe::runtime {
namespace {

/// There is a step that needs both: the first and the last steps count.
bool live_together(const Block& a, const Block& b) { return a.first <= b.last && b.first <= a.last; }

/// The start of the smallest gap of at least `bytes` between `taken` ranges (sorted by start), or the end of
/// the last one when no gap is wide enough.
int64_t best_fit(const std::vector<std::pair<int64_t, int64_t>>& taken, int64_t bytes) {
  int64_t best = -1, best_gap = std::numeric_limits<int64_t>::max(), end = 0;
  for (auto [from, to] : taken) {
    int64_t gap = from - end;
    if (gap >= bytes && gap < best_gap) {
      best = end;
      best_gap = gap;
    }
    end = std::max(end, to);
  }
  return best >= 0 ? best : end;
}

/// A bound from below on any plan: what lives at one step cannot share memory. By sweeping over the steps at
/// which blocks begin and end.
int64_t most_bytes_live(std::span<const Block> blocks) {
  std::map<int64_t, int64_t> change;  // at the start of a step
  for (const Block& block : blocks) {
    change[block.first] += align_up(block.bytes);
    // After the last step, so that a block which ends where another begins counts with it.
    change[block.last + 1] -= align_up(block.bytes);
  }
  int64_t live = 0, most = 0;
  for (auto [step, bytes] : change) most = std::max(most, live += bytes);
  return most;
}

}  // namespace

/// Greedy by size (Pisarchyk and Lee, arXiv 2001.03288), each block into the tightest gap. The best packing
/// is NP-hard to find; the lower bound tells how far from it this one may be.
MemoryPlan plan_memory(std::span<const Block> blocks) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  // Large blocks first, while there is room to choose; equal ones in the order given, so that plans are the
  // same on every machine.
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  MemoryPlan plan{.offsets = std::vector<int64_t>(blocks.size()), .lower_bound = most_bytes_live(blocks)};
  std::vector<size_t> placed;
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (size_t i : order) {
    const Block& block = blocks[i];
    CHECK(block.bytes >= 0 && block.first <= block.last, "block {}: {} bytes, steps {}..{}", i, block.bytes,
          block.first, block.last);
    // Needs no place: it stays at 0. So do blocks that another one took over (plan_builder.cpp).
    if (block.bytes == 0) continue;
    // The ranges that this block must avoid: those of placed blocks that live at one of its steps. They may
    // overlap each other.
    taken.clear();
    for (size_t j : placed)
      if (live_together(block, blocks[j]))
        taken.emplace_back(plan.offsets[j], plan.offsets[j] + align_up(blocks[j].bytes));
    std::sort(taken.begin(), taken.end());
    plan.offsets[i] = best_fit(taken, align_up(block.bytes));
    plan.bytes = std::max(plan.bytes, plan.offsets[i] + align_up(block.bytes));
    placed.push_back(i);
  }
  return plan;
}

/// For two blocks that live together the lower one is below, or below one that is below, the other: its end
/// is no higher than where the other begins.
Stack stack_of(std::span<const Block> blocks, const MemoryPlan& plan) {
  Stack stack{.below = std::vector<std::vector<size_t>>(blocks.size())};
  for (size_t i = 0; i < blocks.size(); ++i)
    if (blocks[i].bytes > 0) stack.order.push_back(i);
  std::stable_sort(stack.order.begin(), stack.order.end(),
                   [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; });
  std::vector<std::vector<bool>> lower(blocks.size(), std::vector<bool>(blocks.size()));
  for (size_t place = 0; place < stack.order.size(); ++place) {
    const size_t i = stack.order[place];
    // From the top: one that is below a block found before is needless.
    for (size_t next = place; next-- > 0;) {
      const size_t j = stack.order[next];
      if (lower[i][j] || !live_together(blocks[i], blocks[j])) continue;
      stack.below[i].push_back(j);
      lower[i][j] = true;
      for (size_t k = 0; k < blocks.size(); ++k)
        if (lower[j][k]) lower[i][k] = true;
    }
  }
  return stack;
}

}  // namespace lathe::runtime
