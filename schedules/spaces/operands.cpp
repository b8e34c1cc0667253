// Operands as vectors need them, whatever the sizes and the order in memory of a contraction:
//
//   - results in whole vectors: the last dimension of the output is padded to a multiple of the lanes, what
//     sticks out is computed from zeros and not stored (pad_einsum);
//   - an operand that is not contiguous along the vectors, or whose vectors lie far apart, is packed into
//     [n / lanes, .., n % lanes] (reindex): once, when the model is built, if it is a constant.
#include <algorithm>

#include "core/support/error.h"
#include "core/tir/prologue.h"
#include "schedules/spaces/building_blocks.h"
#include "schedules/tile_model.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// The variable of the last dimension of the output, with the position among the block's.
std::optional<size_t> last_variable(const Block& block) {
  const Store& update = *block.body.as<Store>();
  for (size_t i = 0; i < block.iters.size(); ++i)
    if (!update.indices.empty() && update.indices.back().same_as(block.iters[i].var.get())) return i;
  return std::nullopt;
}

bool has_constant_extents(const Block& block) {
  return std::all_of(block.iters.begin(), block.iters.end(),
                     [](const BlockIter& iter) { return as_int(iter.extent); });
}

/// How the loads of one buffer use the variable that becomes vectors.
struct Reading {
  Buffer buffer;
  bool varies = false, contiguous = true;
};

std::vector<Reading> readings_of(const Block& block, const Var& lane) {
  const Store& update = *block.body.as<Store>();
  std::vector<Reading> readings;
  for (const Region& read : block.reads)
    if (read.buffer != update.buffer) readings.push_back({read.buffer});
  post_order(update.value, [&](const NodeRef& node) {
    const Load* load = node.as<Load>();
    for (Reading& reading : readings) {
      if (!load || load->buffer != reading.buffer) continue;
      bool used = std::any_of(load->indices.begin(), load->indices.end(),
                              [&](const Expr& index) { return uses_var(index, lane.get()); });
      reading.varies |= used;
      reading.contiguous &= !used || is_contiguous(load->indices, lane);
    }
  });
  return readings;
}

/// The dimension of `buffer` that `block` reads at `lane` itself.
size_t dimension_at(const Block& block, const Buffer& buffer, const Var& lane) {
  std::optional<size_t> dimension;
  post_order(block.body, [&](const NodeRef& node) {
    const Load* load = node.as<Load>();
    for (size_t d = 0; load && load->buffer == buffer && d < load->indices.size(); ++d)
      if (load->indices[d].same_as(lane.get())) dimension = d;
  });
  CHECK(dimension, "{} is not read at {}", buffer->name, lane->name);
  return *dimension;
}

/// Packs what `block` reads of `buffer`: vectors of neighbours along `lane`, one after another in the order
/// in which the reduction takes them.
void pack(Schedule& s, BlockHandle block, const Buffer& buffer, const Var& lane, int64_t width) {
  const std::vector<Region>& reads = s[block]->reads;
  auto read = std::find_if(reads.begin(), reads.end(), [&](const Region& r) { return r.buffer == buffer; });
  BlockHandle copy = s.reindex(block, read - reads.begin());
  const Buffer packed = s[copy]->writes[0].buffer;
  size_t vectors = dimension_at(*s[block], packed, lane);
  std::vector<int64_t> axes;
  if (int64_t count = int_value(packed->shape[vectors]) / width; count > 1)
    axes = {static_cast<int64_t>(vectors), count};
  for (size_t d = 0; d < packed->shape.size(); ++d)
    if (d != vectors) axes.insert(axes.end(), {static_cast<int64_t>(d), int_value(packed->shape[d])});
  axes.insert(axes.end(), {static_cast<int64_t>(vectors), width});
  s.transform_layout(copy, 0, axes);
}

/// Packing would copy elements many times: windows overlap.
bool repeats_elements(const Block& block, const Buffer& buffer) {
  constexpr double kMost = 2;  // padding included
  double copied = 1, elements = static_cast<double>(byte_size(buffer) / buffer->dtype.bytes());
  for (const BlockIter& iter : block.iters)
    for (const Region& read : block.reads)
      if (read.buffer == buffer && std::any_of(read.ranges.begin(), read.ranges.end(), [&](const Range& r) {
            return uses_var(r.min, iter.var.get());
          }))
        copied *= static_cast<double>(int_value(iter.extent));
  return copied > kMost * elements;
}
}  // namespace

bool prepare_operands(Schedule& s, const Target& target, const Policy& policy) {
  Ref<Block> block = dominant_reduction(s.func());
  if (!block || !has_constant_extents(*block)) return false;
  std::optional<size_t> last = last_variable(*block);
  if (!last || is_int(block->iters[*last].extent, 1)) return false;
  const Var lane = block->iters[*last].var;
  const std::string name = block->name;
  auto plain = vector_reduction(block);
  if (plain && plain->run < plain->extents[plain->vector]) return true;  // packed already
  int64_t extent = int_value(block->iters[*last].extent), width = row_width(extent, target);
  if (width == 1) return plain && vector_width(*plain, target) > 1;
  std::vector<Reading> readings = readings_of(*block, lane);
  bool broadcasts = std::any_of(readings.begin(), readings.end(), [](const Reading& r) { return !r.varies; });
  for (Reading& reading : readings) reading.contiguous |= plain.has_value();  // groups of products in a lane
  for (const Reading& reading : readings)
    if (!reading.contiguous && (!broadcasts || repeats_elements(*block, reading.buffer))) return false;
  BlockHandle handle = s.get_block(name);
  if (extent % width != 0) {
    std::vector<int64_t> multiples(block->iters.size(), 1);
    multiples[*last] = width;
    s.pad_einsum(handle, multiples);
    inline_elementwise(s);
  }
  for (const Reading& reading : readings) {
    if (!broadcasts || !reading.varies) continue;
    if (reading.contiguous) {
      // Rows of one vector lie one after another already.
      bool rows = int_value(reading.buffer->shape.back()) > width;
      if (!rows || !is_constant_param(s.func(), reading.buffer)) continue;
      bool heuristic = policy.decide == Decide::kHeuristic;
      IntHandle packs = s.sample_categorical({0, 1}, heuristic ? Decision{1} : Decision{});
      if (s[packs] == 0) continue;
    }
    pack(s, handle, reading.buffer, lane, width);
  }
  return true;
}

}  // namespace lathe::schedule
