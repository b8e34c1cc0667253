// The loops of element-wise blocks that stand alone.
//
//   parallel for outer loops:
//     for parts of a column, for parts of a row:
//       unrolled for some rows, for some vectors: a vector of results
#include <algorithm>
#include <numeric>

#include "core/arith/simplify.h"
#include "core/support/node_map.h"
#include "schedules/row_program.h"
#include "schedules/spaces/building_blocks.h"
#include "schedules/spaces/element_lanes.h"
#include "schedules/tile_model.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// Where a packed operand ends in [.., lane, k % group]: two loops of the block whose innermost parts are one
/// line in memory, no longer than a vector.
struct PackedLine {
  size_t lanes, group;      // positions among the loops
  int64_t width, of_group;  // of these parts
};

/// `index` as v % extent, or as v where that is all of its dimension.
Var place_in(const Expr& index, const Expr& extent) {
  const Binary* place = index.as<Binary>();
  if (place && place->op == BinaryOp::kFloorMod && structural_equal(place->b, extent))
    return place->a.as<VarNode>() ? place->a.cast<VarNode>() : Var();
  return index.as<VarNode>() ? index.cast<VarNode>() : Var();
}

std::optional<PackedLine> packed_line(const Schedule& s, const Block& block,
                                      const std::vector<LoopHandle>& loops, const Target& target) {
  const Store* store = block.body.as<Store>();
  if (!store || store->indices.size() < 2) return std::nullopt;
  const std::vector<Expr>& shape = store->buffer->shape;
  size_t rank = shape.size();
  const int64_t *width = as_int(shape[rank - 2]), *of_group = as_int(shape[rank - 1]);
  Var lane = place_in(store->indices[rank - 2], shape[rank - 2]),
      place = place_in(store->indices[rank - 1], shape[rank - 1]);
  bool wraps = store->indices[rank - 1].as<Binary>();  // else a vector along the last dimension will do
  if (!wraps || !lane || !place || lane == place || !width || !of_group) return std::nullopt;
  if (*width * *of_group * store->buffer->dtype.bytes() > target.lanes() * kFloat32.bytes())
    return std::nullopt;
  std::optional<size_t> along_lane, along_place;
  for (size_t i = 0; i < loops.size(); ++i) {
    Var v = variable_of(block, *s[loops[i]]);
    const int64_t* extent = as_int(s[loops[i]]->extent);
    if (v && extent && v == lane && *extent % *width == 0) along_lane = i;
    if (v && extent && v == place && *extent % *of_group == 0) along_place = i;
  }
  if (!along_lane || !along_place) return std::nullopt;
  return PackedLine{*along_lane, *along_place, *width, *of_group};
}

/// Vectors of whole lines, where there are any; what is loaded for them lies in as many runs as a line has
/// groups or a group places, which code generation puts together in registers.
bool vectorize_packed(Schedule& s, BlockHandle block, std::vector<LoopHandle>& loops, const Target& target) {
  std::optional<PackedLine> line = packed_line(s, *s[block], loops, target);
  if (!line) return false;
  auto lanes = s.split(loops[line->lanes], {kInferred, line->width});
  auto groups = s.split(loops[line->group], {kInferred, line->of_group});
  loops[line->lanes] = lanes[0], loops[line->group] = groups[0];
  std::vector<LoopHandle> order = loops;
  order.insert(order.end(), {lanes[1], groups[1]});
  s.reorder(order);
  s.vectorize(s.fuse({lanes[1], groups[1]}));
  return true;
}

/// Vectorizes the innermost of `loops`, splitting it when it is no single vector; the loop that then is
/// innermost of the rest replaces it.
void vectorize_innermost(Schedule& s, BlockHandle block, std::vector<LoopHandle>& loops,
                         const Target& target) {
  if (loops.empty() || vectorize_packed(s, block, loops, target)) return;
  int64_t width = lanes_for(*s[block], *s[loops.back()], target);
  if (width == 1) return;
  LoopHandle lanes = loops.back();
  loops.pop_back();
  if (int_value(s[lanes]->extent) != width) {
    auto parts = s.split(lanes, {kInferred, width});
    loops.push_back(parts[0]);
    lanes = parts[1];
  }
  s.vectorize(lanes);
}

/// Casts real numbers to integers: two instructions for a vector, a dozen and two branches for an element,
/// which may be beyond their range.
bool rounds(const Block& block) {
  const Store* store = block.body.as<Store>();
  bool found = false;
  if (store)
    post_order(store->value, [&](const NodeRef& node) {
      const Cast* cast = node.as<Cast>();
      found |= cast && cast->dtype.is_int() && cast->value.dtype().is_float();
    });
  return found;
}
/// What is done in vectors beside the elements loaded one by one outweighs these: weights and masks of what
/// is sampled, say.
bool outweighs_gathers(const Block& block, const Var& lane) {
  constexpr int kWeight = 3;
  const Store* store = block.body.as<Store>();
  int gathered = 0, others = 0;
  NodeSet places;  // arithmetic that tells where an element lies is part of its load
  post_order(store->value, [&](const NodeRef& node) {
    const Load* load = node.as<Load>();
    if (!load || !uses_var(node, lane.get()) || is_contiguous(load->indices, lane)) return;
    ++gathered;
    for (const Expr& index : load->indices)
      post_order(index, [&](const NodeRef& part) { places.insert(part.get()); });
  });
  post_order(store->value, [&](const NodeRef& node) {
    const Load* load = node.as<Load>();
    if (load) others += !uses_var(node, lane.get()) || is_contiguous(load->indices, lane);
    if (node.as<Binary>() || node.as<Select>()) others += !places.count(node.get());
  });
  return gathered > 0 && others >= kWeight * gathered;
}

/// What is left to decide about the loops of a block that stands alone.
struct ElementLoops {
  std::vector<LoopHandle> outer;
  LoopHandle inner;   // over a row, or several that are one line in memory
  int64_t width = 1;  // lanes it is vectorized with as a heuristic
  bool gathers = false;
};

ElementLoops element_loops(Schedule& s, BlockHandle block, const Target& target, const Policy& policy) {
  std::vector<LoopHandle> loops = s.get_loops(block);
  const Ref<Block> body = s[block];
  ElementLoops result;
  std::vector<int64_t> counts(static_cast<size_t>(loops_of_line(s, *body, loops)));
  std::iota(counts.begin(), counts.end(), 1);
  int64_t joined = choose_one_of(s, counts, loops_worth_joining(s, loops, counts.back(), target), policy);
  result.inner = loops.back();
  if (joined > 1) result.inner = s.fuse({loops.end() - joined, loops.end()});
  result.outer.assign(loops.begin(), loops.end() - joined);
  if (joined == 1) choose_innermost(s, result.outer, policy);
  const For& row = *s[result.inner];
  result.width = joined > 1 ? row_width(int_value(row.extent), target) : lanes_for(*body, row, target);
  if (result.width > 1) return result;
  Var lane = variable_of(*body, row);
  const Store* store = body->body.as<Store>();
  bool writes_vectors = joined == 1 && lane && store && is_contiguous(store->indices, lane) &&
                        int_value(row.extent) >= kFewestLanes && target.lanes() >= kFewestLanes;
  if (!writes_vectors) return result;
  // Lanes that load elements one by one and store them as a vector pay where computing takes long.
  result.gathers =
      choose_one_of(s, {0, 1}, computes(*body) || rounds(*body) || outweighs_gathers(*body, lane) ? 1 : 0,
                    policy) == 1;
  if (result.gathers) result.width = row_width(int_value(row.extent), target);
  return result;
}

/// Half of `width` to `most` times as much, within what a row of `extent` fills.
std::vector<int64_t> widths_near(int64_t width, int64_t extent, int64_t most) {
  std::vector<int64_t> widths{width};
  if (width % 2 == 0 && width / 2 >= kFewestLanes) widths.insert(widths.begin(), width / 2);
  for (int64_t times : {2, 4})
    if (times <= most && times * width <= extent) widths.push_back(times * width);
  return widths;
}

int64_t bytes_touched(const Block& block) {
  int64_t bytes = 0;
  for (const auto* regions : {&block.reads, &block.writes})
    for (const Region& region : *regions) bytes += byte_size(region.buffer);
  return bytes;
}

/// Whether what it computes is chosen, or read from where a division says, by the row's variable: a number
/// each when the row is unrolled.
bool is_chosen_along(const Block& block, const For& row) {
  Var lane = variable_of(block, row);
  bool chosen = false;
  post_order(block.body.as<Store>()->value, [&](const NodeRef& node) {
    const Select* select = node.as<Select>();
    const Binary* binary = node.as<Binary>();
    bool divides = binary && (binary->op == BinaryOp::kFloorDiv || binary->op == BinaryOp::kFloorMod);
    chosen |= lane && ((select && uses_var(select->condition, lane.get())) ||
                       (divides && uses_var(node.cast<ExprNode>(), lane.get())));
  });
  return chosen;
}

/// Whether it may be a row of a tensor that it copies: a loop of nothing else becomes a call of memcpy.
bool moves_runs(const Block& block, const For& row) {
  Var lane = variable_of(block, row);
  std::vector<Expr> choices{block.body.as<Store>()->value};
  while (lane && !choices.empty()) {
    Expr value = choices.back();
    choices.pop_back();
    const Load* load = value.as<Load>();
    if (load && is_contiguous(load->indices, lane)) return true;
    if (const Select* select = value.as<Select>())
      choices.insert(choices.end(), {select->if_true, select->if_false});
  }
  return false;
}

/// The most copies of `counts` that divide `extent`.
int64_t most_whole(const std::vector<int64_t>& counts, int64_t extent) {
  int64_t most = 1;
  for (int64_t count : counts)
    if (extent % count == 0) most = std::max(most, count);
  return most;
}

}  // namespace

int64_t loops_of_line(const Schedule& s, const Block& block, const std::vector<LoopHandle>& loops) {
  size_t count = 1;
  for (; count < loops.size(); ++count) {
    std::vector<Ref<For>> line;
    for (size_t i = loops.size() - count - 1; i < loops.size(); ++i) line.push_back(s[loops[i]]);
    if (!is_line(block, line)) break;
  }
  return static_cast<int64_t>(count);
}

void schedule_injective(Schedule& s, BlockHandle block, const Target& target, const Policy& policy) {
  constexpr int64_t kMostVectors = 16, kMostRows = 8, kMostColumns = 4;
  if (s.get_loops(block).empty() || schedule_transposed(s, block, target, policy)) return;
  if (auto rows = rows_in_row(s, *s[block], target); rows && choose_one_of(s, {0, 1}, 1, policy) == 1)
    s.split_variable(block, rows->variable, rows->length);
  const Ref<Block> body = s[block];
  std::vector<LoopHandle> lines = s.get_loops(block);
  if (vectorize_packed(s, block, lines, target)) {
    if (pays_in_parallel(iterations(*body), target)) run_parallel(s, lines, target);
    return;
  }
  ElementLoops loops = element_loops(s, block, target, policy);
  // What is chosen by the lane is loaded under a mask each: single elements are known when the row is
  // unrolled.
  if (loops.width < kFewestLanes && is_chosen_along(*body, *s[loops.inner])) loops.width = 1;
  int64_t extent = int_value(s[loops.inner]->extent), width = loops.width;
  const int64_t copies = copies_worth(body->body.as<Store>()->value);
  std::vector<LoopHandle> tasks = loops.outer, tile;
  const std::vector<int64_t> row_copies = copies_in_row(*body, extent / width);
  const bool chosen = width == 1 && is_chosen_along(*body, *s[loops.inner]);
  const bool loops_cost = width == 1 && !moves_runs(*body, *s[loops.inner]);
  const int64_t whole = chosen       ? whole_row(row_copies, *body, *s[loops.inner])
                        : loops_cost ? most_whole(copies_of(extent, std::min(kFewestLanes, copies)), extent)
                                     : 1;
  std::vector<Factor> row{kInferred, sample_one_of(s, row_copies, whole, policy)};
  if (width > 1) row.push_back(sample_one_of(s, widths_near(width, extent, copies / 8), width, policy));
  // Rows of a vector or two leave room for more of them at once.
  bool short_rows = extent <= 2 * width;
  const int64_t most_rows = std::min(short_rows ? kMostVectors : kMostRows, copies / 8);
  size_t columns = std::min<size_t>(tasks.size(), short_rows ? 2 : 1);
  // The innermost loops around the row give some rows to the tile; of short rows two of them.
  for (size_t i = tasks.size() - columns; i < tasks.size(); ++i) {
    bool next = i + 1 == tasks.size();
    std::vector<int64_t> rows =
        copies_of(int_value(s[tasks[i]]->extent), next ? most_rows : std::min(kMostColumns, copies / 64));
    // What a row's elements are chosen by is the same in the rows beside it.
    const bool shares = next && chosen && whole == 1;
    auto column = s.split(
        tasks[i],
        {kInferred,
         sample_one_of(s, rows, shares ? most_whole(rows, int_value(s[tasks[i]]->extent)) : 1, policy)});
    tasks[i] = column[0];
    tile.push_back(column[1]);
  }
  auto parts = s.split(loops.inner, row);
  tasks.push_back(parts[0]);
  tile.insert(tile.end(), parts.begin() + 1, parts.end());
  std::vector<LoopHandle> order = tasks;
  order.insert(order.end(), tile.begin(), tile.end());
  s.reorder(order);
  if (width > 1) {
    s.vectorize(tile.back());
    tile.pop_back();
    sample_prefetch(s, parts[0], bytes_touched(*body), target, policy);
  }
  for (LoopHandle loop : tile) s.unroll(loop);
  if (pays_in_parallel(iterations(*body), target)) run_parallel(s, tasks, target, policy);
}

void finish_inner_loops(Schedule& s, BlockHandle block, std::optional<LoopHandle> outer,
                        const Target& target) {
  constexpr int64_t kMostUnrolled = 64;
  std::vector<LoopHandle> inner;
  bool below = !outer;
  for (LoopHandle loop : s.get_loops(block)) {
    if (below) inner.push_back(loop);
    below |= outer && s[loop]->var == s[*outer]->var;
  }
  vectorize_innermost(s, block, inner, target);
  int64_t repeats = 1;
  for (LoopHandle loop : inner) repeats *= int_value(s[loop]->extent);
  if (!outer || repeats > kMostUnrolled) return;
  for (LoopHandle loop : inner) s.unroll(loop);
}

bool is_finished(Schedule& s, BlockHandle block) {
  const std::vector<LoopHandle> loops = s.get_loops(block);
  return std::any_of(loops.begin(), loops.end(), [&](LoopHandle loop) {
    return s[loop]->iteration == Iteration::kVectorized || s[loop]->iteration == Iteration::kUnrolled;
  });
}

void schedule_block(Schedule& s, const Ref<Block>& block, const Target& target, std::set<std::string>& done,
                    const Policy& policy) {
  if (done.count(block->name) || block->iters.empty() || iterations(*block) == 0) return;
  BlockHandle handle = s.get_block(block->name);
  if (is_finished(s, handle)) return;
  // What is computed when the model is built takes no time.
  Policy own = is_constant(s.func(), block->writes[0].buffer) ? Policy{Decide::kHeuristic} : policy;
  if (is_injective(*block)) {
    schedule_injective(s, handle, target, own);
  } else if (auto reduction = vector_reduction(block); reduction && vector_width(*reduction, target) > 1) {
    done.merge(schedule_tiled_reduction(s, *reduction, target, own).done);
  } else if (is_reduction(*block)) {
    done.merge(schedule_scalar_reduction(s, handle, target, own));
  }
}

void schedule_rest(Schedule& s, const Target& target, std::set<std::string> done, const Policy& policy) {
  for (const Ref<Block>& block : all_blocks(s.func())) schedule_block(s, block, target, done, policy);
}

}  // namespace lathe::schedule
