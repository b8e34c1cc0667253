// Schedules of convolutions after `winograd`:
//
//   parallel for images, bands:                          what a band needs stays in the second-level cache
//     frame of the band                                  padding
//     for tiles: rows, tiles                             input transforms, unrolled, vectors of channels
//     for products i, j: a matrix product                register tiles, as of any contraction
//     for tiles: columns, result and what follows it     output transforms, unrolled, vectors of channels
//
// or, with one band, the same stages one after the other, each parallel: then every weight is read once. The
// weight's own transforms depend on nothing else, so they are done when a model is built (tir/prologue.h).
#include <algorithm>

#include "core/support/error.h"
#include "core/tir/prologue.h"
#include "schedules/family.h"
#include "schedules/spaces/building_blocks.h"
#include "schedules/tile_model.h"
#include "schedules/winograd_tiles.h"

namespace lathe::schedule {

using namespace tir;

namespace {
class WinogradSchedule {
 public:
  WinogradSchedule(Schedule& schedule, const Target& target) : s_(schedule), target_(target) {}

  void apply(BlockHandle convolution, const std::vector<WinogradTiles>& candidates, const Policy& policy) {
    Convolution c = convolution_of(s_[convolution]);
    for (size_t w = 0; w < 2; ++w) out_dims_[w] = c.windows[w].out_dim;
    std::vector<int64_t> table;
    // Images are told apart only where there are several.
    const bool has_parts = std::ranges::any_of(candidates, &WinogradTiles::of_one_image);
    // As many rows as there are at typical sizes are many too many at others.
    const bool is_open = is_for_typical_dims(*s_.func());
    auto band_of = [&](const WinogradTiles& t) {
      return is_open && t.band * t.rows >= int_value(c.windows[0].positions) ? 0 : t.band;
    };
    for (const WinogradTiles& t : candidates) {
      table.insert(table.end(), {t.rows, t.columns, band_of(t)});
      if (has_parts) table.push_back(t.of_one_image ? 1 : 0);
    }
    std::vector<IntHandle> sizes = s_.sample_tuple(
        has_parts ? 4 : 3, table, policy.decide == Decide::kHeuristic ? Decision{0} : Decision{});
    const bool of_one_image = has_parts && s_[sizes[3]] == 1;
    sizes.resize(3);
    rows_ = sizes[0];
    columns_ = sizes[1];
    b_ = s_.winograd(convolution, sizes);
    // The weight's transform is scheduled alone: it goes to the prologue, and the rest reads what it made.
    fuse_transform(b_.kernel_rows, b_.kernel, 0, /*parallel=*/true);
    const Buffer& kernel = s_[b_.kernel]->writes[0].buffer;
    if (bears_rounding(tile_of(c, s_[rows_], s_[columns_])) &&
        may_be_half(kernel->dtype, byte_size(kernel), target_, policy))
      sample_half_storage(s_, {b_.kernel}, /*preferred=*/true, policy.decide);
    merge_neighbours();
    auto reduction = vector_reduction(s_[b_.products]);
    if (!reduction || vector_width(*reduction, target_) == 1)
      fail("winograd: the products do not vectorize along their last dimension");
    // One band is no loop to compute anything in.
    size_t banded = int_value(s_[s_.get_loops(b_.tiles)[0]]->extent) > 1 ? 1 : 0;
    if (of_one_image) {
      // Behind the band and the two numbers of a product stand the dimensions of the result.
      const size_t image = 3 + image_dim(c).value();
      reduction->outermost = image;
      reduction->fits[image] = Fit::kSingle;
      ++banded;
    }
    ProductNest products = schedule_product(s_, *reduction, target_, policy, banded);
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

  /// second[i, j, rest.., lanes] from first[i, k, rest.., lanes]: both for one vector of one point of `rest`
  /// at a time.
  void fuse_transform(BlockHandle first, BlockHandle second, size_t leading, bool parallel) {
    size_t rank = s_[second]->iters.size();
    std::vector<LoopHandle> loops = own_loops(second, rank);
    // All but the transform's own two dimensions and the lanes are outside.
    std::vector<LoopHandle> order, outer(loops.begin(), loops.begin() + static_cast<int64_t>(leading));
    outer.insert(outer.end(), loops.begin() + static_cast<int64_t>(leading) + 2, loops.end() - 1);
    if (int64_t extent = int_value(s_[loops.back()]->extent); extent > target_.lanes()) {
      std::vector<LoopHandle> parts = s_.split(loops.back(), {kInferred, row_width(extent, target_)});
      outer.push_back(parts[0]);
      loops.back() = parts[1];
    }
    order = outer;
    order.insert(order.end(), {loops[leading], loops[leading + 1], loops.back()});
    s_.reorder(order);
    // The first stage computes what the second needs of it there, in registers: both matrices are unrolled.
    s_.compute_at(first, outer.back());
    s_.set_scope(first, 0, Scope::kLocal);
    finish_stage(first, own_loops(first, s_[first]->iters.size()), 2);
    finish_stage(second, {loops[leading], loops[leading + 1], loops.back()}, 2);
    if (parallel) run_parallel(s_, {outer.begin(), outer.end() - 1}, target_);
  }

  /// Padding moves into the frame; the frame vanishes when it adds nothing; the result joins what follows it.
  void merge_neighbours() {
    inline_producers(s_, b_.frame);
    framed_ = !s_[b_.frame]->body.as<Store>()->value.as<Load>();
    if (!framed_) s_.compute_inline(b_.frame);
    b_.result = join_consumer(s_, b_.result);
  }

  /// From the products outwards: what they read moves before what that reads in turn, and likewise behind
  /// them, since each move needs its readers (or writers) in the band already.
  void move_into_band() {
    s_.compute_at(b_.tiles, *band_);
    if (framed_) s_.compute_at(b_.rows, *band_), s_.compute_at(b_.frame, *band_);
    s_.reverse_compute_at(b_.columns, *band_);
    s_.reverse_compute_at(b_.result, *band_);
  }

  void transform_input() {
    fuse_transform(b_.rows, b_.tiles, 1, /*parallel=*/!band_);
    if (!framed_) return;
    note(b_.frame);
    if (band_)
      vectorize_last(own_loops(b_.frame, s_[b_.frame]->iters.size()));
    else
      schedule_injective(s_, b_.frame, target_);
  }

  void transform_output() {
    size_t rank = s_[b_.result]->iters.size();
    std::vector<LoopHandle> loops = own_loops(b_.result, rank), outer, inner;
    for (size_t d = 0; d + 1 < rank; ++d) {
      if (d != out_dims_[0] && d != out_dims_[1]) {
        outer.push_back(loops[d]);
        continue;
      }
      // A row of results is a tile and its place in the tile; the loops over tiles stand outside.
      std::vector<LoopHandle> parts = s_.split(loops[d], {kInferred, d == out_dims_[0] ? rows_ : columns_});
      outer.push_back(parts[0]);
      inner.push_back(parts[1]);
    }
    std::vector<LoopHandle> order = outer;
    order.insert(order.end(), inner.begin(), inner.end());
    order.push_back(loops.back());
    s_.reorder(order);
    s_.compute_at(b_.columns, outer.back());
    s_.set_scope(b_.columns, 0, Scope::kLocal);
    finish_stage(b_.columns, own_loops(b_.columns, s_[b_.columns]->iters.size()), 2);
    inner.push_back(loops.back());
    finish_stage(b_.result, inner, 2);
    if (!band_) run_parallel(s_, {outer.begin(), outer.end() - 1}, target_);
  }

  Schedule& s_;
  const Target& target_;
  WinogradBlocks b_;
  IntHandle rows_, columns_;  // outputs of a tile
  std::optional<LoopHandle> band_;
  bool framed_ = false;
  std::array<size_t, 2> out_dims_{};
  std::set<std::string> done_;
};

}  // namespace

std::optional<Convolution> transformable_convolution(const Func& func) {
  if (!dominant_reduction(func)) return std::nullopt;
  Schedule merged(func);
  inline_elementwise(merged);
  Ref<Block> block = dominant_reduction(merged.func());
  try {
    Convolution c = convolution_of(block);
    // Else its transforms would be computed at every run.
    for (size_t i = 0; i < func->params.size(); ++i)
      if (func->params[i] == c.weight->buffer && !is_constant_param(func, i)) return std::nullopt;
    auto last = [](const std::vector<Expr>& indices) { return indices.size() - 1; };
    // The last dimension is where lanes run: it has to be one of channels, of all three tensors.
    for (const Window& w : c.windows)
      if (w.data_dim == last(c.data->indices) || w.out_dim == last(c.update->indices) ||
          w.weight_dim == last(c.weight->indices))
        return std::nullopt;
    return c;
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool has_winograd(const Func& func, const Target& target) {
  auto c = transformable_convolution(func);
  return c && target.lanes() > 1 && !winograd_tiles(*c, target, {}, is_for_typical_dims(*func)).empty();
}

void generate_winograd(Schedule& schedule, const Target& target, const Policy& policy) {
  auto c = transformable_convolution(schedule.func());
  CHECK(c, "the space of winograd was asked to schedule another program");
  inline_elementwise(schedule);
  std::vector<WinogradTiles> choices =
      winograd_tiles(*c, target, policy, is_for_typical_dims(*schedule.func()));
  if (choices.empty()) fail("winograd: no tile is worth it");
  WinogradSchedule winograd(schedule, target);
  winograd.apply(schedule.get_block(c->block->name), choices, policy);
  schedule_rest(schedule, target, winograd.done());
}

}  // namespace lathe::schedule
