// Reductions one of which reads the other, in one kernel: expansion, depthwise convolution and projection; a
// convolution and its pooling.
//
//   parallel for parts of the last reduction's results:     rows, say
//     for parts of the second one's:                        channels, say
//       tiles of the first one                              what the second one needs of them, in a cache
//       tiles of the second one, which skips what lies beyond the border
//     tiles of the last one
//
// or each one after the other, or anything between: the places are sampled, as are the tiles.
#include <algorithm>

#include "core/support/error.h"
#include "core/tir/machine.h"
#include "core/tir/passes/skip_neutral_terms.h"
#include "schedules/spaces/building_blocks.h"
#include "schedules/tile_model.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// The one reduction that `block` reads, also by way of element-wise blocks (what follows that one, and what
/// pads its results where the border is large beside them); null when there is none that nothing else reads.
Ref<Block> reduction_before(const Func& func, const Ref<Block>& block) {
  std::vector<Ref<Block>> before = producers_of(func, block);
  while (!before.empty()) {
    const Ref<Block> producer = before.front();
    before.erase(before.begin());
    if (consumers_of(func, producer).size() != 1) continue;
    if (is_reduction(*producer)) return producer;
    if (!is_injective(*producer)) continue;
    const std::vector<Ref<Block>> further = producers_of(func, producer);
    before.insert(before.begin(), further.begin(), further.end());
  }
  return {};
}

/// Places for a reduction of the chain, with the block that takes its accumulators, and what it costs there.
class Places {
 public:
  Places(const Schedule& schedule, const VectorReduction& reduction, BlockHandle block, BlockHandle epilogue,
         const Target& target)
      : schedule_(schedule), reduction_(reduction), block_(block), epilogue_(epilogue), target_(target) {}

  /// Cycles of one core to compute it in `loop` (null: before), and to write and read its results; nothing
  /// when it may not be computed there.
  std::optional<double> cost(std::optional<LoopHandle> loop) const {
    Schedule trial = schedule_;
    try {
      if (loop) move(trial, *loop);
    } catch (const Error&) {
      return {};  // not a legal place
    }
    std::vector<LoopHandle> loops = trial.get_loops(block_);
    const Block& block = *trial[block_];
    size_t own = loops.size() - block.iters.size();
    VectorReduction part = reduction_;
    double repeats = 1, elements = 1;
    for (size_t i = 0; i < loops.size(); ++i) {
      int64_t extent = int_value(trial[loops[i]]->extent);
      if (i < own) {
        repeats *= static_cast<double>(extent);
        continue;
      }
      fit_to_loop(part, i - own, block, *trial[loops[i]]);
      if (!part.reduces[i - own]) elements *= static_cast<double>(extent);
    }
    double bytes = elements * block.writes[0].buffer->dtype.bytes();
    if (loop && bytes > kStackBytes) return {};
    double vectors = elements / static_cast<double>(vector_width(part, target_));
    double compute = vectors * part.steps() * register_tiles(part, target_)[0].cost;
    return repeats * (compute + transfers(bytes) * bytes / bandwidth_within(target_, bytes));
  }

  void move(Schedule& schedule, LoopHandle loop) const {
    schedule.compute_at(epilogue_, loop);
    schedule.compute_at(block_, loop);
  }

 private:
  /// How often results of that size go from a cache to the next: written and read; where they leave the
  /// second-level cache, each line also comes in before it is written.
  double transfers(double bytes) const { return stays_in_l2(target_, bytes, kAllOfL2) ? 2 : 3; }

  const Schedule& schedule_;
  const VectorReduction& reduction_;
  BlockHandle block_, epilogue_;
  const Target& target_;
};

/// The block of this name as it is now.
Ref<Block> block_of(const Func& func, const std::string& name) {
  return path_to_block(func, name)->back().cast<Block>();
}

/// The dimension of `buffer` whose index, where `reader` reads it, depends on its variable `variable`.
std::optional<size_t> dimension_along(const Block& reader, size_t variable, const Buffer& buffer) {
  std::optional<size_t> along;
  post_order(reader.body, [&](const NodeRef& node) {
    const Load* load = node.as<Load>();
    if (!load || load->buffer != buffer) return;
    for (size_t d = 0; d < load->indices.size(); ++d)
      if (uses_var(load->indices[d], reader.iters[variable].var.get())) along = d;
  });
  return along;
}

/// The variable of `block` whose value is the index in `dimension` of what it writes.
std::optional<size_t> variable_along(const Block& block, size_t dimension) {
  const std::vector<Expr>& indices = block.body.as<Store>()->indices;
  if (dimension >= indices.size()) return {};
  for (size_t i = 0; i < block.iters.size(); ++i)
    if (indices[dimension].same_as(block.iters[i].var.get())) return i;
  return {};
}

/// Processors fetch lines ahead of those a core reads or writes, beyond the end of its part, and so from
/// the core whose part begins there. The parts of `dimension` are different cores': when it is the outermost
/// in memory, they meet in one place, not once for each index of the dimensions outside it. The innermost one
/// stays: vectors lie along it.
void sample_cut_outermost(Schedule& s, BlockHandle writer, size_t dimension, const Policy& policy) {
  const std::vector<Expr> shape = s[writer]->writes[0].buffer->shape;
  if (dimension + 1 == shape.size()) return;
  auto parts = shape.begin() + static_cast<int64_t>(dimension);
  if (std::all_of(shape.begin(), parts, [](const Expr& extent) { return is_int(extent, 1); })) return;
  IntHandle moves =
      s.sample_categorical({0, 1}, policy.decide == Decide::kHeuristic ? Decision{1} : Decision{});
  if (s[moves] == 0) return;
  std::vector<int64_t> axes{static_cast<int64_t>(dimension), int_value(*parts)};
  for (size_t d = 0; d < shape.size(); ++d)
    if (d != dimension) axes.insert(axes.end(), {static_cast<int64_t>(d), int_value(shape[d])});
  s.transform_layout(writer, 0, axes);
}

/// Leaves out the padding that `padding` does. What it computes of the padded tensor before, if anything,
/// stays a block.
void inline_padding(Schedule& s, const Block& padding) {
  BlockHandle block = s.get_block(padding.name);
  const Store* store = padding.body.as<Store>();
  const Select* select = store ? store->value.as<Select>() : nullptr;
  if (select && !select->if_true.as<Load>()) s.separate_padding(block);
  s.compute_inline(block);
}

/// What a window reads beyond the border of an image adds nothing: then it need not be there, and the terms
/// are left out (skip_neutral_terms). Convolutions of all channels rather have a copy: it costs little beside
/// them.
void sample_inlined_padding(Schedule& s, VectorReduction& window, const Policy& policy) {
  if (window.broadcasts()) return;
  for (const Ref<Block>& padding : producers_of(s.func(), s[s.get_block(window.block)])) {
    if (!is_injective(*padding) || is_param(s.func(), padding->writes[0].buffer) ||
        consumers_of(s.func(), padding).size() != 1)
      continue;
    Schedule trial = s;
    try {
      inline_padding(trial, *padding);
    } catch (const Error&) {
      continue;  // it does more than pad
    }
    Ref<Block> block = trial[trial.get_block(window.block)];
    std::optional<VectorReduction> inlined = vector_reduction(block);
    if (!inlined || !skips_terms(*block->body.as<Store>())) continue;
    IntHandle inlines =
        s.sample_categorical({1, 0}, policy.decide == Decide::kHeuristic ? Decision{0} : Decision{});
    if (s[inlines] == 0) return;
    inline_padding(s, *padding);
    window = *inlined;
    return;
  }
}

/// The model knows less than a measurement: places may cost this many times the least.
constexpr double kTolerance = 2.5;

/// Where a reduction is computed, and the block that writes its results.
struct Placed {
  std::vector<LoopHandle> around;  // nothing: before the loops of its reader
  BlockHandle writer;
};

/// Moves the reduction into one of `places`, or leaves it before them.
Placed place(Schedule& s, const VectorReduction& reduction, std::vector<LoopHandle> places,
             const Target& target, const Policy& policy) {
  BlockHandle block = s.get_block(reduction.block);
  auto after = epilogue_of(s, *s[block]);
  BlockHandle epilogue = after ? s.get_block(*after) : s.cache_write(block, 0, Scope::kLocal);
  Places model(s, reduction, block, epilogue, target);
  double least = model.cost({}).value();
  std::vector<std::pair<LoopHandle, double>> costs;
  for (LoopHandle loop : places)
    if (std::optional<double> cost = model.cost(loop)) {
      costs.emplace_back(loop, *cost);
      least = std::min(least, *cost);
    }
  std::vector<LoopHandle> worthwhile;
  int64_t best = 0;
  for (auto [loop, cost] : costs) {
    if (cost > least * kTolerance) continue;
    worthwhile.push_back(loop);
    if (cost == least) best = static_cast<int64_t>(worthwhile.size());
  }
  LoopHandle chosen = s.sample_compute_location(
      block, worthwhile, policy.decide == Decide::kHeuristic ? Decision{best} : Decision{});
  int64_t choice = s.trace().steps.back().decision[0];
  model.move(s, chosen);
  if (choice == 0) return {{}, epilogue};
  auto at = std::find(places.begin(), places.end(), worthwhile[static_cast<size_t>(choice - 1)]);
  places.erase(at + 1, places.end());
  return {std::move(places), epilogue};
}

/// Cuts the terms of the chain's last reduction between the cores, or does not: what the others give it can
/// then stay with the core that computed it, and sums of parts of the terms go from core to core. The block
/// that adds those up.
std::optional<BlockHandle> sample_shares(Schedule& s, Chain& chain, const Target& target,
                                         const Policy& policy) {
  if (chain.size() == 1 || !chain[0].broadcasts() || chain[0].dot || target.cores == 1) return {};
  auto terms = std::find(chain[0].reduces.begin(), chain[0].reduces.end(), true) - chain[0].reduces.begin();
  constexpr int64_t kMost = 16;  // unrolled where they are added up
  std::vector<int64_t> counts{1};
  for (int64_t count = 2; count <= std::min<int64_t>(2 * target.cores, kMost); ++count)
    if (chain[0].extents[static_cast<size_t>(terms)] % count == 0) counts.push_back(count);
  if (counts.size() == 1) return {};
  IntHandle count =
      s.sample_categorical(counts, policy.decide == Decide::kHeuristic ? Decision{0} : Decision{});
  if (s[count] == 1) return {};
  ReductionBlocks shares = cut_reduction(s, chain[0], count);
  chain[0] = shares.partial;
  chain[0].outermost = shares.variable;
  return shares.sum;
}

/// Adds up the shares, of several cores, on as many.
std::set<std::string> schedule_sum(Schedule& s, BlockHandle sum, const Target& target) {
  std::set<std::string> done{s[sum]->name};
  BlockHandle after = stage_accumulators(s, sum, epilogue_of(s, *s[sum]));
  done.insert(s[after]->name);
  std::vector<LoopHandle> loops = s.get_loops(sum);  // the shares innermost, vectors before them
  LoopHandle shares = loops.back();
  loops.pop_back();
  auto vectors = s.split(loops.back(), {kInferred, vector_width(int_value(s[loops.back()]->extent), target)});
  LoopHandle lanes = vectors[1];
  loops.back() = vectors[0];
  s.reorder({shares, lanes});
  LoopHandle results = s.tasks(loops);
  s.reverse_compute_at(after, results);
  finish_inner_loops(s, after, results, target);
  done.insert(s[s.decompose_reduction(sum, shares)]->name);
  s.unroll(shares);
  s.vectorize(lanes);
  s.run_tasks(results);
  return done;
}
}  // namespace

Chain reduction_chain(const Func& func, const Target& target) {
  Chain chain;
  Ref<Block> last;
  for (const Ref<Block>& block : all_blocks(func))
    if (is_reduction(*block)) last = block;
  for (Ref<Block> block = last; block; block = reduction_before(func, block)) {
    auto reduction = vector_reduction(block);
    if (!reduction || vector_width(*reduction, target) == 1) break;
    if (!chain.empty() && chain.back().broadcasts() == reduction->broadcasts()) break;
    chain.push_back(*reduction);
  }
  return chain;
}

std::set<std::string> schedule_chain(Schedule& s, Chain chain, const Target& target, const Policy& policy) {
  for (VectorReduction& each : chain) sample_inlined_padding(s, each, policy);
  for (size_t i = 0; i + 1 < chain.size(); ++i) chain[i].takes_in = true;
  std::optional<BlockHandle> sum = sample_shares(s, chain, target, policy);
  Nest nest = schedule_tiled_reduction(s, chain[0], target, policy);
  std::set<std::string> done = std::move(nest.done);
  for (size_t i = 1; i < chain.size(); ++i) {
    VectorReduction reduction = chain[i];
    Placed placed = place(s, reduction, nest.places, target, policy);
    if (nest.cut) {
      auto dimension = dimension_along(*block_of(s.func(), chain[i - 1].block), *nest.cut,
                                       s[placed.writer]->writes[0].buffer);
      if (dimension) reduction.read_along = variable_along(*block_of(s.func(), reduction.block), *dimension);
      if (dimension && placed.around.empty()) sample_cut_outermost(s, placed.writer, *dimension, policy);
    }
    nest = schedule_tiled_reduction(s, reduction, target, policy, placed.around);
    if (!nest.cut) nest.cut = reduction.read_along;  // inside the other's loops: cut as that is
    done.merge(nest.done);
  }
  if (sum) done.merge(schedule_sum(s, *sum, target));
  return done;
}

}  // namespace lathe::schedule
