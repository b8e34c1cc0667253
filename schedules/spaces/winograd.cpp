// Schedules of convolutions after `winograd`:
//
//   parallel for bands:                                  all that a band needs stays in the second-level
//   cache
//     frame of the band                                  padding
//     for tiles: rows, tiles                             input transforms, unrolled, vectors of channels
//     for products i, j: a matrix product                register tiles, as of any contraction
//     for tiles: columns, result and what follows it     output transforms, unrolled, vectors of channels
//
// or, with one band, the same stages one after the other, each parallel: then every weight is read once. The
// weight's own transforms depend on nothing else, so they are done when a model is built (tir/prologue.h).
#include <algorithm>
#include <cmath>

#include "core/support/error.h"
#include "core/tir/prologue.h"
#include "schedules/convolution.h"
#include "schedules/cook_toom.h"
#include "schedules/spaces/building_blocks.h"
#include "schedules/tile_model.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// What one core does in a cycle, roughly: the choice among tile sizes needs no more.
constexpr double kMultiplyAddsPerCycle = 2 * 0.85, kFarBytesPerCycle = 6, kNearBytesPerCycle = 40;
/// Vector instructions of a transform that a cycle sees, loads and stores included.
constexpr double kTransformsPerCycle = 1.2;
/// Larger tiles lose more digits than a default should (cook_toom.h).
constexpr int64_t kMostProductsByDefault = 6, kMostProductsTried = 8;
/// The model's error: without a measurement, the direct algorithm stays unless this is much faster.
constexpr double kWorthwhile = 0.85;
/// Bytes of tiles and products in a band: they are to stay in the second-level cache, and on the stack.
constexpr double kBandBytes = 2.0 * (1 << 20);

/// One way to cut a convolution into tiles, and its estimated cycles on one core.
struct Tiles {
  int64_t rows, columns, band;
  double cycles;
};

class TileModel {
 public:
  TileModel(const Convolution& c, const Target& target) : c_(c), target_(target) {
    for (const BlockIter& iter : c.block->iters) {
      auto extent = static_cast<double>(int_value(iter.extent));
      bool windowed = false;
      for (const Window& w : c.windows) windowed |= iter.var == w.position || iter.var == w.tap;
      if (windowed) continue;
      bool reads = std::any_of(c.data->indices.begin(), c.data->indices.end(),
                               [&](const Expr& index) { return uses_var(index, iter.var.get()); });
      (reads ? in_ : out_) *= extent;
    }
  }

  /// Fastest first.
  std::vector<Tiles> ranked(int64_t most_products) const {
    std::vector<Tiles> result;
    std::vector<int64_t> rows = sizes(c_.windows[0], most_products),
                         columns = sizes(c_.windows[1], most_products);
    for (int64_t r : rows)
      for (int64_t m : columns) {
        if (r == 1 && m == 1) continue;
        int64_t tiles = (c_.windows[0].positions + r - 1) / r;
        for (int64_t band = 1; band <= tiles; ++band) {
          // The fewest rows of tiles for each number of bands.
          if (int64_t bands = (tiles + band - 1) / band; (tiles + bands - 1) / bands != band) continue;
          if (std::optional<double> cost = cycles(r, m, band)) result.push_back({r, m, band, *cost});
        }
      }
    std::stable_sort(result.begin(), result.end(),
                     [](const Tiles& a, const Tiles& b) { return a.cycles < b.cycles; });
    return result;
  }

  double direct_cycles() const {
    double products = in_ * out_;
    for (const Window& w : c_.windows) products *= static_cast<double>(w.positions * w.taps);
    double weights = in_ * out_ * bytes() * static_cast<double>(c_.windows[0].taps * c_.windows[1].taps);
    return overlapped(products / lanes() / kMultiplyAddsPerCycle, weights / kFarBytesPerCycle);
  }

 private:
  /// Computing and waiting for memory overlap by about half.
  static double overlapped(double a, double b) { return std::max(a, b) + 0.5 * std::min(a, b); }
  double lanes() const { return target_.lanes(); }
  double bytes() const { return c_.data->dtype.bytes(); }

  std::vector<int64_t> sizes(const Window& w, int64_t most_products) const {
    std::vector<int64_t> result;
    for (int64_t m = 1; m + w.taps - 1 <= std::max(most_products, w.taps) && m <= w.positions + 1; ++m)
      if (w.taps > 1 || m == 1) result.push_back(m);
    return result;
  }

  std::optional<double> cycles(int64_t rows, int64_t columns, int64_t band) const {
    double tile_rows = std::ceil(static_cast<double>(c_.windows[0].positions) / static_cast<double>(rows));
    double tile_columns =
        std::ceil(static_cast<double>(c_.windows[1].positions) / static_cast<double>(columns));
    auto high = static_cast<double>(rows + c_.windows[0].taps - 1);
    auto wide = static_cast<double>(columns + c_.windows[1].taps - 1);
    double bands = std::ceil(tile_rows / static_cast<double>(band));
    double tiles = static_cast<double>(band) * tile_columns;  // of a band
    double points = high * wide, vectors = bands * tiles / lanes();
    double multiply = vectors * points * in_ * out_ / kMultiplyAddsPerCycle;
    // A transform takes about half a product a row, of twice as many rows.
    double input = vectors * in_ * points * (high + wide) * 0.4 / kTransformsPerCycle;
    double output = vectors * out_ * high * (wide + static_cast<double>(columns)) * 0.4 *
                    static_cast<double>(rows + columns) / 2 / kTransformsPerCycle;
    double kept = points * tiles * (in_ + out_) * bytes(), weights = points * in_ * out_ * bytes();
    if (bands > 1 && kept > kBandBytes) return {};
    auto cache = static_cast<double>(target_.l2_bytes);
    auto rate = [&](double size) { return size > cache * 0.8 ? kFarBytesPerCycle : kNearBytesPerCycle; };
    double traffic = bands * kept * 2 / rate(kept);
    double weight_times = bands > 1 && kept + weights > cache * 0.8 ? bands : 1;
    traffic += weights * weight_times / kFarBytesPerCycle;
    double total = overlapped(multiply, traffic) + input + output;
    auto cores = static_cast<double>(target_.cores);
    if (bands > 1) total *= std::ceil(bands / cores) * cores / bands;  // cores wait for the last band
    return total;
  }

  const Convolution& c_;
  const Target& target_;
  double in_ = 1, out_ = 1;  // channels, and what else there is besides the windows
};

class WinogradSchedule {
 public:
  WinogradSchedule(Schedule& schedule, const Target& target) : s_(schedule), target_(target) {}

  void apply(BlockHandle convolution, const std::vector<Tiles>& candidates, Decide decide) {
    Convolution c = convolution_of(s_[convolution]);
    for (size_t w = 0; w < 2; ++w) out_dims_[w] = c.windows[w].out_dim;
    std::vector<int64_t> table;
    for (const Tiles& t : candidates) table.insert(table.end(), {t.rows, t.columns, t.band});
    std::vector<IntHandle> sizes =
        s_.sample_tuple(3, table, decide == Decide::kHeuristic ? Decision{0} : Decision{});
    rows_ = sizes[0];
    columns_size_ = sizes[1];
    std::vector<BlockHandle> b = s_.winograd(convolution, sizes);
    frame_ = b[0], rows_block_ = b[1], tiles_ = b[2], columns_ = b[6], result_ = b[7];
    fuse_transform(b[3], b[4], 0, /*parallel=*/true);
    merge_neighbours();
    auto reduction = vector_reduction(s_[b[5]]);
    if (!reduction || vector_width(*reduction, target_) == 1)
      fail("winograd: the products do not vectorize along their last dimension");
    bool banded = int_value(s_[s_.get_loops(tiles_)[0]]->extent) > 1;
    ProductNest products = schedule_product(s_, *reduction, target_, decide, banded);
    done_.merge(products.done);
    band_ = products.band;
    if (band_) move_into_band();
    transform_input();
    transform_output();
  }

  std::set<std::string> done() const { return done_; }

 private:
  void note(BlockHandle block) { done_.insert(s_[block]->name); }

  /// The last `count` loops around a block: its own, wherever it moved.
  std::vector<LoopHandle> own_loops(BlockHandle block, size_t count) {
    std::vector<LoopHandle> loops = s_.get_loops(block);
    return {loops.end() - static_cast<int64_t>(count), loops.end()};
  }

  void vectorize_last(const std::vector<LoopHandle>& loops) {
    int64_t extent = int_value(s_[loops.back()]->extent);
    if (extent > 1 && extent <= target_.lanes()) s_.vectorize(loops.back());
  }

  /// One stage of a two-dimensional transform at the point where the other needs it.
  void finish_stage(BlockHandle block, const std::vector<LoopHandle>& loops, size_t unrolled) {
    for (size_t i = 0; i < unrolled; ++i) s_.unroll(loops[i]);
    vectorize_last(loops);
    note(block);
  }

  /// second[i, j, rest.., lanes] from first[i, k, rest.., lanes]: both for one point of `rest` at a time.
  void fuse_transform(BlockHandle first, BlockHandle second, size_t leading, bool parallel) {
    size_t rank = s_[second]->iters.size();
    std::vector<LoopHandle> loops = own_loops(second, rank);
    std::vector<LoopHandle> order, outer(loops.begin(), loops.begin() + static_cast<int64_t>(leading));
    outer.insert(outer.end(), loops.begin() + static_cast<int64_t>(leading) + 2, loops.end() - 1);
    order = outer;
    order.insert(order.end(), {loops[leading], loops[leading + 1], loops.back()});
    s_.reorder(order);
    s_.compute_at(first, outer.back());
    s_.set_scope(first, 0, Scope::kLocal);
    finish_stage(first, own_loops(first, s_[first]->iters.size()), 2);
    finish_stage(second, {loops[leading], loops[leading + 1], loops.back()}, 2);
    if (parallel) run_parallel(s_, {outer.begin(), outer.end() - 1}, target_);
  }

  /// Padding moves into the frame; the frame vanishes when it adds nothing; the result joins what follows it.
  void merge_neighbours() {
    for (const Ref<Block>& producer : producers_of(s_.func(), s_[frame_]))
      if (is_injective(*producer) && !is_param(s_.func(), producer->writes[0].buffer) &&
          consumers_of(s_.func(), producer).size() == 1)
        s_.compute_inline(s_.get_block(producer->name));
    framed_ = !s_[frame_]->body.as<Store>()->value.as<Load>();
    if (!framed_) s_.compute_inline(frame_);
    Ref<Block> result = s_[result_];
    std::vector<Ref<Block>> consumers = consumers_of(s_.func(), result);
    if (consumers.size() == 1 && continues(*result, *consumers[0])) {
      BlockHandle next = s_.get_block(consumers[0]->name);
      s_.compute_inline(result_);
      result_ = next;
    }
  }

  /// `next` is element-wise, in the same order of dimensions.
  static bool continues(const Block& result, const Block& next) {
    const Store* store = next.body.as<Store>();
    const Buffer& buffer = result.writes[0].buffer;
    if (!is_injective(next) || next.iters.size() != result.iters.size()) return false;
    bool same = store->indices.size() == buffer->shape.size() && next.iters.size() == store->indices.size();
    for (size_t d = 0; same && d < store->indices.size(); ++d)
      same = store->indices[d].same_as(next.iters[d].var.get()) &&
             structural_equal(next.iters[d].extent, buffer->shape[d]);
    post_order(store->value, [&](const NodeRef& node) {
      const Load* load = node.as<Load>();
      for (size_t d = 0; same && load && load->buffer == buffer && d < load->indices.size(); ++d)
        same = load->indices[d].same_as(store->indices[d].get());
    });
    return same;
  }

  void move_into_band() {
    s_.compute_at(tiles_, *band_);
    if (framed_) s_.compute_at(rows_block_, *band_), s_.compute_at(frame_, *band_);
    s_.reverse_compute_at(columns_, *band_);
    s_.reverse_compute_at(result_, *band_);
  }

  void transform_input() {
    fuse_transform(rows_block_, tiles_, 1, /*parallel=*/!band_);
    if (!framed_) return;
    note(frame_);
    if (band_)
      vectorize_last(own_loops(frame_, s_[frame_]->iters.size()));
    else
      schedule_injective(s_, frame_, target_);
  }

  void transform_output() {
    size_t rank = s_[result_]->iters.size();
    std::vector<LoopHandle> loops = own_loops(result_, rank), outer, inner;
    for (size_t d = 0; d + 1 < rank; ++d) {
      if (d != out_dims_[0] && d != out_dims_[1]) {
        outer.push_back(loops[d]);
        continue;
      }
      std::vector<LoopHandle> parts =
          s_.split(loops[d], {kInferred, d == out_dims_[0] ? rows_ : columns_size_});
      outer.push_back(parts[0]);
      inner.push_back(parts[1]);
    }
    std::vector<LoopHandle> order = outer;
    order.insert(order.end(), inner.begin(), inner.end());
    order.push_back(loops.back());
    s_.reorder(order);
    s_.compute_at(columns_, outer.back());
    s_.set_scope(columns_, 0, Scope::kLocal);
    finish_stage(columns_, own_loops(columns_, s_[columns_]->iters.size()), 2);
    inner.push_back(loops.back());
    finish_stage(result_, inner, 2);
    if (!band_) run_parallel(s_, {outer.begin(), outer.end() - 1}, target_);
  }

  Schedule& s_;
  const Target& target_;
  BlockHandle frame_, rows_block_, tiles_, columns_, result_;
  IntHandle rows_, columns_size_;
  std::optional<LoopHandle> band_;
  bool framed_ = false;
  std::array<size_t, 2> out_dims_{};
  std::set<std::string> done_;
};

/// The convolution that dominates the program once element-wise blocks are merged.
std::optional<Convolution> main_convolution(const Func& func) {
  Schedule merged(func);
  inline_elementwise(merged);
  Ref<Block> block = dominant_reduction(merged.func());
  if (!block) return std::nullopt;
  try {
    Convolution c = convolution_of(block);
    // Else its transforms would be computed at every run.
    for (size_t i = 0; i < func->params.size(); ++i)
      if (func->params[i] == c.weight->buffer && (i >= kMaxMarkedParams || !(constant_params(func) >> i & 1)))
        return std::nullopt;
    auto last = [](const std::vector<Expr>& indices) { return indices.size() - 1; };
    for (const Window& w : c.windows)
      if (w.data_dim == last(c.data->indices) || w.out_dim == last(c.update->indices) ||
          w.weight_dim == last(c.weight->indices))
        return std::nullopt;
    return c;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::vector<Tiles> candidates(const Convolution& c, const Target& target, Decide decide) {
  constexpr size_t kMost = 24;
  constexpr double kTolerance = 1.5;
  TileModel model(c, target);
  std::vector<Tiles> ranked =
      model.ranked(decide == Decide::kHeuristic ? kMostProductsByDefault : kMostProductsTried);
  double limit = ranked.empty() ? 0 : ranked[0].cycles * kTolerance;
  while (!ranked.empty() && (ranked.size() > kMost || ranked.back().cycles > limit)) ranked.pop_back();
  if (decide == Decide::kHeuristic && !ranked.empty() &&
      ranked[0].cycles > kWorthwhile * model.direct_cycles())
    ranked.clear();
  return ranked;
}
}  // namespace

bool has_winograd(const Func& func, const Target& target) {
  auto c = main_convolution(func);
  return c && target.lanes() > 1 && !candidates(*c, target, Decide::kRandom).empty();
}

void generate_winograd(Schedule& schedule, const Target& target, Decide decide) {
  auto c = main_convolution(schedule.func());
  CHECK(c, "the space of winograd was asked to schedule another program");
  inline_elementwise(schedule);
  std::vector<Tiles> choices = candidates(*c, target, decide);
  if (choices.empty()) fail("winograd: no tile is worth it");
  WinogradSchedule winograd(schedule, target);
  winograd.apply(schedule.get_block(c->block->name), choices, decide);
  schedule_rest(schedule, target, winograd.done());
}

}  // namespace lathe::schedule
