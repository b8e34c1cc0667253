// The schedule of convolutions, matrix products, depthwise convolutions and poolings over vectors:
//
//   parallel for outer parts of all spatial variables:
//     producers (padding), when they move in
//     for middle parts:                                 one register tile each
//       accumulators = initial value                    unrolled, vectors
//       for reduction:                                  the innermost unrolled a little
//         for the tile: accumulators += a * b           unrolled, vectors; a window's rows inside
//       epilogue of the tile (bias, residual, relu)     unrolled, vectors
//
// Blocks of the reduction (reduction_blocks.cpp) are a loop around the middle parts: what ends a tile adds
// its block to the sums of the task, and the epilogue follows that loop.
#include <algorithm>
#include <bit>
#include <numeric>

#include "core/support/error.h"
#include "core/tir/lower.h"
#include "core/tir/machine.h"
#include "core/tir/prologue.h"
#include "schedules/spaces/building_blocks.h"
#include "schedules/tiling.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// A reduction body of more instructions than this is not unrolled further: it should stay in the
/// decoded-instruction cache.
constexpr int64_t kMostInstructions = 512;

enum class Neighbours : uint8_t { kMove, kStay };

class TiledReduction {
 public:
  TiledReduction(Schedule& schedule, const VectorReduction& reduction, const Target& target,
                 const Policy& policy, std::vector<LoopHandle> around = {})
      : s_(schedule),
        reduction_(reduction),
        positions_(reduction.positions()),
        target_(target),
        policy_(policy),
        block_(s_.get_block(reduction.block)),
        around_(std::move(around)) {
    std::vector<LoopHandle> all = s_.get_loops(block_);
    loops_.assign(all.end() - static_cast<int64_t>(reduction_.extents.size()), all.end());
    for (size_t i = 0; i < loops_.size(); ++i) fit_to_loop(reduction_, i, *s_[block_], *s_[loops_[i]]);
  }

  /// Keeps the loop of the first variable outside all others, alone.
  void band_outside() { banded_ = true; }

  std::optional<LoopHandle> band() const { return band_; }

  /// What it computes is one block of another reduction.
  void add_up(const ReductionBlocks& blocks) { blocks_ = blocks; }

  /// The loops that what it reads may be computed in, outermost first.
  std::vector<LoopHandle> places() const {
    std::vector<LoopHandle> loops = around_;
    if (outer_.empty() || cuts_columns()) return loops;
    loops.insert(loops.end(), outer_.begin(), outer_.end());
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (!parts_[i].middle || extent(*parts_[i].middle) == 1) continue;
      for (const Operand& operand : reduction_.operands)
        if (!operand.contiguous && !operand.uses[i]) return loops;  // computed anew for other weights
      loops.push_back(*parts_[i].middle);
    }
    return loops;
  }

  /// The first variable that the parallel loop takes apart.
  std::optional<size_t> cut() const { return cut_; }

  std::set<std::string> schedule(Neighbours neighbours) {
    done_.insert(s_[block_]->name);
    if (neighbours == Neighbours::kMove) {
      producers_ = movable_producers(s_, block_);
      halve_weights();
    }
    stage_accumulators();
    split_loops();
    order_loops();
    place_producers();
    finish_reduction();
    finish_epilogue();
    return done_;
  }

 private:
  struct Parts {
    std::optional<LoopHandle> outer, middle, tile;
  };

  Decision heuristic(Decision decision) const {
    return policy_.decide == Decide::kHeuristic ? decision : Decision{};
  }
  int64_t extent(LoopHandle loop) const { return int_value(s_[loop]->extent); }

  /// Large weights that are constants get a copy, made when the model is built, which may be half as large.
  void halve_weights() {
    for (size_t o = 0; o < reduction_.operands.size(); ++o) {
      Buffer& weights = reduction_.operands[o].buffer;
      if (!reduction_.is_weight(o) || !is_constant_param(s_.func(), weights) ||
          !may_be_half(weights->dtype, byte_size(weights), target_, policy_))
        continue;
      const std::vector<Region>& reads = s_[block_]->reads;
      auto read =
          std::find_if(reads.begin(), reads.end(), [&](const Region& r) { return r.buffer == weights; });
      BlockHandle copy = s_.cache_read(block_, read - reads.begin(), Scope::kGlobal);
      // Widening costs an instruction each time they are used.
      sample_half_storage(s_, copy, positions_ < target_.vector_registers, policy_.decide);
      weights = s_[copy]->writes[0].buffer;
    }
  }

  /// Accumulators go to a buffer of their own, which becomes registers; its reader is the epilogue.
  void stage_accumulators() {
    epilogue_ = schedule::stage_accumulators(
        s_, block_, blocks_ ? std::optional(s_[blocks_->sum]->name) : epilogue_of(s_, *s_[block_]));
    done_.insert(s_[epilogue_]->name);
  }

  void split_loops() {
    parts_.resize(loops_.size());
    iterations_.resize(loops_.size(), 1);
    auto vectors = s_.split(loops_[reduction_.vector], {kInferred, vector_width(reduction_, target_)});
    loops_[reduction_.vector] = vectors[0];
    lanes_ = vectors[1];
    std::vector<size_t> tiled = tiled_variables(reduction_, target_);
    std::vector<IntHandle> factors = sample_tiling(tiled.size());
    for (size_t i = 0; i < tiled.size(); ++i) {
      auto levels = s_.split(loops_[tiled[i]], {kInferred, factors[tiled.size() + i], factors[i]});
      parts_[tiled[i]] = {levels[0], levels[1], levels[2]};
      iterations_[tiled[i]] = extent(levels[0]);
      tile_results_ *= s_[factors[i]];
    }
    for (size_t i = 0; i < loops_.size(); ++i) {
      if (reduction_.reduces[i] || parts_[i].tile) continue;
      parts_[i].outer = loops_[i];
      iterations_[i] = extent(loops_[i]);
    }
  }

  /// Sizes of the register tile, then register tiles of a task, for each tiled variable.
  std::vector<IntHandle> sample_tiling(size_t variables) {
    if (variables == 0) return {};
    std::vector<int64_t> table;
    Target target = target_;
    if (is_inside()) target.cores = 1;
    for (const Tiling& tiling : tilings(reduction_, target)) {
      table.insert(table.end(), tiling.sizes.begin(), tiling.sizes.end());
      table.insert(table.end(), tiling.middle.begin(), tiling.middle.end());
    }
    return s_.sample_tuple(static_cast<int64_t>(2 * variables), table, heuristic({0}));
  }

  /// The operand that stays in registers over a step of the reduction: the one with fewest vectors in a tile.
  /// Its variables run innermost, so that each element of the others is loaded once and used up.
  const Operand& held_operand() const {
    const Operand* held = nullptr;
    int64_t fewest = INT64_MAX;
    for (const Operand& operand : reduction_.operands) {
      int64_t loads = 1;
      for (size_t i = 0; i < parts_.size(); ++i)
        if (parts_[i].tile && operand.uses[i]) loads *= extent(*parts_[i].tile);
      if (loads < fewest) held = &operand, fewest = loads;
    }
    return *held;
  }

  void order_loops() {
    std::vector<LoopHandle> order, outer, tile;
    for (size_t i : outside_in())
      if (parts_[i].outer && !(blocks_ && i == blocks_->variable)) outer.push_back(*parts_[i].outer);
    if (banded_) band_ = outer[0];
    order = outer;
    if (blocks_) order.push_back(block_loop()), tile_loop_ = block_loop();
    for (const Parts& part : parts_)
      if (part.middle) order.push_back(*part.middle), tile_loop_ = *part.middle;
    std::optional<size_t> window = reduction_.window();
    for (size_t i = 0; i < loops_.size(); ++i)
      if (reduction_.reduces[i] && i != reduction_.dot && i != window) reduce_.push_back(loops_[i]);
    // What is read once may come in another order.
    if (!reduction_.broadcasts() && !window) choose_innermost(s_, reduce_, policy_);
    unroll_reduction();
    if (window) unrolled_.push_back(loops_[*window]);
    order.insert(order.end(), reduce_.begin(), reduce_.end());
    for (bool held : {false, true})
      for (size_t i = 0; i < parts_.size(); ++i)
        if (parts_[i].tile && held_operand().uses[i] == held) tile.push_back(*parts_[i].tile);
    order.insert(order.end(), tile.begin(), tile.end());
    if (window) order.push_back(loops_[*window]);
    order.push_back(lanes_);
    if (reduction_.dot) order.push_back(loops_[*reduction_.dot]);
    s_.reorder(order);
    for (LoopHandle loop : tile) s_.unroll(loop);
    s_.vectorize(lanes_);
    if (outer.empty()) return;
    if (banded_) outer.erase(outer.begin());
    if (!is_inside()) outer = {outer.size() > 1 ? s_.fuse(outer) : outer[0]};
    outer_ = outer;
    if (!tile_loop_) tile_loop_ = outer_.back();
    int64_t work = iterations(*s_[block_]);
    if (is_inside() || target_.cores == 1 || !pays_in_parallel(work, target_)) return;
    s_.parallel(banded_ ? *band_ : outer_.back());
    for (size_t i : outside_in())
      if (!cut_ && parts_[i].outer && iterations_[i] > 1) cut_ = i;
  }

  /// The variables in the order of their outer loops.
  std::vector<size_t> outside_in() const {
    std::vector<size_t> order(parts_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    if (auto first = reduction_.outermost)
      std::rotate(order.begin(), order.begin() + *first, order.begin() + *first + 1);
    return order;
  }

  /// Of loops of another block, which are parallel if any are.
  bool is_inside() const { return !around_.empty(); }

  /// The innermost reduction loop is unrolled by a sampled factor; reductions of few steps (windows) wholly.
  /// What has no broadcast operand waits for memory rather than for loops.
  void unroll_reduction() {
    constexpr int64_t kMostCopies = 16;
    int64_t steps = 1;
    for (LoopHandle loop : reduce_) steps *= extent(loop);
    if (reduction_.broadcasts() && steps * tile_results_ * 2 <= kMostInstructions &&
        choose_one_of(s_, {0, 1}, 1, policy_) == 1) {
      unrolled_ = reduce_;
      return;
    }
    // A trailing loop of one step has nothing to unroll.
    for (size_t i = reduce_.size() - 1; i > 0 && extent(reduce_.back()) == 1; --i)
      std::swap(reduce_.back(), reduce_[i - 1]);
    LoopHandle last = reduce_.back();
    std::vector<int64_t> factors;
    int64_t preferred = 1;
    const int64_t most = reduction_.broadcasts() ? kMostCopies : 2 * kMostCopies;
    for (int64_t factor = 1; factor <= std::min(most, extent(last)); ++factor) {
      if (extent(last) % factor != 0 || (factor > 1 && factor * tile_results_ > kMostInstructions)) continue;
      if (reduction_.broadcasts() && factor <= 4 && std::has_single_bit(static_cast<uint64_t>(factor)))
        preferred = factor;
      factors.push_back(factor);
    }
    auto parts = s_.split(last, {kInferred, sample_one_of(s_, factors, preferred, policy_)});
    reduce_.back() = parts[0];
    reduce_.push_back(parts[1]);
    unrolled_ = {parts[1]};
  }

  /// A producer moves into the outer loop or one inside a task, or runs before as loops of its own.
  void place_producers() {
    for (BlockHandle producer : producers_) {
      std::vector<LoopHandle> legal;
      int64_t best = 0;
      double least = cost_inside(producer, {}).value();
      for (LoopHandle loop : places()) {
        std::optional<double> cost = cost_inside(producer, loop);
        if (!cost) continue;
        legal.push_back(loop);
        if (*cost <= least) least = *cost, best = static_cast<int64_t>(legal.size());
      }
      LoopHandle place = s_.sample_compute_location(producer, legal, heuristic({best}));
      s_.compute_at(producer, place);
      finish_producer(producer);
      done_.insert(s_[producer]->name);
    }
  }

  /// Its loops next to their consumer are vectorized and unrolled like its; else they are loops of a block
  /// alone.
  void finish_producer(BlockHandle producer) {
    std::optional<LoopHandle> around;
    for (const Ref<For>& loop : loops_around(path_to(s_.func(), s_[producer])))
      for (LoopHandle candidate : places())
        if (loop->var == s_[candidate]->var) around = candidate;
    if (around)
      finish_inner_loops(s_, producer, around, target_);
    else
      schedule_injective(s_, producer, target_);
  }

  /// Several tasks read the same data for other parts of the weights, and would compute it anew each.
  bool cuts_columns() const {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (!parts_[i].tile || iterations_[i] == 1) continue;
      for (const Operand& operand : reduction_.operands)
        if (!operand.contiguous && !operand.uses[i]) return true;
    }
    return false;
  }

  /// Elements computed when `producer` moves into `loop` (null: stays before), those beyond the first- and
  /// the second-level cache counted as more; nothing when it may not move there.
  std::optional<double> cost_inside(BlockHandle producer, std::optional<LoopHandle> loop) const {
    Schedule trial = s_;
    try {
      if (loop) trial.compute_at(producer, *loop);
    } catch (const Error&) {
      return {};  // not a legal place
    }
    int64_t elements = 1;
    double repeats = 1;
    bool below = !loop;
    for (LoopHandle inner : trial.get_loops(producer)) {
      if (below)
        elements *= int_value(trial[inner]->extent);
      else
        repeats *= static_cast<double>(int_value(trial[inner]->extent));
      below |= loop && trial[inner]->var == trial[*loop]->var;
    }
    int64_t bytes = elements * trial[producer]->writes[0].buffer->dtype.bytes();
    if (loop && bytes > kStackBytes) return {};
    // Computing an element takes about as long as reading it from the first-level cache; lines that come
    // from far away are fetched ahead.
    constexpr double kMost = 2.5;
    double reach = machine_of(target_).l1_bandwidth / bandwidth_within(target_, static_cast<double>(bytes));
    return static_cast<double>(elements) * repeats * std::min((1 + reach) / 2, kMost);
  }

  /// Weights that no cache holds from one use to the next come from memory, each once: worth asking for
  /// early.
  void prefetch_weights() {
    int64_t weights = 0;
    for (size_t o = 0; o < reduction_.operands.size(); ++o)
      if (reduction_.is_weight(o) && is_constant(s_.func(), reduction_.operands[o].buffer))
        weights += byte_size(reduction_.operands[o].buffer);
    if (weights < far_bytes(target_)) return;
    IntHandle ahead = s_.sample_categorical({0, 1024, 4096, 16384, 65536}, heuristic({2}));
    for (LoopHandle loop : reduce_)
      if (std::find(unrolled_.begin(), unrolled_.end(), loop) == unrolled_.end())
        s_.annotate(loop, kPrefetch, ahead);
  }

  void finish_reduction() {
    prefetch_weights();
    for (LoopHandle loop : unrolled_) s_.unroll(loop);
    done_.insert(s_[s_.decompose_reduction(block_, reduce_[0])]->name);
    if (reduction_.dot) s_.dot_product(loops_[*reduction_.dot]);
  }

  void finish_epilogue() {
    if (tile_loop_) s_.reverse_compute_at(epilogue_, *tile_loop_);
    if (blocks_) block_outside_vectors(s_, blocks_->sum);
    finish_inner_loops(s_, epilogue_, tile_loop_, target_);
    if (blocks_) finish_blocks();
  }

  LoopHandle block_loop() const { return *parts_[blocks_->variable].outer; }

  void finish_blocks() {
    int64_t bytes = tile_results_ * extent(lanes_) * s_[block_]->writes[0].buffer->dtype.bytes();
    for (const Parts& part : parts_)
      if (part.middle) bytes *= extent(*part.middle);
    if (bytes > kStackBytes) fail("the sums of a task take {} bytes", bytes);
    done_.merge(finish_reduction_blocks(s_, blocks_->sum, block_loop(), outer_.back(), target_));
  }

  Schedule& s_;
  VectorReduction reduction_;
  double positions_;  // of all its results, also where a part of them is computed
  const Target& target_;
  Policy policy_;
  BlockHandle block_, epilogue_;
  std::vector<BlockHandle> producers_;
  std::vector<LoopHandle> loops_, reduce_, unrolled_;
  std::vector<Parts> parts_;         // by variable
  std::vector<int64_t> iterations_;  // of the outer loops, by variable
  LoopHandle lanes_;
  std::vector<LoopHandle> around_;  // of what reads its results, when it is computed part by part
  std::vector<LoopHandle> outer_;
  std::optional<LoopHandle> band_, tile_loop_;
  std::optional<size_t> cut_;
  bool banded_ = false;
  std::optional<ReductionBlocks> blocks_;
  int64_t tile_results_ = 1;
  std::set<std::string> done_;
};
}  // namespace

Nest schedule_tiled_reduction(Schedule& schedule, const VectorReduction& reduction, const Target& target,
                              const Policy& policy, const std::vector<LoopHandle>& around) {
  std::optional<ReductionBlocks> blocks;
  if (around.empty()) blocks = sample_reduction_blocks(schedule, reduction, target, policy);
  TiledReduction tiled(schedule, blocks ? blocks->partial : reduction, target, policy, around);
  if (blocks) tiled.add_up(*blocks);
  std::set<std::string> done = tiled.schedule(Neighbours::kMove);
  return {std::move(done), tiled.places(), tiled.cut()};
}

ProductNest schedule_product(Schedule& schedule, const VectorReduction& reduction, const Target& target,
                             const Policy& policy, bool banded) {
  TiledReduction product(schedule, reduction, target, policy);
  if (banded) product.band_outside();
  std::set<std::string> done = product.schedule(Neighbours::kStay);
  return {std::move(done), product.band()};
}

}  // namespace lathe::schedule
