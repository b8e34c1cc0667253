#include <algorithm>
#include <bit>

#include "schedules/spaces/building_blocks.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// Partial results enough to hide the latency of an addition where there are terms for that many.
constexpr int64_t kMostVectors = 8, kVectors = 4;

/// Whether neighbours along the block's innermost variable are terms of one result, neighbours in memory, and
/// worth vectors.
bool runs_in_lanes(const Block& block, const Target& target) {
  constexpr int64_t kFewest = 4;
  const Binary* binary = block.body.as<Store>()->value.as<Binary>();
  const BlockIter& last = block.iters.back();
  return binary && last.kind == IterKind::kReduce &&
         loads_in_strides(binary->b, last.var, 1, /*past_others=*/true) &&
         int_value(last.extent) >= kFewest && target.lanes() >= kFewest;
}

/// The terms along the lanes of several vectors; the end of a row that does not fill them is masked.
void reduce_along(Schedule& s, BlockHandle block, LoopHandle innermost, const Target& target,
                  const Policy& policy) {
  const int64_t extent = int_value(s[innermost]->extent);
  const int64_t lanes =
      std::min<int64_t>(target.lanes(), static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(extent))));
  const std::vector<int64_t> vectors = powers_of_two(std::min(kMostVectors, extent / lanes));
  const int64_t preferred = powers_of_two(std::min(kVectors, vectors.back())).back();
  s.reduce_in_lanes(block, sample_one_of(s, vectors, preferred, policy), lanes);
}
}  // namespace

std::set<std::string> schedule_scalar_reduction(Schedule& s, BlockHandle block, const Target& target,
                                                const Policy& policy) {
  std::vector<LoopHandle> loops = s.get_loops(block), spatial, reduce;
  Ref<Block> body = s[block];
  // Counted before anything is split: later blocks have parts of it.
  int64_t work = iterations(*body);
  for (LoopHandle loop : loops) {
    bool reduces = false;
    for (const BlockIter& iter : body->iters)
      reduces |= iter.kind != IterKind::kSpatial && uses_var(iter.value, s[loop]->var.get());
    (reduces ? reduce : spatial).push_back(loop);
  }
  // One result, or no terms: the loops stay as they are.
  if (spatial.empty() || reduce.empty()) return {body->name};
  choose_innermost(s, spatial, policy);
  std::vector<LoopHandle> order = spatial;
  order.insert(order.end(), reduce.begin(), reduce.end());
  s.reorder(order);
  std::set<std::string> names{body->name};
  if (runs_in_lanes(*body, target)) {
    // What it makes beside the block has its loops; the block is left to store the result.
    reduce_along(s, block, reduce.back(), target, policy);
  } else {
    int64_t terms = int_value(s[reduce.back()]->extent);
    auto parts = s.split(reduce.back(), {kInferred, sample_one_of(s, copies_of(terms), 1, policy)});
    s.unroll(parts[1]);
    if (reduce.size() == 1) reduce[0] = parts[0];
    names.insert(s[s.decompose_reduction(block, reduce[0])]->name);
  }
  if (pays_in_parallel(work, target)) run_parallel(s, spatial, target, policy);
  return names;
}

}  // namespace lathe::schedule
