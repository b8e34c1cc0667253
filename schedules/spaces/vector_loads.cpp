#include "schedules/spaces/vector_loads.h"

#include <algorithm>
#include <set>

#include "core/arith/simplify.h"
#include "core/tir/dims.h"

namespace lathe::schedule {

using namespace tir;

bool loads_contiguously_by_vectors(const Block& block, const Expr& value, const Var& lane, int64_t width) {
  Analyzer analyzer;
  Var vector = var("vector"), part = var("part");
  for (const BlockIter& iter : block.iters) {
    if (iter.var.get() == lane.get()) analyzer.bind_range(vector, floordiv(iter.extent, width));
    analyzer.bind_range(iter.var, iter.extent);
  }
  analyzer.bind_range(part, width);
  // Simplified with the ranges of both, a quotient and a remainder that a vector does not cross lose `part`
  // or become linear in it.
  Expr split = substitute(value, {{lane.get(), vector * width + part}}, {});
  return loads_in_strides(analyzer.simplify(split), part, 1, /*past_others=*/true);
}

namespace {
/// Where the elements of a load for one vector lie.
struct VectorRuns {
  int64_t elements = 0;  // fewer than lanes where some are of several
  int64_t runs = 0;      // of neighbours
  int64_t shortest = 0;
};

/// Of a vector of `width` lanes that begins at a multiple of that: two runs where channels in blocks are
/// shifted by another number than a block has. Nothing where they lie otherwise from vector to vector.
std::optional<VectorRuns> runs_of_vector(const Block& block, const Load& load, const Var& lane,
                                         int64_t width) {
  if (!has_constant_shape(*load.buffer)) return std::nullopt;
  Analyzer analyzer;
  Var vector = var("vector");
  for (const BlockIter& iter : block.iters) {
    const bool along = iter.var.get() == lane.get();
    analyzer.bind_range(along ? vector : iter.var,
                        along ? floordiv(iter.extent + (width - 1), width) : iter.extent);
  }
  const auto place = [&](int64_t l) {
    Expr flat = 0;
    for (size_t d = 0; d < load.indices.size(); ++d)
      flat = flat * load.buffer->shape[d] + substitute(load.indices[d], {{lane.get(), vector * width + l}});
    return flat;
  };
  std::set<int64_t> places;
  const Expr first = place(0);
  for (int64_t l = 0; l < width; ++l) {
    const Expr distance = analyzer.simplify(place(l) - first);
    if (!as_int(distance)) return std::nullopt;
    places.insert(int_value(distance));
  }
  VectorRuns runs{.elements = static_cast<int64_t>(places.size()), .shortest = width};
  for (int64_t at : places) {
    if (places.count(at - 1)) continue;
    ++runs.runs;
    int64_t length = 1;
    while (places.count(at + length)) ++length;
    runs.shortest = std::min(runs.shortest, length);
  }
  return runs;
}

/// Whether the lane decides between values that `value` is one of.
bool is_chosen_by(const Expr& value, const Var& lane) {
  bool chosen = false;
  post_order(value, [&](const NodeRef& node) {
    const Select* select = node.as<Select>();
    chosen |= select && uses_var(select->condition, lane.get());
  });
  return chosen;
}
}  // namespace

bool loads_in_runs(const Block& block, const Expr& value, const Var& lane, int64_t width, int64_t most) {
  constexpr int64_t kRunBytes = 16;  // shorter runs of elements narrower than 4 bytes are no vectors
  // A mask has one lane for each element that it lets be read.
  const bool masked = is_chosen_by(value, lane);
  bool good = true;
  post_order(value, [&](const NodeRef& node) {
    const Load* load = node.as<Load>();
    if (!good || !load || !any_uses(load->indices, lane)) return;
    const std::optional<VectorRuns> runs = runs_of_vector(block, *load, lane, width);
    const int64_t bytes = load->dtype.bytes();
    good = runs && (most == 0 || runs->runs <= most) && (!masked || runs->elements == width) &&
           (runs->shortest * bytes >= kRunBytes || (bytes >= 4 && 2 * runs->runs <= width));
  });
  return good;
}

}  // namespace lathe::schedule
