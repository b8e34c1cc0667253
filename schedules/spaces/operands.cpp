// Operands as vectors need them, whatever the sizes and the order in memory of a contraction:
//
//   - results in whole vectors: the last dimension of the output is padded to a multiple of the lanes, what
//     sticks out is computed from zeros and not stored (pad_einsum);
//   - an operand that is not contiguous along the vectors, or whose vectors lie far apart, is packed into
//     [n / lanes, .., n % lanes] (reindex): once, when the model is built, if it is a constant;
//   - where a lane takes several narrow products at a time (dot_product), a variable of the reduction is
//     padded to whole groups of them and split into groups and places. The operand of vectors is packed into
//     [n / lanes, .., k / 4, n % lanes, k % 4], the broadcast one is read where it lies when its groups are
//     whole rows, else packed too.
#include <algorithm>

#include "core/support/error.h"
#include "core/tir/machine.h"
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
  bool in_strides = true;  // contiguous, or neighbours lie equally far apart
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
      reading.in_strides &= !used || is_in_strides(load->indices, lane);
    }
  });
  return readings;
}

/// The dimension of `buffer` that `block` reads at `v` itself.
size_t dimension_at(const Block& block, const Buffer& buffer, const Var& v) {
  std::optional<size_t> dimension;
  post_order(block.body, [&](const NodeRef& node) {
    const Load* load = node.as<Load>();
    for (size_t d = 0; load && load->buffer == buffer && d < load->indices.size(); ++d)
      if (load->indices[d].same_as(v.get())) dimension = d;
  });
  CHECK(dimension, "{} is not read at {}", buffer->name, v->name);
  return *dimension;
}

BlockHandle reindexed(Schedule& s, BlockHandle block, const Buffer& buffer) {
  const std::vector<Region>& reads = s[block]->reads;
  auto read = std::find_if(reads.begin(), reads.end(), [&](const Region& r) { return r.buffer == buffer; });
  return s.reindex(block, read - reads.begin());
}

/// A variable that stands innermost in an operand's layout, in parts of `width`.
struct Inner {
  Var variable;
  int64_t width;
};

/// Packs what `block` reads of `buffer`: vectors of neighbours along the first of `inner`, one after another
/// in the order in which the reduction takes them; along the second, groups of neighbours in each lane.
BlockHandle pack(Schedule& s, BlockHandle block, const Buffer& buffer, const std::vector<Inner>& inner) {
  BlockHandle copy = reindexed(s, block, buffer);
  const Buffer packed = s[copy]->writes[0].buffer;
  std::vector<int64_t> axes, parts, places;
  std::vector<bool> is_inner(packed->shape.size());
  for (size_t i = 0; i < inner.size(); ++i) {
    size_t d = dimension_at(*s[block], packed, inner[i].variable);
    is_inner[d] = true;
    auto dimension = static_cast<int64_t>(d);
    int64_t count = int_value(packed->shape[d]) / inner[i].width;
    std::vector<int64_t>& whole = i == 0 ? axes : parts;
    if (count > 1) whole.insert(whole.end(), {dimension, count});
    places.insert(places.end(), {dimension, inner[i].width});
  }
  for (size_t d = 0; d < packed->shape.size(); ++d)
    if (!is_inner[d]) axes.insert(axes.end(), {static_cast<int64_t>(d), int_value(packed->shape[d])});
  axes.insert(axes.end(), parts.begin(), parts.end());
  axes.insert(axes.end(), places.begin(), places.end());
  s.transform_layout(copy, 0, axes);
  return copy;
}

/// The loops of a copy that packs rows which lie as vectors need them: some vectors of a row beside each
/// other, a whole line or two, go to as many places, each of which goes on in the next row.
void copy_in_vectors(Schedule& s, BlockHandle copy, int64_t width, const Target& target) {
  constexpr int64_t kBeside = 4;
  const Ref<Block> block = s[copy];
  const std::vector<Expr>& from = loads_of(block->body.as<Store>()->value)[0]->indices;
  std::vector<LoopHandle> loops = s.get_loops(copy), order;
  size_t row = loops.size();
  for (size_t i = 0; i < loops.size(); ++i)
    if (is_contiguous(from, block->iters[i].var)) row = i;
  CHECK(row < loops.size(), "the copy of {} does not go along its rows", block->name);
  std::vector<LoopHandle> parts = s.split(loops[row], {kInferred, kBeside, width});
  order.push_back(parts[0]);
  for (size_t i = 0; i < loops.size(); ++i)
    if (i != row) order.push_back(loops[i]);
  const std::vector<LoopHandle> outer = order;
  order.insert(order.end(), {parts[1], parts[2]});
  s.reorder(order);
  s.unroll(parts[1]);
  s.vectorize(parts[2]);
  if (pays_in_parallel(iterations(*block), target)) run_parallel(s, outer, target);
}

/// Copies what `block` reads of `buffer` into rows along `row`.
void copy_rows(Schedule& s, BlockHandle block, const Buffer& buffer, const Var& row) {
  BlockHandle copy = reindexed(s, block, buffer);
  const Buffer rows = s[copy]->writes[0].buffer;
  size_t along = dimension_at(*s[block], rows, row);
  if (along + 1 == rows->shape.size()) return;
  std::vector<int64_t> axes;
  for (size_t d = 0; d < rows->shape.size(); ++d)
    if (d != along) axes.insert(axes.end(), {static_cast<int64_t>(d), int_value(rows->shape[d])});
  axes.insert(axes.end(), {static_cast<int64_t>(along), int_value(rows->shape[along])});
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

/// The variable of a reduction whose neighbours a lane multiplies and adds together.
struct Grouping {
  size_t variable;
  int64_t length;
};

/// Of the variables that all operands are read with, one that needs little padding; the last of those.
/// Nothing where a lane takes one product at a time, or packing would copy elements many times.
std::optional<Grouping> grouping_of(const Block& block, const std::vector<Reading>& readings) {
  int64_t length = products_at_once(block);
  if (length == 1) return std::nullopt;
  std::optional<Grouping> best;
  double least = 0;
  for (size_t i = 0; i < block.iters.size(); ++i) {
    const BlockIter& iter = block.iters[i];
    if (iter.kind != IterKind::kReduce) continue;
    bool everywhere = std::all_of(readings.begin(), readings.end(), [&](const Reading& reading) {
      auto region = std::find_if(block.reads.begin(), block.reads.end(),
                                 [&](const Region& r) { return r.buffer == reading.buffer; });
      return std::any_of(region->ranges.begin(), region->ranges.end(),
                         [&](const Range& r) { return uses_var(r.min, iter.var.get()); });
    });
    auto extent = static_cast<double>(int_value(iter.extent));
    double padded = static_cast<double>((int_value(iter.extent) + length - 1) / length * length) / extent;
    if (everywhere && (!best || padded <= least)) best = {i, length}, least = padded;
  }
  return best;
}

int64_t count_of(const Block& block, const Grouping& groups) {
  return int_value(block.iters[groups.variable].extent) / groups.length;
}

/// Groups along `k` are whole groups in memory.
bool holds_groups(const Block& block, const Reading& reading, const Var& k, int64_t length) {
  bool whole = int_value(reading.buffer->shape.back()) % length == 0;
  post_order(block.body, [&](const NodeRef& node) {
    const Load* load = node.as<Load>();
    if (!load || load->buffer != reading.buffer) return;
    std::vector<Var> vars{k};
    auto form = linear_form(load->indices.back(), vars);
    // What else the index holds would have to begin at whole groups.
    whole &= is_contiguous(load->indices, k) && form && is_int(form->rest, 0);
  });
  return whole;
}

/// Of the time that products take one by one. Single ones of integers are no faster than groups of them.
double saved_by_groups(const Block& block, const Grouping& groups, const Target& target) {
  const auto length = static_cast<double>(groups.length);
  const DataType operands = operand_type(block);
  if (operands != kBFloat16) return 1 - 1 / length;
  const MachineModel& machine = machine_of(target);
  const double dots = dot_rate(machine, target, operands, count_of(block, groups));
  return 1 - machine.multiply_adds.at(target.vector_bits) / (length * dots);
}

/// Whether to group products, which needs both operands packed. Those that are not constant are copied in
/// each run: enough products of each element have to pay for that.
bool chooses_groups(Schedule& s, const Block& block, const Grouping& groups,
                    const std::vector<Reading>& copied, const Target& target, const Policy& policy) {
  constexpr double kCopyCycles = 1;  // of an element; vectors of products take one as well
  double elements = 0;
  for (const Reading& reading : copied)
    if (!is_constant_param(s.func(), reading.buffer))
      elements += static_cast<double>(byte_size(reading.buffer) / reading.buffer->dtype.bytes());
  if (elements == 0) return true;
  const auto products = static_cast<double>(iterations(block));
  double saved = products * saved_by_groups(block, groups, target) / static_cast<double>(target.lanes());
  int64_t preferred = saved >= kCopyCycles * elements ? 1 : 0;
  bool heuristic = policy.decide == Decide::kHeuristic;
  return s[s.sample_categorical({0, 1}, heuristic ? Decision{preferred} : Decision{})] == 1;
}

/// Groups of products that are packed already, for lanes that do not fill a vector: the constant operand with
/// zeros for the lanes beyond.
void fill_lanes(Schedule& s, const Block& block, size_t last, size_t group, int64_t width) {
  const Var &lane = block.iters[last].var, &place = block.iters[group].var;
  for (const Reading& reading : readings_of(block, lane)) {
    if (!reading.varies) continue;
    if (!is_constant_param(s.func(), reading.buffer)) return;
    std::vector<int64_t> multiples(block.iters.size(), 1);
    multiples[last] = width;
    BlockHandle handle = s.get_block(block.name);
    s.pad_einsum(handle, multiples);
    inline_elementwise(s);
    pack(s, handle, reading.buffer, {{lane, width}, {place, int_value(block.iters[group].extent)}});
    return;
  }
}

/// Of a tensor that is multiplied by itself, x[i, k] * x[j, k], the factor that `lane` would gather becomes a
/// copy, to be packed: operands are told apart by their buffers. Whether there was one.
bool separate_factors(Schedule& s, const Block& block, const Var& lane) {
  const Store& update = *block.body.as<Store>();
  for (size_t read = 0; read < block.reads.size(); ++read) {
    const Buffer& buffer = block.reads[read].buffer;
    if (buffer == update.buffer) continue;
    const std::vector<Ref<Load>> places = loads_of(update.value, buffer);
    const auto is_gathered = [&](const Ref<Load>& load) {
      return any_uses(load->indices, lane) && !is_in_strides(load->indices, lane);
    };
    const auto place = std::find_if(places.begin(), places.end(), is_gathered);
    if (places.size() != 2 || place == places.end()) continue;
    s.separate_read(s.get_block(block.name), static_cast<int64_t>(read), place - places.begin());
    return true;
  }
  return false;
}

/// Whether what `block` reads of `buffer` is other elements for other values of the variable.
bool moves(const Block& block, const Buffer& buffer, const BlockIter& iter) {
  const Region& read = *std::find_if(block.reads.begin(), block.reads.end(),
                                     [&](const Region& r) { return r.buffer == buffer; });
  return std::any_of(read.ranges.begin(), read.ranges.end(),
                     [&](const Range& r) { return uses_var(r.min, iter.var.get()); });
}

/// How often `block` multiplies each element of what it reads of `buffer`.
int64_t products_of_each(const Block& block, const Buffer& buffer) {
  int64_t products = 1;
  for (const BlockIter& iter : block.iters)
    if (!moves(block, buffer, iter)) products *= int_value(iter.extent);
  return products;
}

/// Whether to copy rows that lie as vectors need them, but share sets of the caches: of a matrix of 1024
/// columns the second-level cache, of 1 MiB, holds 256 rows of any narrow panel, the first-level one 12. The
/// copy costs a product or two of each element; what the second level gives it takes tile by tile.
bool pays_packing_rows(const Block& block, const Reading& reading, const Target& target) {
  constexpr int64_t kFewestProducts = 64, kRows = 64, kFarMore = 4, kProductsOfRow = 16;
  const int64_t element = reading.buffer->dtype.bytes(),
                row = int_value(reading.buffer->shape.back()) * element;
  const int64_t products = products_of_each(block, reading.buffer);
  int64_t rows = 1;  // of one matrix of a batch
  for (const BlockIter& iter : block.iters)
    if (iter.kind == IterKind::kReduce && moves(block, reading.buffer, iter)) rows *= int_value(iter.extent);
  const int64_t within_l1 = rows_within_l1(target, row);
  const bool leaves_l1 = rows >= kFarMore * within_l1 && products >= kProductsOfRow * within_l1,
             leaves_l2 = rows >= 2 * rows_within_l2(target, row) && products >= kFewestProducts;
  if (!(leaves_l1 || leaves_l2) || row / element % target.lanes() != 0 ||
      repeats_elements(block, reading.buffer))
    return false;
  std::vector<int64_t> addresses;
  for (int64_t i = 0; i < kRows; ++i) addresses.push_back(i * row);
  return conflicting_lines(target, addresses) > kRows / 2;
}

/// How many columns of a constant that few rows are multiplied by lie beside each other for each place of the
/// sums: those of a tile, whose weights are then one stream. That comes faster from the caches and from
/// memory than one for each vector (docs/decisions/127-panels-of-weights.md). Each core has two such panels
/// or more, and they fill up little.
int64_t panel_width(int64_t columns, int64_t rows, const Target& target) {
  constexpr int64_t kFillsUp = 32;  // at most one column of that many
  const auto fits = [&](int64_t width) {
    const int64_t panels = (columns + width - 1) / width;
    return panels >= 2 * target.cores && (panels * width - columns) * kFillsUp <= columns;
  };
  int64_t width = kPanelVectors / (rows > 2 ? 2 : 1) * target.lanes();
  while (width > target.lanes() && !fits(width)) width /= 2;
  return width;
}

/// panel_width() where all that vectors are of is constant, and multiplied by few rows; else 0.
int64_t width_in_panels(const Schedule& s, const Block& block, const std::vector<Reading>& readings,
                        int64_t columns, const Target& target) {
  int64_t rows = 1;
  for (const Reading& reading : readings) {
    if (!reading.varies) continue;
    rows = std::max(rows, products_of_each(block, reading.buffer));
    if (rows > kPanelRows || !is_constant_param(s.func(), reading.buffer)) return 0;
  }
  return panel_width(columns, rows, target);
}

/// prepare_operands() of that reduction, of which variable `last` is that of the output's last dimension.
bool prepare(Schedule& s, const Ref<Block>& block, size_t last, const Target& target, const Policy& policy) {
  const Var lane = block->iters[last].var;
  const std::string name = block->name;
  auto plain = vector_reduction(block);
  int64_t extent = int_value(block->iters[last].extent), width = row_width(extent, target);
  // Packed already, or with terms written out as they lie in memory.
  if (plain && (plain->dot || plain->terms() > 1 || plain->run < plain->extents[plain->vector])) {
    if (plain->dot && width > 1 && extent % width != 0) fill_lanes(s, *block, last, *plain->dot, width);
    return true;
  }
  if (width == 1) return plain && vector_width(*plain, target) > 1;
  std::vector<Reading> readings = readings_of(*block, lane);
  bool broadcasts = std::any_of(readings.begin(), readings.end(), [](const Reading& r) { return !r.varies; });
  auto is_packable = [&](const Reading& reading) {
    return broadcasts && !repeats_elements(*block, reading.buffer);
  };
  for (const Reading& reading : readings)
    if (!reading.in_strides && !is_packable(reading)) return false;
  std::optional<Grouping> groups = grouping_of(*block, readings);
  // Tiles have whole vectors.
  if (groups && extent > target.lanes() &&
      tile_rate(machine_of(target), target, operand_type(*block), count_of(*block, *groups)) > 0)
    width = target.lanes();
  auto in_place = [&](const Reading& reading) {
    const BlockIter& iter = block->iters[groups->variable];
    return !reading.varies && int_value(iter.extent) % groups->length == 0 &&
           holds_groups(*block, reading, iter.var, groups->length);
  };
  std::vector<Reading> copied;
  for (const Reading& reading : readings)
    if (groups && !in_place(reading)) copied.push_back(reading);
  if (!std::all_of(copied.begin(), copied.end(), is_packable)) groups.reset();
  if (groups && !chooses_groups(s, *block, *groups, copied, target, policy)) groups.reset();
  std::vector<bool> stays;
  for (const Reading& reading : readings) stays.push_back(groups && in_place(reading));
  if (broadcasts && extent >= target.lanes())
    width = std::max(width, width_in_panels(s, *block, readings, extent, target));
  BlockHandle handle = s.get_block(name);
  std::vector<int64_t> multiples(block->iters.size(), 1);
  multiples[last] = width;
  if (groups) multiples[groups->variable] = groups->length;
  if (extent % width != 0 || (groups && int_value(block->iters[groups->variable].extent) % groups->length)) {
    s.pad_einsum(handle, multiples);
    inline_elementwise(s);
  }
  for (size_t r = 0; r < readings.size(); ++r) {
    const Reading& reading = readings[r];
    if (groups) {
      Inner group{block->iters[groups->variable].var, groups->length};
      if (reading.varies)
        pack(s, handle, reading.buffer, {{lane, width}, group});
      else if (!stays[r])
        copy_rows(s, handle, reading.buffer, group.variable);
      continue;
    }
    if (!broadcasts || !reading.varies) continue;
    // Windows with a stride: the vectors of each tap are put together where they are used.
    if (!reading.contiguous && !is_packable(reading)) continue;
    if (reading.contiguous) {
      // Rows of one vector lie one after another already.
      bool rows = int_value(reading.buffer->shape.back()) > width;
      const bool is_constant = is_constant_param(s.func(), reading.buffer);
      if (!rows || (!is_constant && !pays_packing_rows(*block, reading, target))) continue;
      bool heuristic = policy.decide == Decide::kHeuristic;
      IntHandle packs = s.sample_categorical({0, 1}, heuristic ? Decision{1} : Decision{});
      if (s[packs] == 0) continue;
      const BlockHandle copy = pack(s, handle, reading.buffer, {{lane, width}});
      if (!is_constant) copy_in_vectors(s, copy, width, target);
      continue;
    }
    pack(s, handle, reading.buffer, {{lane, width}});
  }
  if (groups) s.split_variable(handle, static_cast<int64_t>(groups->variable), groups->length);
  return true;
}
}  // namespace

bool prepare_operands(Schedule& s, const Target& target, const Policy& policy) {
  return prepare_operands(s, dominant_reduction(s.func()), target, policy);
}

bool prepare_operands(Schedule& s, const Ref<Block>& block, const Target& target, const Policy& policy) {
  if (!block || !has_constant_extents(*block)) return false;
  const std::optional<size_t> last = last_variable(*block);
  if (!last || is_int(block->iters[*last].extent, 1)) return false;
  if (!separate_factors(s, *block, block->iters[*last].var)) return prepare(s, block, *last, target, policy);
  const bool ready = prepare(s, s[s.get_block(block->name)], *last, target, policy);
  inline_elementwise(s);  // the packed operand copies the tensor itself
  return ready;
}

}  // namespace lathe::schedule
