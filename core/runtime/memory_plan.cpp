#include "core/runtime/memory_plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "core/runtime/kernel.h"
#include "core/support/error.h"

namespace lathe::runtime {
namespace {

/// Blocks by the steps they live at: finds those that live together with another one, the first and the last
/// steps counting, without a look at the others.
class LiveBlocks {
 public:
  explicit LiveBlocks(int64_t steps) : leaves_(static_cast<size_t>(steps)), covering_(2 * leaves_) {}

  void add(size_t block, int64_t first, int64_t last) {
    beginning_.emplace(first, block);
    // The nodes of a segment tree that make up first..last.
    size_t low = leaves_ + static_cast<size_t>(first), high = leaves_ + static_cast<size_t>(last) + 1;
    for (; low < high; low /= 2, high /= 2) {
      if (low % 2) covering_[low++].push_back(block);
      if (high % 2) covering_[--high].push_back(block);
    }
  }

  /// f(block), once for each: those that live at `first`, then those that begin later, up to `last`.
  template <typename F>
  void for_each_live(int64_t first, int64_t last, F&& f) const {
    for (size_t node = leaves_ + static_cast<size_t>(first); node > 0; node /= 2)
      for (size_t block : covering_[node]) f(block);
    for (auto it = beginning_.upper_bound(first); it != beginning_.end() && it->first <= last; ++it)
      f(it->second);
  }

 private:
  size_t leaves_;
  std::vector<std::vector<size_t>> covering_;  // by node; node i has the children 2i and 2i + 1
  std::multimap<int64_t, size_t> beginning_;   // blocks by their first steps
};

/// The start of the smallest gap of at least `bytes` between `taken` ranges (sorted by start), or the end of
/// the last one when no gap is wide enough.
/// Negative gaps are overlaps: `end` is the furthest so far.
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
  // Rounded up as they will be placed, or the bound would be of another problem.
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
  int64_t steps = 0;
  for (const Block& block : blocks) steps = std::max(steps, block.last + 1);
  LiveBlocks placed(steps);
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (size_t i : order) {
    const Block& block = blocks[i];
    CHECK(block.bytes >= 0 && 0 <= block.first && block.first <= block.last,
          "block {}: {} bytes, steps {}..{}", i, block.bytes, block.first, block.last);
    // Needs no place: it stays at 0. So do blocks that another one took over (plan_builder.cpp).
    if (block.bytes == 0) continue;
    // The ranges that this block must avoid: those of placed blocks that live at one of its steps. They may
    // overlap each other.
    taken.clear();
    placed.for_each_live(block.first, block.last, [&](size_t j) {
      taken.emplace_back(plan.offsets[j], plan.offsets[j] + align_up(blocks[j].bytes));
    });
    std::sort(taken.begin(), taken.end());
    plan.offsets[i] = best_fit(taken, align_up(block.bytes));
    plan.bytes = std::max(plan.bytes, plan.offsets[i] + align_up(block.bytes));
    placed.add(i, block.first, block.last);
  }
  return plan;
}

/// For two blocks that live together the lower one is below, or below one that is below, the other: its end
/// is no higher than where the other begins.
Stack stack_of(std::span<const Block> blocks, const MemoryPlan& plan) {
  Stack stack{.below = std::vector<std::vector<size_t>>(blocks.size())};
  int64_t steps = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].bytes > 0) stack.order.push_back(i);
    steps = std::max(steps, blocks[i].last + 1);
  }
  std::stable_sort(stack.order.begin(), stack.order.end(),
                   [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; });
  LiveBlocks lower(steps);
  std::vector<size_t> place(blocks.size());  // in the order, from 1
  // Of a block: the place of the last one with which it lives, and of the last one that has it below.
  std::vector<size_t> lives_with(blocks.size()), is_below(blocks.size());
  std::vector<size_t> together, reached;
  for (size_t now = 1; now <= stack.order.size(); ++now) {
    const size_t i = stack.order[now - 1];
    together.clear();
    lower.for_each_live(blocks[i].first, blocks[i].last, [&](size_t j) {
      together.push_back(j);
      lives_with[j] = now;
    });
    // From the top: one that is below a block found before is needless. Only what lives with `i` is walked
    // through, or a plan of long sequences would be walked through for each of its blocks.
    std::sort(together.begin(), together.end(), [&](size_t a, size_t b) { return place[a] > place[b]; });
    for (size_t j : together) {
      if (is_below[j] == now) continue;
      stack.below[i].push_back(j);
      for (reached = {j}; !reached.empty();) {
        const size_t from = reached.back();
        reached.pop_back();
        for (size_t k : stack.below[from]) {
          if (lives_with[k] != now || is_below[k] == now) continue;
          is_below[k] = now;
          reached.push_back(k);
        }
      }
    }
    place[i] = now;
    lower.add(i, blocks[i].first, blocks[i].last);
  }
  return stack;
}

}  // namespace lathe::runtime
