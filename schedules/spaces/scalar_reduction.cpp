#include "schedules/spaces/building_blocks.h"
#include "schedules/tile_model.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// Partial results per result: enough vectors to hide the latency of an addition.
constexpr int64_t kMostVectors = 8, kVectors = 4;

/// Lanes to run along the block's innermost reduction variable; 1 when that is not contiguous, or short. They
/// divide its extent, for a partial result cannot end early; so they may be few.
int64_t reduction_lanes(const Block& block, const Target& target) {
  constexpr int64_t kFewest = 4;
  const Store& update = *block.body.as<Store>();
  const Binary* binary = update.value.as<Binary>();
  const BlockIter& last = block.iters.back();
  if (!binary || last.kind != IterKind::kReduce || !loads_contiguously(binary->b, last.var)) return 1;
  int64_t extent = int_value(last.extent), width = vector_width(extent, target);
  for (int64_t lanes = target.lanes(); width == 1 && lanes >= kFewest; lanes /= 2)
    if (extent % lanes == 0) width = lanes;
  return extent >= 2 * width ? width : 1;
}

/// The loop that does all the reducing: the only one, or the only one of more than one iteration, which is
/// innermost.
std::optional<LoopHandle> only_reduction(Schedule& s, const std::vector<LoopHandle>& reduce) {
  for (size_t i = 0; i + 1 < reduce.size(); ++i)
    if (!is_int(s[reduce[i]]->extent, 1)) return {};
  return reduce.size() == 1 ? reduce[0] : s.fuse(reduce);
}

/// How many vectors of partial results, a divisor of `count`.
int64_t sample_vectors(Schedule& s, int64_t count, const Policy& policy) {
  std::vector<int64_t> divisors;
  int64_t preferred = 1;
  for (int64_t vectors = 1; vectors <= kMostVectors; ++vectors) {
    if (count % vectors != 0) continue;
    divisors.push_back(vectors);
    if (vectors <= kVectors) preferred = vectors;
  }
  return choose_one_of(s, divisors, preferred, policy);
}

/// The partial results of `block` along lanes of its innermost loop, in registers; then their sum.
std::set<std::string> reduce_by_lanes(Schedule& s, BlockHandle block, int64_t width,
                                      const std::vector<LoopHandle>& spatial, LoopHandle innermost,
                                      const Policy& policy) {
  int64_t vectors = sample_vectors(s, int_value(s[innermost]->extent) / width, policy);
  auto parts = s.split(innermost, {kInferred, vectors * width});
  // Each lane of each vector has a partial result: rfactor makes the block of these, and `block` adds them
  // up. They are accumulated in registers and spilled once, for the final sum to read as single elements.
  BlockHandle partial = s.rfactor(block, parts[1]);
  BlockHandle spill = s.cache_write(partial, 0, Scope::kLocal);
  s.set_scope(spill, 0, Scope::kLocal);
  LoopHandle place = spatial.back();
  // For each result: its partial ones, the spill, their sum.
  s.reverse_compute_at(spill, place);
  s.reverse_compute_at(block, place);
  auto lanes = s.split(parts[1], {vectors, width});
  s.unroll(lanes[0]);
  s.vectorize(lanes[1]);
  // Only after its loops have their shape and kind: the loops of the initial value are made from them.
  BlockHandle init = s.decompose_reduction(partial, parts[0]);
  auto spilled = s.split(s.get_loops(spill).back(), {vectors, width});
  s.unroll(spilled[0]);
  s.vectorize(spilled[1]);
  auto combine = s.get_loops(block);
  BlockHandle total = s.decompose_reduction(block, combine.back());
  std::set<std::string> names;
  for (BlockHandle each : {block, partial, spill, init, total}) names.insert(s[each]->name);
  return names;
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
  int64_t width = reduction_lanes(*body, target);
  std::optional<LoopHandle> only = width > 1 ? only_reduction(s, reduce) : std::nullopt;
  if (!only) {
    int64_t terms = int_value(s[reduce.back()]->extent);
    auto parts = s.split(reduce.back(), {kInferred, sample_one_of(s, copies_of(terms), 1, policy)});
    s.unroll(parts[1]);
    if (reduce.size() == 1) reduce[0] = parts[0];
  }
  if (only)
    names = reduce_by_lanes(s, block, width, spatial, *only, policy);
  else
    names.insert(s[s.decompose_reduction(block, reduce[0])]->name);
  if (pays_in_parallel(work, target)) run_parallel(s, spatial, target, policy);
  return names;
}

}  // namespace lathe::schedule
