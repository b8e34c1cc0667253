#include "schedules/tiling.h"

#include <algorithm>
#include <vector>

#include "core/tir/machine.h"

namespace lathe::schedule {

namespace {
/// Computing and waiting for data overlap by about half.
constexpr double kOverlap = 0.5;
/// Of the shorter of computing and weights that come in beside it, which are asked for early.
constexpr double kUnhidden = 0.05;
/// Of an element; most are 32 bits.
constexpr double kResultBytes = 4;
/// Copying a vector of padding.
constexpr double kPaddingCycles = 6;
/// Cores are never quite equally fast: this share of a task is waited for at the end.
constexpr double kRaggedEnd = 0.2;
/// Of a kernel in whose tasks another reduction is computed a part at a time, where the last of them ends
/// beyond the edge: nobody knows which of a part's results there are, and each is tested (Fit::kSingle).
constexpr double kRaggedTasks = 1.1;
constexpr size_t kCandidates = 64, kFewest = 56;
/// The model knows less than a measurement: candidates may be this much worse than the best, and more where
/// there are few.
constexpr double kTolerance = 1.3;

/// Bytes read past the second-level cache.
struct Traffic {
  double weights = 0, data = 0;
  double passes = 1;  // how often weights are used from there once they have come
};

/// A loop of the nest outside the register tile.
struct Level {
  size_t variable;
  double extent;
};

/// In order. An extent may be as large as an index: what divides it is found in steps of its root.
std::vector<int64_t> divisors_of(int64_t count) {
  std::vector<int64_t> small, large;
  for (int64_t divisor = 1; divisor <= count / divisor; ++divisor) {
    if (count % divisor != 0) continue;
    small.push_back(divisor);
    if (divisor != count / divisor) large.push_back(count / divisor);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

class Model {
 public:
  Model(const VectorReduction& reduction, const Target& target)
      : reduction_(reduction),
        target_(target),
        machine_(machine_of(target)),
        variables_(tiled_variables(reduction, target)) {
    for (const Operand& operand : reduction.operands) bytes_.push_back(bytes_of(operand));
    vectors_ = reduction.steps() / static_cast<double>(vector_width(reduction, target));
    for (size_t i = 0; i < reduction.extents.size(); ++i)
      if (!reduction.reduces[i]) vectors_ *= static_cast<double>(reduction.extents[i]);
  }

  std::vector<Tiling> best(Edges edges) {
    for (const RegisterTile& tile : register_tiles(reduction_, target_, edges)) {
      Tiling tiling{tile.sizes, std::vector<int64_t>(tile.sizes.size(), 1), 0};
      enumerate(0, tile.cost, tiling);
    }
    std::stable_sort(tilings_.begin(), tilings_.end(),
                     [](const Tiling& a, const Tiling& b) { return a.cost < b.cost; });
    double limit = tilings_[0].cost * kTolerance;
    while (tilings_.size() > kCandidates || (tilings_.size() > kFewest && tilings_.back().cost > limit))
      tilings_.pop_back();
    return std::move(tilings_);
  }

 private:
  /// That the reduction reads of the operand.
  double bytes_of(const Operand& operand) const {
    const auto whole = static_cast<double>(tir::byte_size(operand.buffer));
    if (!reduction_.is_part) return whole;
    double part = operand.buffer->dtype.bytes();
    for (size_t i = 0; i < operand.uses.size(); ++i)
      if (operand.uses[i]) part *= static_cast<double>(reduction_.extents[i]);
    return std::min(part, whole);
  }

  int64_t tiles(const Tiling& tiling, size_t i) const {
    int64_t steps = steps_of(reduction_, variables_[i], target_);
    return (steps + tiling.sizes[i] - 1) / tiling.sizes[i];
  }

  /// For one register tile, all cuts of its tiles into tasks: the variables from `position` on, those before
  /// being fixed in `tiling`.
  void enumerate(size_t position, double tile_cost, Tiling& tiling) {
    if (position == variables_.size()) {
      tilings_.push_back(tiling);
      tilings_.back().cost = cost(tiling, tile_cost);
      return;
    }
    int64_t count = tiles(tiling, position);
    bool sticks_out = steps_of(reduction_, variables_[position], target_) % tiling.sizes[position] != 0;
    // All tasks have equally many register tiles.
    for (const int64_t middle : divisors_of(count)) {
      // One loop must tell the tile at the edge, so that lowering can give it code of its own.
      if (sticks_out && middle != 1 && middle != count) continue;
      tiling.middle[position] = middle;
      enumerate(position + 1, tile_cost, tiling);
    }
  }

  /// The loops outside the register tile, outermost first: those over tasks in the order of variables, then
  /// those over the tiles of a task. Callers count on the last variables_.size() of them being the latter.
  std::vector<Level> levels(const Tiling& tiling) const {
    std::vector<Level> result;
    if (auto first = reduction_.outermost)
      result.push_back({*first, static_cast<double>(steps_of(reduction_, *first, target_))});
    for (size_t v = 0; v < reduction_.extents.size(); ++v) {
      if (reduction_.reduces[v] || v == reduction_.outermost) continue;
      auto tiled = std::find(variables_.begin(), variables_.end(), v);
      if (tiled == variables_.end()) {
        result.push_back({v, static_cast<double>(steps_of(reduction_, v, target_))});
      } else {
        auto i = static_cast<size_t>(tiled - variables_.begin());
        result.push_back({v, static_cast<double>(tiles(tiling, i) / tiling.middle[i])});
      }
    }
    for (size_t i = 0; i < variables_.size(); ++i)
      result.push_back({variables_[i], static_cast<double>(tiling.middle[i])});
    return result;
  }

  /// The working set of the outermost level that fits stays in the second-level cache; an operand is read
  /// again for each iteration outside, loops just around that level that do not use it aside. Nothing stays
  /// where not even one tile's fits.
  Traffic traffic(const std::vector<Level>& levels) const {
    std::vector<double> part = bytes_;
    size_t fitting = 0;
    auto total = [&] {
      double sum = 0;
      for (double each : part) sum += each;
      return sum;
    };
    // From outside in: entering a loop fixes its variable, and divides the part of each operand that it
    // moves.
    const auto fits = [&] { return stays_in_l2(target_, total(), kL2OfTiles); };
    while (fitting < levels.size() && !fits()) {
      for (size_t o = 0; o < part.size(); ++o)
        if (reduction_.operands[o].uses[levels[fitting].variable]) part[o] /= levels[fitting].extent;
      ++fitting;
    }
    Traffic read;
    for (size_t l = fitting; l < levels.size(); ++l)
      if (!weights_use(levels[l].variable)) read.passes *= levels[l].extent;
    for (size_t o = 0; o < part.size(); ++o) {
      double times = 1;
      bool kept = fits();
      // Going outwards from the level that fits: loops that do not move the operand find it in the cache,
      // until one that does has brought in another part.
      for (size_t l = fitting; l-- > 0;) {
        if (levels[l].extent > 1) kept &= !reduction_.operands[o].uses[levels[l].variable];
        if (!kept) times *= levels[l].extent;
      }
      (reduction_.is_weight(o) ? read.weights : read.data) += part[o] * times;
    }
    return read;
  }

  /// Whether weights come in while others compute.
  bool come_early(const std::vector<Level>& levels) const {
    if (reduction_.is_part) return false;
    double bytes = 0;
    for (size_t o = 0; o < bytes_.size(); ++o)
      if (reduction_.is_weight(o)) bytes += bytes_[o];
    // Tasks are one loop.
    std::vector<WeightLoop> loops(1);
    for (size_t l = 0; l < levels.size(); ++l) {
      const WeightLoop loop{levels[l].extent, weights_use(levels[l].variable)};
      if (l + variables_.size() >= levels.size())
        loops.push_back(loop);
      else if (loop.moves)
        loops[0] = {loops[0].extent * loop.extent, true};
    }
    return loop_with_next(loops, bytes, target_).has_value();
  }

  bool weights_use(size_t variable) const {
    for (size_t o = 0; o < bytes_.size(); ++o)
      if (reduction_.is_weight(o) && reduction_.operands[o].uses[variable]) return true;
    return false;
  }

  /// Weights come in from memory, where each run of a model finds them, during the first pass over them; the
  /// others compute while the memory stands still.
  double streaming(double compute, double weights, double passes) const {
    double first = compute / passes;
    return std::max(first, weights) + kUnhidden * std::min(first, weights) + compute - first;
  }

  /// Bytes of weights that come in a cycle. What a part reads, the part before it has read as well.
  double weight_rate(const Tiling& tiling) const {
    return reduction_.is_part ? l3_rate(machine_) : memory_rate(target_, streams(tiling));
  }

  /// Places that a step of the tile's reduction reads weights from, each place going on from there: vectors
  /// beside each other in a row, or in a panel, are one.
  double streams(const Tiling& tiling) const {
    const int64_t beside = std::max<int64_t>(reduction_.run / vector_width(reduction_, target_), 1);
    double most = 1;
    for (size_t o = 0; o < bytes_.size(); ++o) {
      if (!reduction_.is_weight(o)) continue;
      double count = 1;
      for (size_t i = 0; i < variables_.size(); ++i) {
        const int64_t of_one = variables_[i] == reduction_.vector ? beside : 1;
        if (reduction_.operands[o].uses[variables_[i]])
          count *= static_cast<double>((tiling.sizes[i] + of_one - 1) / of_one);
      }
      most = std::max(most, count);
    }
    return most;
  }

  /// Windows over an image in blocks of channels: the tiled variables are channel blocks, rows and columns.
  bool slides() const { return !reduction_.broadcasts() && variables_.size() == 3; }

  /// Windows overlap along rows and columns: each part of them is padded (read) with its surroundings.
  double overlap(const Tiling& tiling) const {
    if (!slides()) return 0;
    double window = 1;  // the first reduction variable's
    for (size_t i = reduction_.extents.size(); i-- > 0;)
      if (reduction_.reduces[i]) window = static_cast<double>(reduction_.extents[i]);
    double cycles = 0, results = vectors_ / reduction_.steps();
    for (size_t i : {variables_.size() - 2, variables_.size() - 1}) {
      auto parts = static_cast<double>(tiles(tiling, i) / tiling.middle[i]);
      // Results of one row (or column): as many as lie along the cut.
      double line = results / static_cast<double>(reduction_.extents[variables_[i]]);
      cycles += (parts - 1) * (window - 1) * line * kPaddingCycles;
    }
    return cycles;
  }

  double result_bytes() const {
    double bytes = kResultBytes;
    for (size_t i = 0; i < reduction_.extents.size(); ++i)
      if (!reduction_.reduces[i]) bytes *= static_cast<double>(reduction_.extents[i]);
    return bytes;
  }

  /// Cycles that a core spends on reading what it would not read if it were alone: the loop that is cut
  /// between the cores leaves some operands whole for each. Weights come from the third-level cache; data was
  /// written by the operator before, by rows or by channels as is best there, and partly by other cores. What
  /// is not cut is one core's, and all it reads and writes is shared out among all before and after.
  double exchange(const std::vector<Level>& nest) const {
    // The outermost task loop of more than one iteration is the one that neighbouring cores share out.
    size_t cut = 0;
    while (cut + variables_.size() < nest.size() && nest[cut].extent == 1) ++cut;
    // What a core needs was written by another one with this chance.
    double elsewhere = 1 - 1 / static_cast<double>(target_.cores), cycles = 0;
    if (cut + variables_.size() == nest.size()) {
      double bytes = result_bytes();
      for (size_t o = 0; o < bytes_.size(); ++o)
        if (!reduction_.is_weight(o)) bytes += bytes_[o];
      return bytes * elsewhere / machine_.core_bandwidth;
    }
    size_t variable = nest[cut].variable;
    if (reduction_.read_along.value_or(variable) != variable)
      cycles += result_bytes() * elsewhere / machine_.core_bandwidth;
    if (!reduction_.broadcasts()) {
      if (slides() && variable != home())
        cycles += *std::max_element(bytes_.begin(), bytes_.end()) * elsewhere / machine_.core_bandwidth;
      return cycles;
    }
    for (size_t o = 0; o < bytes_.size(); ++o)
      if (!reduction_.operands[o].uses[variable])
        cycles += bytes_[o] * elsewhere /
                  (reduction_.operands[o].contiguous ? l3_rate(machine_) : machine_.core_bandwidth);
    return cycles;
  }

  /// The variable that the convolutions around (1x1, of these channels) are best cut along: rows, until their
  /// weights outgrow their data.
  size_t home() const {
    size_t channels = variables_[0], rows = variables_[1], columns = variables_[2];
    auto extent = [&](size_t i) { return static_cast<double>(reduction_.extents[i]); };
    double pixels = extent(rows) * extent(columns), count = extent(channels) * extent(reduction_.vector);
    return count * machine_.core_bandwidth < pixels * l3_rate(machine_) ? rows : channels;
  }

  /// Along the innermost variable, which the other reduction's tiles lie along.
  bool has_ragged_tasks(const Tiling& tiling) const {
    for (size_t i = variables_.size(); i-- > 0;)
      if (variables_[i] != reduction_.vector)
        return tiles(tiling, i) > tiling.middle[i] &&
               steps_of(reduction_, variables_[i], target_) % tiling.sizes[i] != 0;
    return false;
  }

  double cost(const Tiling& tiling, double tile_cost) const {
    std::vector<Level> nest = levels(tiling);
    double tasks = 1;
    for (size_t l = 0; l + variables_.size() < nest.size(); ++l) tasks *= nest[l].extent;
    Traffic memory = traffic(nest);
    if (come_early(nest)) memory.passes = 1;
    double compute = streaming(tile_cost * vectors_ + overlap(tiling), memory.weights / weight_rate(tiling),
                               memory.passes);
    double data = memory.data / l3_rate(machine_);
    double cycles =
        std::max(compute, data) + kOverlap * std::min(compute, data) + tasks * machine_.task_cycles;
    if (reduction_.takes_in && has_ragged_tasks(tiling)) cycles *= kRaggedTasks;
    auto cores = static_cast<double>(target_.cores);
    // The last round of tasks leaves cores idle.
    double rounds = static_cast<double>((static_cast<int64_t>(tasks) + target_.cores - 1) / target_.cores);
    return cycles * rounds / tasks + (cores > 1 ? cycles / tasks * kRaggedEnd + exchange(nest) : 0);
  }

  const VectorReduction& reduction_;
  const Target& target_;
  const MachineModel& machine_;
  std::vector<size_t> variables_;
  std::vector<double> bytes_;  // by operand
  double vectors_ = 1;
  std::vector<Tiling> tilings_;
};
}  // namespace

std::optional<size_t> loop_with_next(std::span<const WeightLoop> loops, double bytes, const Target& target) {
  double uses = 1;
  for (size_t l = loops.size(); l-- > 0;) {
    if (!loops[l].moves) {
      uses *= loops[l].extent;
      continue;
    }
    if (loops[l].extent == 1 || uses == 1) continue;
    for (size_t outer = 0; outer <= l; ++outer)
      if (loops[outer].moves) bytes /= loops[outer].extent;
    return stays_in_l2(target, 2 * bytes, kL2OfStreams) ? std::optional(l) : std::nullopt;
  }
  return std::nullopt;
}

std::vector<Tiling> tilings(const VectorReduction& reduction, const Target& target, Edges edges) {
  return Model(reduction, target).best(edges);
}

}  // namespace lathe::schedule
