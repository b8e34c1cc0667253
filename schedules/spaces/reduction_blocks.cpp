// Reductions by blocks of their terms: the weights that one block of terms takes stay in the first- or
// second-level cache while all register tiles of a task use them.
#include <algorithm>
#include <cmath>

#include "core/support/error.h"
#include "core/tir/machine.h"
#include "schedules/spaces/building_blocks.h"
#include "schedules/tile_model.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// Bytes of weights that one vector of results takes; 0 when there are none.
double weight_bytes(const VectorReduction& reduction, const Target& target) {
  double bytes = 0;
  for (size_t o = 0; o < reduction.operands.size(); ++o)
    if (reduction.is_weight(o))
      bytes += reduction.steps() * static_cast<double>(vector_width(reduction, target)) *
               reduction.operands[o].buffer->dtype.bytes();
  return bytes;
}

size_t first_reduced(const VectorReduction& reduction) {
  return static_cast<size_t>(std::find(reduction.reduces.begin(), reduction.reduces.end(), true) -
                             reduction.reduces.begin());
}

/// The number of equal blocks of the outermost reduction variable that leaves of `bytes` nearest to `part` of
/// a cache, no further from it than `tolerance`; 0 when its divisors give none.
int64_t count_leaving(double bytes, int64_t terms, int64_t cache, double part, double tolerance) {
  int64_t best = 0;
  for (int64_t count = 2; count < terms; ++count) {
    const double distance = std::abs(bytes / static_cast<double>(count) / static_cast<double>(cache) - part);
    if (terms % count != 0 || distance > tolerance) continue;
    tolerance = distance;
    best = count;
  }
  return best;
}

struct BlockCounts {
  std::vector<int64_t> counts{1};
  int64_t by_default = 0;  // of them
};

/// 1; the number that leaves a vector's weights about half of the first-level cache; and, where the weights
/// of a register tile alone are more than the second-level cache holds, the one that leaves them about half
/// of that: the tiles of a task would read them from further away each. The last is the default.
BlockCounts block_counts(const VectorReduction& reduction, const Target& target) {
  constexpr double kTileVectors = 4, kFewestTiles = 2, kTileRows = 8;
  BlockCounts result;
  const double bytes = weight_bytes(reduction, target);
  const int64_t terms = reduction.extents[first_reduced(reduction)];
  // A tile that has all of them in that cache, or alone uses them, gains nothing.
  if (bytes > static_cast<double>(target.l1_bytes) && reduction.positions() > target.vector_registers)
    if (const int64_t count = count_leaving(bytes, terms, target.l1_bytes, 0.5, 0.2))
      result.counts.push_back(count);
  if (!stays_in_l2(target, kTileVectors * bytes, kL2OfTiles) &&
      reduction.positions() > kFewestTiles * kTileRows)
    if (const int64_t count = count_leaving(kTileVectors * bytes, terms, target.l2_bytes, 0.4, 0.2)) {
      result.by_default = static_cast<int64_t>(result.counts.size());
      result.counts.push_back(count);
    }
  return result;
}

/// Loops of one step inside `outer` join the loop before, so that each loop is one of a variable's.
void fuse_single_steps(Schedule& s, BlockHandle block, LoopHandle outer) {
  std::vector<LoopHandle> run;
  auto finish = [&] {
    if (run.size() > 1) s.fuse(run);
    run.clear();
  };
  bool inside = false;
  for (LoopHandle loop : s.get_loops(block)) {
    if (inside && int_value(s[loop]->extent) > 1) finish();
    if (inside) run.push_back(loop);
    inside |= s[loop]->var == s[outer]->var;
  }
  finish();
}
}  // namespace

std::optional<ReductionBlocks> sample_reduction_blocks(Schedule& s, const VectorReduction& reduction,
                                                       const Target& target, const Policy& policy) {
  int64_t reductions = 0;
  for (const Ref<Block>& block : all_blocks(s.func())) reductions += is_reduction(*block);
  const auto [counts, by_default] = block_counts(reduction, target);
  if (reductions != 1 || reduction.dot || counts.size() == 1) return std::nullopt;
  IntHandle count =
      s.sample_categorical(counts, policy.decide == Decide::kHeuristic ? Decision{by_default} : Decision{});
  if (s[count] == 1) return std::nullopt;
  return cut_reduction(s, reduction, count);
}

ReductionBlocks cut_reduction(Schedule& s, const VectorReduction& reduction, IntHandle count) {
  BlockHandle sum = s.get_block(reduction.block);
  // The blocks are parts of the outermost reduction variable: each then has all terms of the inner ones.
  LoopHandle block_loop = s.split(s.get_loops(sum)[first_reduced(reduction)], {count, kInferred})[0];
  fuse_single_steps(s, sum, block_loop);
  BlockHandle partial = s.rfactor(sum, block_loop);
  const std::vector<Expr> shape = s[partial]->writes[0].buffer->shape;
  std::vector<int64_t> axes;  // the number of the block first, vectors stay last
  for (size_t i = 0; i < shape.size(); ++i) {
    // rfactor put the block's number last; the others move up by one.
    size_t d = (i + shape.size() - 1) % shape.size();
    axes.insert(axes.end(), {static_cast<int64_t>(d), int_value(shape[d])});
  }
  s.transform_layout(partial, 0, axes);
  auto of_block = vector_reduction(s[partial]);
  CHECK(of_block, "a part of a vectorized reduction vectorizes too");
  // rfactor adds the block's number behind the spatial variables.
  size_t variable = first_reduced(*of_block) - 1;
  // A register tile takes one block at a time.
  of_block->fits[variable] = Fit::kSingle;
  return ReductionBlocks{*of_block, variable, sum};
}

void block_outside_vectors(Schedule& s, BlockHandle sum) {
  std::vector<LoopHandle> loops = s.get_loops(sum);
  s.reorder({loops.back(), loops[loops.size() - 2]});
}

std::set<std::string> finish_reduction_blocks(Schedule& s, BlockHandle sum, LoopHandle block_loop,
                                              LoopHandle task, const Target& target) {
  std::set<std::string> done{s[s.decompose_reduction(sum, block_loop)]->name};
  std::vector<Ref<Block>> readers = consumers_of(s.func(), s[sum]);
  if (readers.size() != 1 || !is_injective(*readers[0])) return done;
  BlockHandle reader = s.get_block(readers[0]->name);
  s.reverse_compute_at(reader, task);
  finish_inner_loops(s, reader, task, target);
  done.insert(readers[0]->name);
  return done;
}

}  // namespace lathe::schedule
