#include "schedules/winograd_tiles.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/tir/machine.h"
#include "schedules/spaces/building_blocks.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// Of the multiply-adds that a core can do, those that register tiles achieve; of several products at once,
/// which take fewer steps between loading and storing their sums.
constexpr double kEfficiency = 0.85, kEfficiencyOfDots = 0.72;
/// Of the rate of one stream, that of the weights of all points, each a stream of its own.
constexpr double kManyStreams = 6.0 / 7;
/// Of the rates of reading, those of tiles and products, which are written and read: in the second-level
/// cache partly at the same time; beyond it, what is written is fetched first. (Fitted, as the one above.)
constexpr double kWritesBeside = 1.25, kWritesFetch = 0.6;
/// The part of the second-level cache that a band keeps, fitted with them: nothing else is read meanwhile but
/// weights.
constexpr double kL2OfBands = 0.8;
/// What a core may count on of the third-level cache, which it shares with it is not known whom.
constexpr double kShareOfL3 = 8.0 * (1 << 20);
/// Vector instructions of a transform that a cycle sees, loads and stores included.
constexpr double kTransformsPerCycle = 1.2;
/// Larger tiles lose more digits than a default should (cook_toom.h). Along one axis alone errors grow once,
/// not once an axis: eight products lose no more than six by six.
constexpr int64_t kMostProductsByDefault = 6, kMostProductsTried = 8, kMostProductsOfOneAxis = 8;
/// Cycles to begin and end the products of a band at one point for a vector of outputs.
constexpr double kPartCycles = 20;
/// The model's error: without a measurement, the direct algorithm stays unless this is much faster, and with
/// one it need not be asked when this is much slower.
constexpr double kWorthwhile = 0.85, kHopeless = 1.25;
/// Bytes of tiles and products in a band, which are on the stack.
constexpr double kBandBytes = 2.0 * (1 << 20);

class Model {
 public:
  Model(const Convolution& c, const Target& target, const Policy& policy, bool is_open)
      : c_(c), target_(target), policy_(policy), machine_(machine_of(target)) {
    if (const std::optional<size_t> dim = image_dim(c); dim && !is_open)
      images_ = static_cast<double>(int_value(c.update->buffer->shape[*dim]));
    for (const BlockIter& iter : c.block->iters) {
      bool windowed = false;
      for (const Window& w : c.windows) windowed |= iter.var == w.position || iter.var == w.tap;
      if (windowed) continue;
      auto count = [&](double& elements, const std::vector<Expr>& indices) {
        if (any_uses(indices, iter.var)) elements *= static_cast<double>(int_value(iter.extent));
      };
      products_ *= static_cast<double>(int_value(iter.extent));
      count(inputs_, c.data->indices);
      count(weights_, c.weight->indices);
      count(outputs_, c.update->indices);
    }
    if (dot_product(*c.block))
      products_at_once_ = static_cast<double>(int_value(c.block->iters.back().extent));
  }

  /// Fastest first.
  std::vector<WinogradTiles> ranked(int64_t most_products) const {
    std::vector<WinogradTiles> result;
    const int64_t most_of_one = std::max(most_products, kMostProductsOfOneAxis);
    std::vector<int64_t> rows = sizes(c_.windows[0], most_of_one),
                         columns = sizes(c_.windows[1], most_of_one);
    for (int64_t r : rows)
      for (int64_t m : columns) {
        if (r == 1 && m == 1) continue;
        const std::array<Filtering, 2> tile = tile_of(c_, r, m);
        if (r > 1 && m > 1 &&
            std::max(tile[0].products_of_a_phase(), tile[1].products_of_a_phase()) > most_products)
          continue;
        int64_t tiles = (int_value(c_.windows[0].positions) + r - 1) / r;
        for (int64_t band = 1; band <= tiles; ++band) {
          // The fewest rows of tiles for each number of bands.
          if (int64_t bands = (tiles + band - 1) / band; (tiles + bands - 1) / bands != band) continue;
          for (const bool of_one_image : {false, true}) {
            if (of_one_image && images_ == 1) continue;
            if (std::optional<double> cost = cycles(r, m, band, of_one_image ? images_ : 1))
              result.push_back({r, m, band, of_one_image, *cost});
          }
        }
      }
    std::stable_sort(result.begin(), result.end(),
                     [](const WinogradTiles& a, const WinogradTiles& b) { return a.cycles < b.cycles; });
    return result;
  }

  double direct_cycles() const {
    double products = products_ / products_at_once_;
    for (const Window& w : c_.windows) products *= static_cast<double>(int_value(w.positions) * w.taps);
    double weights = weights_ * bytes() * static_cast<double>(c_.windows[0].taps * c_.windows[1].taps);
    return overlapped(products / lanes() / direct_rate(), weights / weight_rate());
  }

 private:
  /// Computing and waiting for memory overlap by about half.
  static double overlapped(double a, double b) { return std::max(a, b) + 0.5 * std::min(a, b); }
  /// Bytes a cycle.
  double weight_rate() const { return memory_rate(target_) * kManyStreams; }
  /// The same for tiles and products of that size.
  double band_rate(double bytes) const {
    if (stays_in_l2(target_, bytes, kL2OfBands)) return machine_.l2_bandwidth * kWritesBeside;
    // Of products that are as many as tiles, each fits alone: what the others put out comes back in streams.
    if (stays_in_l2(target_, bytes / 2, kAllOfL2)) return machine_.l3_bandwidth * kWritesFetch;
    return (bytes > kShareOfL3 ? std::min(memory_rate(target_), l3_rate(machine_)) : l3_rate(machine_)) *
           kWritesFetch;
  }
  /// Vectors of multiply-adds a cycle.
  double rate_of(DataType operand, double at_once) const {
    const double efficiency = at_once > 1 ? kEfficiencyOfDots : kEfficiency;
    return efficiency * products_of(machine_, operand, at_once > 1).at(target_.vector_bits);
  }
  /// Of sums of windows: in tile registers, too, where data lies in blocks of channels.
  double direct_rate() const {
    const double in_vectors = rate_of(c_.data->dtype, products_at_once_);
    if (products_at_once_ == 1) return in_vectors;
    const int64_t groups = int_value(c_.data->buffer->shape.back()) / static_cast<int64_t>(products_at_once_);
    return std::max(in_vectors, kReachedOfTiles * tile_rate(machine_, target_, c_.data->dtype, groups));
  }
  double lanes() const { return target_.lanes(); }
  double bytes() const { return c_.data->dtype.bytes(); }

  std::vector<int64_t> sizes(const Window& w, int64_t most_products) const {
    std::vector<int64_t> result;
    for (Filtering f{1, w.taps, w.stride}; f.outputs <= int_value(w.positions) + 1; ++f.outputs) {
      if (f.outputs > 1 && (w.taps <= w.stride || f.products_of_a_phase() > most_products)) break;
      if (f.products() <= kMostProducts) result.push_back(f.outputs);
    }
    return result;
  }

  /// `parts`: of the batch, each of which has bands of its own.
  std::optional<double> cycles(int64_t rows, int64_t columns, int64_t band, double parts) const {
    const double all_products = products_ / parts, inputs = inputs_ / parts, outputs = outputs_ / parts;
    auto tiles_along = [&](size_t w, int64_t outputs) {
      return std::ceil(static_cast<double>(int_value(c_.windows[w].positions)) /
                       static_cast<double>(outputs));
    };
    double tile_rows = tiles_along(0, rows), tile_columns = tiles_along(1, columns);
    std::array<Filtering, 2> tile = tile_of(c_, rows, columns);
    auto high = static_cast<double>(tile[0].products()), wide = static_cast<double>(tile[1].products());
    double bands = std::ceil(tile_rows / static_cast<double>(band)) * parts;
    double tiles = static_cast<double>(band) * tile_columns;  // of a band
    double points = high * wide, vectors = bands * tiles / lanes();
    const DataType sum = c_.update->buffer->dtype, data = stored_type(c_.data->dtype, sum, tile),
                   weight = stored_type(c_.weight->dtype, sum, tile);
    const double at_once = data == c_.data->dtype ? products_at_once_ : 1;
    double multiply = vectors * points * all_products / at_once / rate_of(data, at_once);
    // A transform takes about half a product a row, of twice as many rows; phases have their own inputs.
    double phase_inputs =
        high / static_cast<double>(tile[0].stride) + wide / static_cast<double>(tile[1].stride);
    double input = vectors * inputs * points * phase_inputs * 0.4 / kTransformsPerCycle;
    // They are vectors along the data's last dimension, the last of which may be short.
    auto last = static_cast<double>(int_value(c_.data->buffer->shape.back()));
    input *= std::ceil(last / lanes()) * lanes() / last;
    double output = vectors * outputs * high * (wide + static_cast<double>(columns)) * 0.4 *
                    static_cast<double>(rows + columns) / 2 / kTransformsPerCycle;
    double kept = points * tiles * (inputs * data.bytes() + outputs * sum.bytes());
    double weights = points * weights_ * weight.bytes();
    if (bears_rounding(tile) && may_be_half(weight, static_cast<int64_t>(weights), target_, policy_))
      weights /= 2;
    if (bands > 1 && kept > kBandBytes) return {};
    double traffic = bands * kept * 2 / band_rate(kept);
    traffic += weights / weight_rate();
    // Bands after the first find them in a cache further out, if they are not too many.
    if (bands > 1 && !stays_in_l2(target_, kept + weights, kL2OfBands)) {
      const double rate =
          std::max(weight_rate(), weights > kShareOfL3 ? 0 : l3_rate(machine_) * kManyStreams);
      traffic += weights * (bands - 1) / rate;
    }
    double total = overlapped(multiply, traffic) + input + output;
    if (bands > 1) total += bands * points * outputs / lanes() * kPartCycles;
    auto cores = static_cast<double>(target_.cores);
    if (bands > 1) total *= std::ceil(bands / cores) * cores / bands;  // cores wait for the last band
    return total;
  }

  const Convolution& c_;
  const Target& target_;
  const Policy& policy_;
  const MachineModel& machine_;
  // Of one place and one tap: all products, and the elements of each operand. Images of a batch have the same
  // weights, groups have their own.
  double products_ = 1, inputs_ = 1, weights_ = 1, outputs_ = 1;
  double products_at_once_ = 1;
  double images_ = 1;  // that may have bands of their own
};

}  // namespace

std::array<Filtering, 2> tile_of(const Convolution& c, int64_t rows, int64_t columns) {
  return {
      {{rows, c.windows[0].taps, c.windows[0].stride}, {columns, c.windows[1].taps, c.windows[1].stride}}};
}

std::optional<size_t> image_dim(const Convolution& c) {
  for (size_t d = 0; d < c.update->indices.size(); ++d) {
    const Expr& index = c.update->indices[d];
    const auto* var = index.as<VarNode>();
    if (var && !is_int(c.update->buffer->shape[d], 1) && var != c.windows[0].position.get() &&
        var != c.windows[1].position.get() && any_uses(c.data->indices, index.cast<VarNode>()) &&
        !any_uses(c.weight->indices, index.cast<VarNode>()))
      return d;
  }
  return std::nullopt;
}

std::vector<WinogradTiles> winograd_tiles(const Convolution& c, const Target& target, const Policy& policy,
                                          bool is_open) {
  constexpr size_t kMost = 24;
  constexpr double kTolerance = 1.5;
  Model model(c, target, policy, is_open);
  std::vector<WinogradTiles> ranked =
      model.ranked(policy.decide == Decide::kHeuristic ? kMostProductsByDefault : kMostProductsTried);
  double limit = ranked.empty() ? 0 : ranked[0].cycles * kTolerance;
  while (!ranked.empty() && (ranked.size() > kMost || ranked.back().cycles > limit)) ranked.pop_back();
  double most = policy.decide == Decide::kHeuristic ? kWorthwhile : kHopeless;
  if (!ranked.empty() && ranked[0].cycles > most * model.direct_cycles()) ranked.clear();
  return ranked;
}

}  // namespace lathe::schedule
