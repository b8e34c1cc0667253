// Row by row: all blocks of a program of rows in turn inside the loop over rows, so that a row comes from
// memory once and what is between the blocks stays in the first-level cache. Where there are fewer rows than
// cores, block by block, each row in parts.
#include "schedules/spaces/rows.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "core/support/error.h"
#include "core/tir/machine.h"
#include "schedules/row_program.h"
#include "schedules/spaces/building_blocks.h"
#include "schedules/tile_model.h"

namespace lathe::schedule {

using namespace tir;

std::vector<LoopHandle> loops_inside(Schedule& s, BlockHandle block, std::optional<LoopHandle> place) {
  std::vector<LoopHandle> inside;
  bool below = !place;
  for (LoopHandle loop : s.get_loops(block)) {
    if (below) inside.push_back(loop);
    below |= place && s[loop]->var == s[*place]->var;
  }
  return inside;
}

bool carries_reduction(const Block& block, const For& loop) {
  return std::any_of(block.iters.begin(), block.iters.end(), [&](const BlockIter& iter) {
    return iter.kind == IterKind::kReduce && uses_var(iter.value, loop.var.get());
  });
}

std::optional<LoopHandle> rows_together(Schedule& s, std::vector<LoopHandle>& rows, int64_t elements,
                                        const Policy& policy) {
  constexpr int64_t kMostTogether = 8, kShort = 256;
  auto several =
      std::find_if(rows.rbegin(), rows.rend(), [&](LoopHandle loop) { return !is_int(s[loop]->extent, 1); });
  if (several == rows.rend()) return std::nullopt;
  std::vector<int64_t> counts = copies_of(int_value(s[*several]->extent), kMostTogether);
  const bool pays =
      elements <= kShort && std::find(counts.begin(), counts.end(), kMostTogether) != counts.end();
  const int64_t preferred = pays ? kMostTogether : 1;
  auto parts = s.split(*several, {kInferred, sample_one_of(s, counts, preferred, policy)});
  *several = parts[0];
  return parts[1];
}

void inline_in_rows(Schedule& s, const Policy& policy) {
  // What was decided to stay is not asked about again, though the search for blocks begins anew after each
  // change.
  std::set<std::string> kept;
  for (bool changed = true; changed;) {
    changed = false;
    const Readers readers(s.func());
    for (const Ref<Block>& block : all_blocks(s.func())) {
      const std::vector<Ref<Block>> consumers = readers.consumers_of(block);
      if (kept.count(block->name) || !is_used_once(s.func(), block, consumers)) continue;
      bool cheap = is_cheap(*block), single = consumers.size() == 1;
      if (!cheap && choose_one_of(s, {0, 1}, single ? 1 : 0, policy) == 0) {
        kept.insert(block->name);
        continue;
      }
      s.compute_inline(s.get_block(block->name));
      changed = true;
      break;
    }
  }
}

void compute_in_rows(Schedule& s, const std::string& last, LoopHandle place) {
  std::vector<Ref<Block>> blocks = all_blocks(s.func());
  // From the last to the first: a block moves to where its readers already are.
  for (size_t i = blocks.size(); i-- > 0;)
    if (blocks[i]->name != last) s.compute_at(s.get_block(blocks[i]->name), place);
  for (const Ref<Block>& block : blocks)
    if (block->name != last) s.set_scope(s.get_block(block->name), 0, Scope::kLocal);
}

namespace {
/// Lanes for that many neighbours: the target's, or as few as hold them all.
int64_t lanes_for(int64_t extent, const Target& target) {
  auto needed = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(extent, 1))));
  return std::min<int64_t>(target.lanes(), needed);
}

/// The lanes for so many neighbours, as a heuristic; half as many, or two vectors of them.
std::vector<int64_t> widths_for(int64_t extent, const Target& target) {
  constexpr int64_t kFewest = 4;
  int64_t width = lanes_for(extent, target);
  std::vector<int64_t> widths{width};
  if (width / 2 >= kFewest) widths.push_back(width / 2);
  if (width >= kFewest && 2 * width <= extent) widths.push_back(2 * width);
  return widths;
}

/// A power of 2 up to `most`; as a heuristic the largest up to `preferred`.
Factor sample_count(Schedule& s, int64_t most, int64_t preferred, const Policy& policy) {
  return sample_one_of(s, powers_of_two(most), powers_of_two(std::min(most, preferred)).back(), policy);
}

/// The loops around rows, and the innermost of them, in which a row (or a vector of rows) is computed.
struct RowLoops {
  std::vector<LoopHandle> outer;
  std::optional<LoopHandle> place;
};

/// Vectors of rows computed at once, where neighbours are neighbouring rows.
constexpr int64_t kMostAcross = 8, kAcross = 2;

RowLoops row_loops(Schedule& s, BlockHandle last, const RowProgram& rows, const Target& target,
                   const Policy& policy) {
  std::vector<LoopHandle> loops = s.get_loops(last), inside;
  RowLoops result;
  for (size_t i = 0; i < loops.size(); ++i) {
    auto row = std::find_if(rows.rows.begin(), rows.rows.end(),
                            [&](const RowVariable& each) { return each.variable == i; });
    if (row == rows.rows.end()) {
      inside.push_back(loops[i]);
      continue;
    }
    // Loops over whole rows stay outside; a loop that counts rows and what lies in them is split where a row
    // ends, and the one along neighbouring rows into vectors.
    bool lanes = rows.across && i == rows.rows.back().variable;
    if (!lanes && row->divisor == 1) {
      result.outer.push_back(loops[i]);
      continue;
    }
    std::vector<LoopHandle> parts;
    if (lanes) {
      int64_t extent = int_value(s[loops[i]]->extent), width = lanes_for(extent, target);
      std::vector<int64_t> counts = powers_of_two(std::min(kMostAcross, extent / width));
      int64_t preferred = std::min(kAcross, counts.back());
      for (int64_t& count : counts) count *= width;
      parts = s.split(loops[i], {kInferred, sample_one_of(s, counts, preferred * width, policy)});
    } else {
      parts = s.split(loops[i], {kInferred, row->divisor});
    }
    result.outer.push_back(parts[0]);
    inside.push_back(parts[1]);
  }
  choose_innermost(s, result.outer, policy);
  // Of rows that are neighbours, what is inside are elements of several already.
  int64_t elements = rows.across ? std::numeric_limits<int64_t>::max() : 1;
  if (!rows.across)
    for (LoopHandle loop : inside) elements *= int_value(s[loop]->extent);
  if (auto together = rows_together(s, result.outer, elements, policy))
    inside.insert(inside.begin(), *together);
  std::vector<LoopHandle> order = result.outer;
  order.insert(order.end(), inside.begin(), inside.end());
  if (order.size() > 1) s.reorder(order);
  if (!result.outer.empty()) result.place = result.outer.back();
  return result;
}

/// The innermost of `loops` of more than one iteration along which the block runs through neighbours.
std::optional<size_t> lane_loop(const Block& block, const std::vector<Ref<For>>& loops) {
  const Store& store = *block.body.as<Store>();
  for (size_t i = loops.size(); i-- > 0;) {
    if (is_int(loops[i]->extent, 1)) continue;
    std::optional<size_t> v = variable_along(block, *loops[i]);
    if (!v || block.iters[*v].kind != IterKind::kSpatial) continue;
    const Var& lane = block.iters[*v].var;
    if (is_contiguous(store.indices, lane) && loads_in_lanes(block, store.value, lane)) return i;
  }
  return std::nullopt;
}

/// Fuses the two innermost loops where what they run through is one line in memory; as a heuristic where
/// vectors fill that better: rows of an image, say. Whether it did.
bool join_innermost(Schedule& s, BlockHandle block, std::vector<LoopHandle>& loops, const Target& target,
                    const Policy& policy) {
  if (loops.size() < 2) return false;
  LoopHandle &outer = loops[loops.size() - 2], &inner = loops.back();
  const Block& b = *s[block];
  std::optional<size_t> o = variable_along(b, *s[outer]), i = variable_along(b, *s[inner]);
  bool whole = o && i && !is_int(s[outer]->extent, 1) &&
               structural_equal(s[outer]->extent, b.iters[*o].extent) &&
               structural_equal(s[inner]->extent, b.iters[*i].extent);
  if (!whole) return false;
  bool joined = true;
  VarMap single;  // variables of one value
  for (const BlockIter& iter : b.iters)
    if (is_int(iter.extent, 1)) single[iter.var.get()] = 0;
  Analyzer simple;
  // Loops of one value would keep two dimensions apart that are neighbours in memory: their variables are 0.
  const auto check = [&](const Buffer& buffer, std::vector<Expr> indices) {
    for (Expr& index : indices) index = simple.simplify(substitute(index, single));
    joined &= joins(buffer, indices, b.iters[*o], b.iters[*i]);
  };
  post_order(b.body, [&](const NodeRef& node) {
    if (const Load* load = node.as<Load>()) check(load->buffer, load->indices);
    if (const Store* store = node.as<Store>()) check(store->buffer, store->indices);
  });
  if (!joined) return false;
  int64_t fills_better = int_value(s[inner]->extent) % target.lanes() != 0;
  if (choose_one_of(s, {0, 1}, fills_better, policy) == 0) return false;
  outer = s.fuse({outer, inner});
  loops.pop_back();
  return true;
}

/// The lane loop goes innermost and is cut into vectors of `width`; `unrolled` of them, or all.
void vectorize(Schedule& s, std::vector<LoopHandle> loops, size_t lanes, const Factor& width,
               std::optional<Factor> unrolled) {
  LoopHandle along = loops[lanes];
  loops.erase(loops.begin() + static_cast<int64_t>(lanes));
  std::vector<LoopHandle> order = loops;
  order.push_back(along);
  if (order.size() > 1) s.reorder(order);
  auto parts = unrolled ? s.split(along, {kInferred, *unrolled, width}) : s.split(along, {kInferred, width});
  s.unroll(parts[parts.size() - 2]);
  s.vectorize(parts.back());
}

std::vector<Ref<For>> nodes_of(const Schedule& s, const std::vector<LoopHandle>& loops) {
  std::vector<Ref<For>> nodes;
  for (LoopHandle loop : loops) nodes.push_back(s[loop]);
  return nodes;
}

/// Vectors that a row of so many elements takes, as a power of 2, where it then needs no loop: what is
/// between its steps stays in registers. 0: too many.
int64_t vectors_of_short_row(int64_t extent, int64_t lanes, const Target& target) {
  const int64_t most_in_registers = target.vector_registers / 4;
  const auto vectors =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>((extent + lanes - 1) / lanes)));
  return vectors <= most_in_registers ? vectors : 0;
}

/// Several vectors in flight hide what a call of an elementary function takes.
constexpr int64_t kMostUnrolled = 8, kUnrolled = 2;

void schedule_elements(Schedule& s, BlockHandle block, std::vector<LoopHandle> loops, const Target& target,
                       const Policy& policy) {
  std::optional<size_t> lanes = lane_loop(*s[block], nodes_of(s, loops));
  if (!lanes) return;
  if (*lanes + 1 == loops.size() && join_innermost(s, block, loops, target, policy)) lanes = loops.size() - 1;
  int64_t extent = int_value(s[loops[*lanes]]->extent), lanes_preferred = lanes_for(extent, target);
  Factor width = sample_one_of(s, widths_for(extent, target), lanes_preferred, policy);
  const int64_t whole = vectors_of_short_row(extent, lanes_preferred, target);
  Factor unrolled = sample_count(s, std::max(std::min(kMostUnrolled, extent / lanes_preferred), whole),
                                 std::max(kUnrolled, whole), policy);
  vectorize(s, loops, *lanes, width, unrolled);
}

/// A reduction of neighbouring rows: a vector of results each.
void reduce_across(Schedule& s, BlockHandle block, const std::vector<LoopHandle>& loops, const Target& target,
                   const Policy& policy) {
  std::vector<LoopHandle> spatial, reduce;
  for (LoopHandle loop : loops) (carries_reduction(*s[block], *s[loop]) ? reduce : spatial).push_back(loop);
  if (!reduce.empty()) {
    int64_t terms = int_value(s[reduce.back()]->extent);
    auto parts = s.split(reduce.back(), {kInferred, sample_one_of(s, copies_of(terms), 1, policy)});
    s.unroll(parts[1]);
    reduce.back() = parts[0];
    reduce.push_back(parts[1]);
  }
  std::vector<LoopHandle> order = spatial;
  order.insert(order.end(), reduce.begin(), reduce.end());
  if (order.size() > 1) s.reorder(order);
  std::optional<size_t> lanes = lane_loop(*s[block], nodes_of(s, order));
  if (lanes)
    vectorize(s, order, *lanes, lanes_for(int_value(s[order[*lanes]]->extent), target), std::nullopt);
  if (reduce.empty()) return;  // of one term
  s.decompose_reduction(block, reduce[0]);
}

/// Partial results enough to hide the latency of an addition where there are terms for that many.
constexpr int64_t kMostVectors = 16, kVectors = 4;

/// A reduction along the row: partial results along the lanes of several vectors.
void reduce_along(Schedule& s, BlockHandle block, const std::vector<LoopHandle>& loops, const Target& target,
                  const Policy& policy) {
  std::vector<LoopHandle> reduce;
  for (LoopHandle loop : loops)
    if (carries_reduction(*s[block], *s[loop])) reduce.push_back(loop);
  if (reduce.empty()) return;  // of one term
  Ref<Block> reduction = s[block];
  std::optional<size_t> innermost = variable_along(*reduction, *s[reduce.back()]);
  const Store& update = *reduction->body.as<Store>();
  if (!innermost ||
      !loads_in_lanes(*reduction, update.value.as<Binary>()->b, reduction->iters[*innermost].var))
    return;
  join_innermost(s, block, reduce, target, policy);
  int64_t extent = int_value(s[reduce.back()]->extent), preferred = lanes_for(extent, target);
  Factor width = sample_one_of(s, widths_for(extent, target), preferred, policy);
  const int64_t whole = vectors_of_short_row(extent, preferred, target);
  Factor vectors = sample_count(s, std::max(std::min(kMostVectors, extent / preferred), whole),
                                std::max(kVectors, whole), policy);
  s.reduce_in_lanes(block, vectors, width);
}
}  // namespace

void schedule_in_row(Schedule& s, BlockHandle block, std::optional<LoopHandle> place, const Target& target,
                     const Policy& policy) {
  const std::vector<LoopHandle> inside = loops_inside(s, block, place);
  if (is_injective(*s[block]))
    schedule_elements(s, block, inside, target, policy);
  else
    reduce_along(s, block, inside, target, policy);
}

bool has_rows(const Func& func, const Target&) {
  // Before anything is inlined, as there are many programs without one.
  if (!dominant_reduction(func)) return false;
  Schedule merged(func);
  inline_in_rows(merged, {Decide::kHeuristic});
  std::optional<RowProgram> rows = row_program(merged.func());
  return rows && rows->row_bytes <= kStackBytes;
}

void generate_rows(Schedule& s, const Target& target, const Policy& policy) {
  inline_in_rows(s, policy);
  std::optional<RowProgram> rows = row_program(s.func());
  // Which blocks are kept is sampled, and one that is kept can make rows too long or leave none.
  if (!rows || rows->row_bytes > kStackBytes) fail("with these blocks kept, it does not go row by row");
  int64_t work = 0;
  for (const Ref<Block>& block : all_blocks(s.func())) work += iterations(*block);
  BlockHandle last = s.get_block(rows->last);
  // Results in memory would be read and written for each term.
  if (rows->across && is_reduction(*s[last])) last = s.cache_write(last, 0, Scope::kLocal);
  RowLoops loops = row_loops(s, last, *rows, target, policy);
  if (loops.place) compute_in_rows(s, s[last]->name, *loops.place);
  for (const Ref<Block>& block : all_blocks(s.func())) {
    BlockHandle handle = s.get_block(block->name);
    if (rows->across && !is_injective(*block))
      reduce_across(s, handle, loops_inside(s, handle, loops.place), target, policy);
    else
      schedule_in_row(s, handle, loops.place, target, policy);
  }
  if (pays_in_parallel(work, target)) run_parallel(s, loops.outer, target, policy);
}

namespace {
int64_t results_of(const Block& block) {
  int64_t count = 1;
  for (const BlockIter& iter : block.iters)
    if (iter.kind != IterKind::kReduce) count *= int_value(iter.extent);
  return count;
}

/// A variable of a reduction, by position, and into how many equal parts it may be cut so that all cores have
/// some; no counts where there is none.
struct Parts {
  size_t variable = 0;
  std::vector<int64_t> counts;  // ascending
};
Parts parts_for_cores(const Block& reduction, const Target& target) {
  constexpr int64_t kMostACore = 8;
  const int64_t results = results_of(reduction), fewest = (target.cores + results - 1) / results;
  for (size_t i = 0; i < reduction.iters.size(); ++i) {
    if (reduction.iters[i].kind != IterKind::kReduce) continue;
    Parts parts{i, {}};
    const int64_t extent = int_value(reduction.iters[i].extent);
    for (int64_t count = fewest; count <= std::min(extent, kMostACore * fewest); ++count)
      if (extent % count == 0) parts.counts.push_back(count);
    if (!parts.counts.empty()) return parts;
  }
  return {};
}

/// Worth the cores, and of fewer results than there are.
bool is_for_parts(const Block& reduction, const Target& target) {
  return is_reduction(reduction) && results_of(reduction) < target.cores &&
         pays_in_parallel(iterations(reduction), target) &&
         !parts_for_cores(reduction, target).counts.empty();
}

/// Each core reduces a part of the terms; what the parts give, few numbers, is reduced by one.
void reduce_parts(Schedule& s, BlockHandle block, const Target& target, const Policy& policy) {
  const Parts parts = parts_for_cores(*s[block], target);
  const std::vector<LoopHandle> loops = s.get_loops(block);
  const auto along = std::find_if(loops.begin(), loops.end(), [&](LoopHandle loop) {
    return variable_along(*s[block], *s[loop]) == parts.variable;
  });
  if (along == loops.end()) fail("no loop runs along what is to be cut into parts");
  const Factor count = sample_one_of(s, parts.counts, parts.counts.front(), policy);
  const auto cut = s.split(*along, {count, kInferred});
  std::vector<LoopHandle> outer, inside;
  for (auto loop = loops.begin(); loop != loops.end(); ++loop) {
    if (loop == along)
      inside.push_back(cut[1]);
    else
      (carries_reduction(*s[block], *s[*loop]) ? inside : outer).push_back(*loop);
  }
  outer.push_back(cut[0]);
  std::vector<LoopHandle> order = outer;
  order.insert(order.end(), inside.begin(), inside.end());
  s.reorder(order);
  reduce_along(s, s.rfactor(block, cut[0]), inside, target, policy);
  run_parallel(s, outer, target);
}
}  // namespace

bool has_row_parts(const Func& func, const Target& target) {
  // Before anything is inlined, which changes no reduction's size: few programs come further.
  const Ref<Block> largest = dominant_reduction(func);
  if (!largest || !is_for_parts(*largest, target)) return false;
  Schedule merged(func);
  inline_in_rows(merged, {Decide::kHeuristic});
  const std::optional<RowProgram> rows = row_program(merged.func());
  return rows && !rows->across;
}

void generate_row_parts(Schedule& s, const Target& target, const Policy& policy) {
  inline_in_rows(s, policy);
  for (const Ref<Block>& block : all_blocks(s.func())) {
    BlockHandle handle = s.get_block(block->name);
    if (is_injective(*block))
      schedule_injective(s, handle, target, policy);
    else if (is_for_parts(*block, target))
      reduce_parts(s, handle, target, policy);
    else
      reduce_along(s, handle, s.get_loops(handle), target, policy);
  }
}

}  // namespace lathe::schedule
