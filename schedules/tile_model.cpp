#include "schedules/tile_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/tir/machine.h"

namespace lathe::schedule {

/// The largest divisor of `extent` that fits, if it fills half of a vector or is the extent itself; less is
/// not worth vectors.
namespace {
int64_t width_within(int64_t extent, int64_t lanes) {
  for (int64_t width = std::min(lanes, extent); width > 1; --width)
    if (extent % width == 0) return width >= std::min(lanes / 2, extent) ? width : 1;
  return 1;
}
}  // namespace

int64_t vector_width(int64_t extent, const Target& target) { return width_within(extent, target.lanes()); }

int64_t row_width(int64_t extent, const Target& target) {
  constexpr int64_t kFewest = 4;
  int64_t lanes = target.lanes(), width = vector_width(extent, target);
  // A row that needs as many vectors exactly as with a masked end is better off without the mask; a width
  // that is no multiple of 4 takes several instructions to load (docs/decisions/018-lanes-that-fit.md).
  bool as_few_vectors = extent / width <= (extent + lanes - 1) / lanes;
  if ((width % kFewest == 0 && as_few_vectors) || extent < kFewest || lanes < kFewest) return width;
  return std::min(lanes, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(extent))));
}

int64_t vector_width(const VectorReduction& reduction, const Target& target) {
  // Sums of 64 bits fill a register by half as many; a tile of more would not fit.
  return width_within(reduction.run, std::max<int64_t>(1, target.lanes() * 32 / reduction.bits));
}

int64_t steps_of(const VectorReduction& reduction, size_t i, const Target& target) {
  return i == reduction.vector ? reduction.extents[i] / vector_width(reduction, target)
                               : reduction.extents[i];
}

std::vector<size_t> tiled_variables(const VectorReduction& reduction, const Target& target) {
  std::vector<size_t> variables;
  for (size_t i = reduction.extents.size(); i-- > 0 && variables.size() < 3;)
    if (!reduction.reduces[i] && reduction.fits[i] != Fit::kSingle && steps_of(reduction, i, target) > 1)
      variables.insert(variables.begin(), i);
  return variables;
}

namespace {
/// A tile costs this many cycles besides its reduction: storing the results, starting loops.
constexpr double kTileOverhead = 20;
/// Weights stream from the second-level cache through the first-level one: a load of them costs as many that
/// hit it as that one is faster, times this (fitted): its lines have to be filled too.
constexpr double kFills = 2;
/// Loads get in the way of multiply-adds a little even when there is room for both.
constexpr double kContention = 0.05;
/// Tests at the edges, and more code.
constexpr double kEdge = 1.02;
constexpr int64_t kLargestSize = 32;
/// Tile registers (AMX), and the most vectors of sums in them.
constexpr int64_t kTileRegisters = 8, kMostTiled = 96;
/// LLVM loads the constants of functions in front of all loops around them, and a broadcast for several
/// vectors while the one before it is used. Where sums leave it no registers for either, it spills sums in
/// each step.
constexpr int64_t kOfFunctions = 2;
constexpr size_t kCandidates = 24;
/// Candidates may be this much worse than the best: the model knows less than a measurement.
constexpr double kTolerance = 1.4;

class Model {
 public:
  Model(const VectorReduction& reduction, const Target& target, Edges edges)
      : reduction_(reduction),
        target_(target),
        edges_(edges),
        variables_(tiled_variables(reduction, target)),
        steps_(reduction.steps()) {
    const MachineModel& machine = machine_of(target);
    const auto bits = static_cast<int>(vector_width(reduction, target)) * reduction.bits;
    const DataType operands = reduction.operands.empty() ? kFloat32 : reduction.operands[0].buffer->dtype;
    multiply_adds_ = products_of(machine, operands, reduction.dot.has_value()).at(bits);
    pairs_ = reduction.dot && operands == kInt16;
    loads_ = machine.loads.at(bits);
    latency_ = machine.latency;
    line_loads_ = machine.l1_bandwidth / machine.l2_bandwidth;
    weight_loads_ = std::max(1.0, kFills * line_loads_ * bits / static_cast<double>(8 * kLineBytes));
    broadcasts_ = reduction.broadcasts() && !target.broadcasts_operands();
    if (reduction.dot && bits == 512) {
      along_k_ = groups();
      tile_rate_ = along_k_ > 0 ? tile_rate(machine, target, operands, along_k_) : 0;
    }
  }

  std::vector<RegisterTile> tiles() {
    std::vector<int64_t> sizes(variables_.size(), 1);
    enumerate(0, sizes);
    std::stable_sort(tiles_.begin(), tiles_.end(),
                     [](const RegisterTile& a, const RegisterTile& b) { return a.cost < b.cost; });
    // Never empty: the tile of one value each is always among them.
    double limit = tiles_[0].cost * kTolerance;
    while (tiles_.size() > kCandidates || tiles_.back().cost > limit) tiles_.pop_back();
    return std::move(tiles_);
  }

 private:
  /// All sizes of the variables from `position` on, those before being fixed in `sizes`. Sizes only grow the
  /// product, so the first that does not fit the registers ends the loop.
  void enumerate(size_t position, std::vector<int64_t>& sizes) {
    if (position == variables_.size()) {
      // A tile of one vector is allowed on any machine, for something has to be.
      if (registers(sizes) <= target_.vector_registers || product(sizes) == 1 || fits_tile_registers(sizes))
        tiles_.push_back({sizes, cost(sizes)});
      return;
    }
    int64_t extent = steps_of(reduction_, variables_[position], target_);
    for (int64_t size = 1; size <= std::min(extent, kLargestSize); ++size) {
      sizes[position] = size;
      if (size > 1 && has_two_edges(position, sizes)) break;
      if (product(sizes) > std::max<int64_t>(target_.vector_registers, tile_rate_ > 0 ? kMostTiled : 0))
        break;
      if (reduction_.fits[variables_[position]] == Fit::kExact && extent % size != 0) continue;
      if (is_part_of_panel(variables_[position], size)) continue;
      enumerate(position + 1, sizes);
    }
    sizes[position] = 1;
  }

  /// Variable `i` tells results apart that share their weights, or all there are where nothing is weighed.
  bool is_position(size_t i) const {
    if (reduction_.reduces[i] || i == reduction_.vector) return false;
    if (reduction_.operands.size() == 1) return true;
    const bool weighed = reduction_.broadcasts();
    bool shares = false;
    for (size_t o = 0; o < reduction_.operands.size(); ++o)
      shares |= (!weighed || reduction_.is_weight(o)) && !reduction_.operands[o].uses[i];
    return shares;
  }

  /// The tile extends along the position at `last` and along one before it, where it must not.
  bool has_two_edges(size_t last, const std::vector<int64_t>& sizes) const {
    if (edges_ == Edges::kAny || !is_position(variables_[last])) return false;
    for (size_t i = 0; i < last; ++i)
      if (sizes[i] > 1 && is_position(variables_[i])) return true;
    return false;
  }

  /// Panels of weights for few rows are laid out for tiles as wide: of fewer vectors these would leave out
  /// part of each line of a panel, and come back for it later.
  bool is_part_of_panel(size_t variable, int64_t size) const {
    const int64_t vectors = reduction_.run / vector_width(reduction_, target_);
    const bool has_room = 2 * vectors <= target_.vector_registers;  // or there might be no tile at all
    const bool in_panels = vectors > 1 && vectors <= kPanelVectors && has_room &&
                           reduction_.run < reduction_.extents[reduction_.vector];
    return variable == reduction_.vector && in_panels && vectors != size &&
           reduction_.positions() <= kPanelRows;
  }

  int64_t product(const std::vector<int64_t>& sizes) const {
    int64_t result = 1;
    for (int64_t size : sizes) result *= size;
    return result;
  }

  /// Vectors (scalars, of a broadcast operand) loaded in a step.
  int64_t loads(const Operand& operand, const std::vector<int64_t>& sizes) const {
    int64_t result = 1;
    for (size_t i = 0; i < sizes.size(); ++i)
      if (operand.uses[variables_[i]]) result *= sizes[i];
    return result;
  }

  /// Instructions for each vector of an operand: where its lanes lie apart, a dense load for each place
  /// between them, and shuffles of these.
  double load_cost(const Operand& operand) const {
    const int64_t stride = operand.strides[reduction_.vector];
    const bool apart = operand.contiguous && !reduction_.dot && stride > 1 && stride <= kMostLaneStride;
    return apart ? static_cast<double>(2 * stride - 1) : 1;
  }

  /// Of the elements that a step takes of a broadcast operand, those that are not in the first-level cache
  /// when a later step comes to their lines: rows whose length is a multiple of a large power of two.
  double conflicting(const Operand& operand, const std::vector<int64_t>& sizes) const {
    if (operand.contiguous) return 0;
    // The addresses of one step, for all combinations of the tile's rows along which the operand moves.
    std::vector<int64_t> addresses{0};
    for (size_t i = 0; i < sizes.size(); ++i) {
      const int64_t stride = operand.strides[variables_[i]] * operand.buffer->dtype.bytes();
      if (stride == 0) continue;
      const size_t before = addresses.size();
      for (int64_t row = 1; row < sizes[i]; ++row)
        for (size_t a = 0; a < before; ++a) addresses.push_back(addresses[a] + row * stride);
    }
    return conflicting_lines(target_, addresses);
  }

  /// Accumulators, the operand with fewest vectors held, one more for the others, one for products of pairs
  /// before they are added, and those for functions of the sums.
  int64_t registers(const std::vector<int64_t>& sizes) const {
    int64_t held = INT64_MAX;
    for (const Operand& operand : reduction_.operands) held = std::min(held, loads(operand, sizes));
    return product(sizes) + held + (reduction_.operands.size() > 1 ? 1 : 0) + (broadcasts_ ? 1 : 0) +
           (pairs_ ? 1 : 0) + (reduction_.into_functions && !broadcasts_ ? kOfFunctions : 0);
  }

  /// Groups of neighbours that lie one behind the other along the reduction, in the operand that is
  /// broadcast.
  int64_t groups() const {
    int64_t result = 0;
    for (size_t i = 0; i < reduction_.extents.size(); ++i)
      for (const Operand& operand : reduction_.operands)
        if (reduction_.reduces[i] && i != *reduction_.dot && !operand.contiguous &&
            operand.strides[i] == reduction_.extents[*reduction_.dot])
          result = std::max(result, reduction_.extents[i]);
    return result;
  }

  /// Rows of the tile, where tile registers can take it: results that share their weights, equally far apart.
  int64_t rows(const std::vector<int64_t>& sizes) const {
    int64_t result = 1;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] == 1 || variables_[i] == reduction_.vector) continue;
      if (result > 1 || !is_position(variables_[i])) return 0;
      result = sizes[i];
    }
    return result;
  }

  /// Of eight: the sums, and at least one for each operand, in a shorter last step another.
  bool fits_tile_registers(const std::vector<int64_t>& sizes) const {
    const int64_t height = rows(sizes);
    if (tile_rate_ == 0 || height == 0 || !tiles_pay(reduction_.operands[0].buffer->dtype, height, along_k_))
      return false;
    const int64_t operands = along_k_ % kTileRows == 0 || along_k_ < kTileRows ? 2 : 4;
    return parts(height) * (product(sizes) / height) + operands <= kTileRegisters;
  }
  /// Tiles for so many rows, or groups.
  static int64_t parts(int64_t rows) { return (rows + kTileRows - 1) / kTileRows; }

  /// Products, and what of operands comes from the caches meanwhile.
  double cost_in_tile_registers(const std::vector<int64_t>& sizes) const {
    const auto results = static_cast<double>(product(sizes)), height = static_cast<double>(rows(sizes));
    const double columns = results / height, products = static_cast<double>(parts(rows(sizes))) * columns;
    const double loaded = height + kTileRows * columns * weight_loads_;
    const double steps = static_cast<double>(parts(along_k_)) * steps_ / static_cast<double>(along_k_);
    // The rate is that of tiles as far as they are filled.
    const double step = std::max(products * kTileRows * steps_ / steps / tile_rate_, loaded / loads_);
    // Sums go through memory before and after.
    const double moved = 3 * results + 2 * kTileRows * products;
    return (step + (kTileOverhead + moved) / steps) * steps / steps_ / results;
  }

  /// Mean over the tiles: lowering gives those at an edge code of their own, for the smaller tile they are.
  double cost(const std::vector<int64_t>& sizes) const {
    std::vector<int64_t> actual = sizes;
    return mean_cost(0, actual);
  }

  /// The mean over a variable's whole tiles and the one at its edge, weighted by the values they cover;
  /// recursively over the variables from `position` on. At most 2^3 leaves, as there are three tiled
  /// variables at most.
  double mean_cost(size_t position, std::vector<int64_t>& sizes) const {
    if (position == variables_.size()) return tile_cost(sizes);
    int64_t extent = steps_of(reduction_, variables_[position], target_), size = sizes[position];
    double cost = mean_cost(position + 1, sizes);
    if (int64_t rest = extent % size) {
      sizes[position] = rest;
      double edge = static_cast<double>(rest) / static_cast<double>(extent);
      cost = kEdge * (cost * (1 - edge) + mean_cost(position + 1, sizes) * edge);
      sizes[position] = size;
    }
    return cost;
  }

  /// Cycles of multiply-adds and of loads that are as many instructions: the nearer the two, the more each
  /// waits for the other. Fitted to loops of 1x10 to 1x14, 2x5, 2x6 and 3x4 vectors on Zen 3, within 5%.
  static double together(double multiply_adds, double loads) {
    return std::sqrt(std::hypot(multiply_adds * multiply_adds, loads * loads));
  }

  /// Cycles for one vector of results and one step, in the registers that code generation takes.
  double tile_cost(const std::vector<int64_t>& sizes) const {
    return fits_tile_registers(sizes) ? cost_in_tile_registers(sizes) : cost_in_vectors(sizes);
  }

  /// The slowest of three counts: multiply-adds, loads, and the latency of an accumulator's chain of
  /// additions, which a tile of too few results waits for.
  double cost_in_vectors(const std::vector<int64_t>& sizes) const {
    auto results = static_cast<double>(product(sizes));
    double loaded = 0;
    for (size_t o = 0; o < reduction_.operands.size(); ++o)
      loaded += static_cast<double>(loads(reduction_.operands[o], sizes)) *
                    (reduction_.is_weight(o) ? weight_loads_ : load_cost(reduction_.operands[o])) +
                conflicting(reduction_.operands[o], sizes) * (line_loads_ - 1);
    double cycles = std::max({results / multiply_adds_, loaded / loads_, latency_});
    cycles = broadcasts_ ? std::max(cycles, together(results / multiply_adds_, loaded / loads_))
                         : cycles + kContention * loaded / loads_;
    return (cycles + kTileOverhead / steps_) / results;
  }

  const VectorReduction& reduction_;
  const Target& target_;
  Edges edges_;
  std::vector<size_t> variables_;
  double steps_;
  double multiply_adds_, loads_;  // a cycle
  double latency_;
  double tile_rate_ = 0;  // multiply_adds_ in tile registers; 0: there are none for it
  int64_t along_k_ = 0;   // groups of neighbours that such a tile goes along
  double line_loads_;     // that hit the first-level cache, for one that brings in its line
  double weight_loads_;   // for each of weights
  bool broadcasts_;       // by instructions of their own
  bool pairs_;            // are added by an instruction of their own
  std::vector<RegisterTile> tiles_;
};
}  // namespace

std::vector<RegisterTile> register_tiles(const VectorReduction& reduction, const Target& target,
                                         Edges edges) {
  return Model(reduction, target, edges).tiles();
}

}  // namespace lathe::schedule
