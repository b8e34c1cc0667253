// Element-wise blocks that stand alone: which those are, and their loops.
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
#include "schedules/spaces/vector_loads.h"
#include "schedules/tile_model.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// The block's variable that the loop alone runs along, or null.
Var variable_of(const Block& block, const For& loop) {
  for (const BlockIter& iter : block.iters) {
    if (!uses_var(iter.value, loop.var.get())) continue;
    std::vector<Var> vars{loop.var};
    auto form = linear_form(iter.value, vars);
    return form && form->coefficients[loop.var.get()] == 1 ? iter.var : Var();
  }
  return {};
}

/// A function computed by a long chain of dependent instructions.
bool is_chain(const NodeRef& node) {
  const IntrinsicCall* call = node.as<IntrinsicCall>();
  return call && call->intrinsic < Intrinsic::kFloor && call->intrinsic != Intrinsic::kSqrt;
}

/// How many vectors to compute at a time: chains leave the units idle otherwise.
int64_t vectors_at_once(const Expr& value) {
  bool chains = false;
  post_order(value, [&](const NodeRef& node) { chains |= is_chain(node); });
  return chains ? 2 : 1;
}

/// How many copies of a body that computes `value` are worth their instructions.
int64_t copies_worth(const Expr& value) {
  constexpr int64_t kMostInstructions = 1024, kOfChain = 24;
  int64_t instructions = 1;
  post_order(value, [&](const NodeRef& node) {
    if (is_chain(node))
      instructions += kOfChain;
    else
      instructions += node.as<Load>() || node.as<Binary>() || node.as<Select>();
  });
  return std::max<int64_t>(1, kMostInstructions / instructions);
}

/// It reads accumulators of so many lanes, which are registers where their reader's vectors are those of the
/// reduction; those that are filled up to whole vectors have more.
bool reads_accumulators(const Expr& value, int64_t lanes) {
  bool found = false;
  post_order(value, [&](const NodeRef& node) {
    const Load* load = node.as<Load>();
    found |= load && load->buffer->scope == Scope::kLocal && is_int(load->buffer->shape.back(), lanes);
  });
  return found;
}

/// After how many elements of a row divisions of its variable begin anew, the remainders of all of them.
int64_t period_along(const Block& block, const For& row) {
  Var lane = variable_of(block, row);
  int64_t period = 1;
  post_order(block.body.as<Store>()->value, [&](const NodeRef& node) {
    const Binary* binary = node.as<Binary>();
    if (!binary || (binary->op != BinaryOp::kFloorDiv && binary->op != BinaryOp::kFloorMod)) return;
    const int64_t* divisor = as_int(binary->b);
    constexpr int64_t kMost = 1 << 20;
    // Bounded, so that the least common multiple cannot overflow: both are below 2^20.
    if (divisor && *divisor > 0 && *divisor < kMost && period < kMost && uses_var(binary->a, lane.get()))
      period = std::lcm(period, *divisor);
  });
  return period;
}

/// Copies that leave no choice and no division to the row's variable: the whole row, or a period of it; 1
/// where `counts` has neither.
int64_t whole_row(const std::vector<int64_t>& counts, const Block& block, const For& row) {
  for (int64_t copies : {int_value(row.extent), period_along(block, row)})
    if (std::find(counts.begin(), counts.end(), copies) != counts.end()) return copies;
  return 1;
}
/// How many vectors of a row, or elements, may be computed one behind the other in code of their own.
std::vector<int64_t> copies_in_row(const Block& block, int64_t vectors) {
  constexpr int64_t kMost = 16;
  return copies_of(vectors, std::min(kMost, copies_worth(block.body.as<Store>()->value)));
}

/// Shorter vectors cost what single elements do.
constexpr int64_t kFewestLanes = 4;

/// The fewest vectors that are together a whole number of periods, or as much of one vector; 1: too little.
int64_t lanes_of_periods(int64_t period, int64_t row, int64_t width) {
  constexpr int64_t kMostVectors = 4;
  const int64_t whole = std::lcm(period, width);
  if (whole <= std::min(kMostVectors * width, row)) return whole;
  const int64_t step = std::lcm(period, kFewestLanes), part = width / step * step;
  return 2 * part > width ? part : 1;
}

/// Lanes to vectorize the innermost loop with; 1: it cannot be. A row whose length they do not divide ends in
/// a masked vector.
int64_t lanes_for(const Block& block, const For& innermost, const Target& target) {
  Var lane = variable_of(block, innermost);
  const Store* store = block.body.as<Store>();
  if (!lane || !store || !as_int(innermost.extent) || !is_contiguous(store->indices, lane)) return 1;
  const int64_t row = int_value(innermost.extent);
  const int64_t width =
      reads_accumulators(store->value, row) ? vector_width(row, target) : row_width(row, target);
  if (width == 1) return 1;
  bool in_vectors = loads_in_strides(store->value, lane, kMostLaneStride, /*past_others=*/true) ||
                    loads_contiguously_by_vectors(block, store->value, lane, width) ||
                    loads_in_runs(block, store->value, lane, width);
  if (!in_vectors) {
    // Three phases in turn lie equally far apart in every third vector, a run of each.
    const int64_t period = period_along(block, innermost), lanes = lanes_of_periods(period, row, width);
    const bool in_periods =
        lanes > 1 && lanes != width && loads_in_runs(block, store->value, lane, lanes, /*most=*/period);
    return in_periods ? lanes : 1;
  }
  const int64_t together = vectors_at_once(store->value);
  return row >= 2 * together * width ? together * width : width;
}

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

/// How many of the innermost loops to run through as one: a row of 17 fills two vectors of 16 by half,
/// several together fill theirs.
int64_t loops_worth_joining(const Schedule& s, const std::vector<LoopHandle>& loops, int64_t most,
                            const Target& target) {
  constexpr double kLeastFilled = 0.8;
  int64_t extent = 1;
  for (int64_t joined = 1; joined <= most; ++joined) {
    extent *= int_value(s[loops[loops.size() - static_cast<size_t>(joined)]]->extent);
    int64_t lanes = (extent + target.lanes() - 1) / target.lanes() * target.lanes();
    if (static_cast<double>(extent) >= kLeastFilled * static_cast<double>(lanes)) return joined;
  }
  return 1;
}

/// Lanes of the vectors that the block, scheduled as it is, loads and stores.
int64_t lanes_at_once(const Schedule& s, const Block& block, const Target& target) {
  Schedule trial = s;
  const std::vector<LoopHandle> loops = trial.get_loops(trial.get_block(block.name));
  if (loops.empty()) return 1;
  const int64_t joined = loops_worth_joining(trial, loops, loops_of_line(trial, block, loops), target);
  const int64_t lanes = joined > 1 ? target.lanes() : lanes_for(block, *trial[loops.back()], target);
  return lanes < kFewestLanes ? 1 : lanes;
}

bool is_in_vectors(const Schedule& s, const Block& block, const Target& target) {
  return is_transposition(block, target) || lanes_at_once(s, block, target) > 1;
}

/// Each element of a row divides to find what it reads: the row has too many to be known one by one.
bool divides_each(const Schedule& s, const Block& block, const Target& target) {
  Schedule trial = s;
  const std::vector<LoopHandle> loops = trial.get_loops(trial.get_block(block.name));
  if (loops.empty()) return false;
  const For& row = *trial[loops.back()];
  const int64_t extent = int_value(row.extent);
  return period_along(block, row) > 1 && extent > target.lanes() &&
         whole_row(copies_in_row(block, extent), block, row) == 1;
}

/// What the block reads is more than the first-level cache keeps.
bool reads_from_afar(const Block& block, const Target& target) {
  int64_t bytes = 0;
  for (const Region& read : block.reads) bytes += byte_size(read.buffer);
  return bytes > target.l1_bytes;
}

/// What an element takes, in the time of a single one that is copied. Turned in registers, each vector takes
/// some shuffles; one by one, the elements of a line are read at different times.
double time_of_element(const Schedule& s, const Block& block, const Target& target) {
  constexpr double kTurned = 0.5, kFromAfar = 2, kDivided = 4;
  Schedule trial = s;
  if (schedule_transposed(trial, trial.get_block(block.name), target, {Decide::kHeuristic})) return kTurned;
  const int64_t lanes = lanes_at_once(s, block, target);
  if (lanes > 1) return 1 / static_cast<double>(lanes);
  if (divides_each(s, block, target)) return kDivided;
  return reads_from_afar(block, target) ? kFromAfar : 1;
}

/// Reads, as a rule, from where a quotient or a remainder says: of a reshaped tensor, or of channels in
/// blocks.
bool divides_indices(const Block& block) {
  bool found = false;
  post_order(block.body.as<Store>()->value, [&](const NodeRef& node) {
    const Binary* binary = node.as<Binary>();
    found |= binary && (binary->op == BinaryOp::kFloorDiv || binary->op == BinaryOp::kFloorMod);
  });
  return found;
}

/// Whether `block` and a user of it are in vectors, of which the user would not be any more with the block
/// inlined: rows of 32 channels out of blocks of 8, joined behind a row of 4, are parts of two blocks.
bool loses_vectors(const Schedule& s, const Ref<Block>& block, const Target& target) {
  const std::vector<Ref<Block>> users = consumers_of(s.func(), block);
  const bool divides =
      divides_indices(*block) ||
      std::any_of(users.begin(), users.end(), [](const Ref<Block>& user) { return divides_indices(*user); });
  if (!divides || !is_in_vectors(s, *block, target)) return false;
  Schedule trial = s;
  trial.compute_inline(trial.get_block(block->name));
  return std::any_of(users.begin(), users.end(), [&](const Ref<Block>& user) {
    return is_in_vectors(s, *user, target) &&
           !is_in_vectors(trial, *trial[trial.get_block(user->name)], target);
  });
}

/// What the program ends with once the rest is inlined, `kept` aside.
struct Ending {
  Ref<Block> block;
  int64_t lanes, kept_lanes;       // that its rows, and those of what is kept, are computed in
  bool computes, computes_before;  // functions, in it and in what is kept
};
bool computes(const Block& block) {
  const Store* store = block.body.as<Store>();
  bool found = false;
  if (store) post_order(store->value, [&](const NodeRef& node) { found |= is_chain(node); });
  return found;
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
/// On a copy, with all that is element-wise inlined but `kept`.
Ending ending(const Schedule& s, const std::string& kept, const Target& target) {
  Schedule trial = s;
  inline_in_vectors(trial, kept, target);
  Ref<Block> block = all_blocks(trial.func()).back();
  auto lanes = [&](const Block& each) {
    std::vector<LoopHandle> loops = trial.get_loops(trial.get_block(each.name));
    return loops.empty() ? 1 : lanes_for(each, *trial[loops.back()], target);
  };
  if (kept.empty()) return {block, lanes(*block), 1, computes(*block), false};
  const Block& before = *trial[trial.get_block(kept)];
  return {block, lanes(*block), lanes(before), computes(*block), computes(before)};
}

/// The last ones: each is tried, which inlines the rest. Sixteen taps are a hundred blocks, nine images
/// sampled eight hundred: of so many fewer, which takes seconds already.
std::vector<std::string> last_of(std::vector<std::string> names, size_t blocks) {
  constexpr size_t kTried = 8, kMostInlined = 512;
  const size_t tried = std::clamp<size_t>(kMostInlined / blocks, 1, kTried);
  if (names.size() > tried) names.erase(names.begin(), names.end() - static_cast<std::ptrdiff_t>(tried));
  return names;
}

/// What joins tensors, in vectors, before they are turned: of one tensor that is done by tiles, of a choice
/// element by element. And what chooses the elements of which functions are computed, in vectors then: a copy
/// alone, too.
std::string preferred_kept(const Schedule& s, const std::vector<std::string>& joins,
                           const std::vector<std::string>& all, const Target& target) {
  if (all.empty()) return "";
  const Ending merged = ending(s, "", target);
  // Turned as it is: nothing has to be kept.
  if (is_transposition(*merged.block, target)) return "";
  // Nor where vectors are put together of what lies in several places.
  if (merged.lanes > 1 && !merged.computes) return "";
  const size_t blocks = all_blocks(s.func()).size();
  for (const std::string& name : last_of(joins, blocks))
    if (Ending end = ending(s, name, target); end.kept_lanes > 1 && is_transposition(*end.block, target))
      return name;
  if (!merged.computes || merged.lanes > 1) return "";
  const std::vector<std::string> choosing = last_of(all, blocks);
  for (auto name = choosing.rbegin(); name != choosing.rend(); ++name)
    if (Ending end = ending(s, *name, target); end.lanes > 1 && !end.computes_before) return *name;
  return "";
}
}  // namespace

namespace {
/// What the element-wise blocks take, in the time of a single element that is copied.
double time_of(const Schedule& s, const Target& target) {
  double time = 0;
  for (const Ref<Block>& block : all_blocks(s.func()))
    if (is_injective(*block) && !is_constant(s.func(), block->writes[0].buffer))
      time += static_cast<double>(iterations(*block)) * time_of_element(s, *block, target);
  return time;
}
}  // namespace

void inline_in_vectors(Schedule& s, const std::string& kept, const Target& target) {
  const Stays is_kept = [&](const Schedule&, const Ref<Block>& block) { return block->name == kept; };
  const Stays keeps_vectors = [&](const Schedule& now, const Ref<Block>& block) {
    return block->name == kept || loses_vectors(now, block, target);
  };
  // Once and for all: what its users are inlined into in turn may find the vectors again.
  std::set<std::string> lost;
  const Stays keeps_first = [&](const Schedule& now, const Ref<Block>& block) {
    if (!lost.count(block->name) && !keeps_vectors(now, block)) return false;
    lost.insert(block->name);
    return true;
  };
  const auto inlined = [&](const Stays& stays) {
    Schedule trial = s;
    lost.clear();
    inline_elementwise(trial, stays);
    return trial;
  };
  const Schedule merged = inlined(is_kept);
  const std::vector<Ref<Block>> blocks = all_blocks(merged.func());
  // Only then: each step alone may lose vectors that the next one finds again, as a sum of tensors that are
  // turned and turned back.
  const bool gathers = std::any_of(blocks.begin(), blocks.end(), [&](const Ref<Block>& block) {
    return is_injective(*block) && !is_in_vectors(merged, *block, target);
  });
  const Stays* best = &is_kept;
  if (gathers) {
    // What is kept goes through memory, and single elements that are copied may be known when they are
    // unrolled.
    constexpr double kLeastGain = 2;
    double least = time_of(merged, target) / kLeastGain;
    for (const Stays* stays : {&keeps_vectors, &keeps_first}) {
      const double time = time_of(inlined(*stays), target);
      if (time < least) best = stays, least = time;
    }
  }
  lost.clear();
  inline_elementwise(s, *best);
}

std::string choose_kept(Schedule& s, const Target& target, const Policy& policy) {
  std::vector<std::string> joins, all;
  std::string last_copy;
  for (const Ref<Block>& block : all_blocks(s.func())) {
    if (!is_injective(*block) || !is_intermediate(s.func(), *block) ||
        !all_elementwise(consumers_of(s.func(), block)))
      continue;
    all.push_back(block->name);
    if (!is_cheap(*block))
      joins.push_back(block->name);
    else if (!computes(*block))
      last_copy = block->name;
  }
  if (policy.decide == Decide::kHeuristic) return preferred_kept(s, joins, all, target);
  std::vector<std::string> names = joins;
  if (!last_copy.empty() && computes(*all_blocks(s.func()).back())) names.push_back(last_copy);
  if (names.empty()) return "";
  // As often none as any.
  std::vector<int64_t> choices(names.size(), 0);
  for (size_t i = 0; i < names.size(); ++i) choices.push_back(static_cast<int64_t>(i) + 1);
  int64_t choice = choose_one_of(s, choices, 0, policy);
  return choice == 0 ? "" : names[static_cast<size_t>(choice) - 1];
}

namespace {
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
  const Ref<Block> body = s[block];
  std::vector<LoopHandle> lines = s.get_loops(block);
  if (vectorize_packed(s, block, lines, target)) {
    if (pays_in_parallel(iterations(*body), target)) run_parallel(s, lines, target);
    return;
  }
  ElementLoops loops = element_loops(s, block, target, policy);
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
