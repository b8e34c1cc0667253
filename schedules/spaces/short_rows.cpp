// Rows of a few elements that lie one behind the other, as probabilities of three classes or coordinates of
// points: a vector of a row would be mostly empty, and its sums go through its lanes. Here lanes are rows:
//
//   parallel for vectors of rows:
//     for each block in turn, for each element k of a row, unrolled:
//       for row: block[k, row] = ...                      vectors
//
// Code generation takes the elements at one place of as many rows out of whole vectors (emit_rows.cpp).
#include <algorithm>

#include "core/support/error.h"
#include "core/tir/row_lengths.h"
#include "schedules/row_program.h"
#include "schedules/spaces/rows.h"

namespace lathe::schedule {

using namespace tir;

namespace {
bool is_short(int64_t length, const Target& target) {
  return is_short_row(length, /*takes_of_two_vectors=*/target.vector_bits >= 512);
}

/// Elements of a row: iterations of the block for each of its rows.
int64_t row_length(const Block& block, const std::vector<RowVariable>& rows) {
  int64_t length = 1;
  for (size_t i = 0; i < block.iters.size(); ++i)
    if (std::none_of(rows.begin(), rows.end(), [&](const RowVariable& row) { return row.variable == i; }))
      length *= int_value(block.iters[i].extent);
  return length;
}

/// What is read or written at `indices` for neighbouring rows `lane`: the same, neighbours, or the elements
/// at one place of rows of the buffer.
bool goes_by_rows(const Buffer& buffer, std::vector<Expr> indices, const Var& lane, const Target& target) {
  if (buffer->dtype.bits != 32) return false;
  if (!any_uses(indices, lane)) return true;
  // Dimensions of one are none.
  while (indices.size() > 1 && is_int(buffer->shape[indices.size() - 1], 1)) indices.pop_back();
  if (is_contiguous(indices, lane)) return true;
  const int64_t* length = as_int(buffer->shape[indices.size() - 1]);
  return length && is_short(*length, target) && indices.size() == buffer->shape.size() &&
         !uses_var(indices.back(), lane.get()) && is_contiguous({indices.begin(), indices.end() - 1}, lane);
}

bool all_go_by_rows(const Block& block, const Var& lane, const Target& target) {
  bool good = true;
  post_order(block.body, [&](const NodeRef& node) {
    if (const Load* load = node.as<Load>()) good &= goes_by_rows(load->buffer, load->indices, lane, target);
    if (const Store* store = node.as<Store>())
      good &= goes_by_rows(store->buffer, store->indices, lane, target);
  });
  return good;
}

/// The loop of `loops` along which neighbours are neighbouring rows; nothing where there is none.
std::optional<size_t> lanes_of_rows(const Schedule& s, const Block& block,
                                    const std::vector<LoopHandle>& loops, const Target& target) {
  for (size_t i = 0; i < loops.size(); ++i) {
    const std::optional<size_t> v = variable_along(block, *s[loops[i]]);
    if (v && is_int(s[loops[i]]->extent, target.lanes()) && block.iters[*v].kind == IterKind::kSpatial &&
        any_uses(block.body.as<Store>()->indices, block.iters[*v].var) &&
        all_go_by_rows(block, block.iters[*v].var, target))
      return i;
  }
  return std::nullopt;
}

/// The dimension that lanes move along becomes the last of what the block writes.
void put_rows_last(Schedule& s, BlockHandle block, const Var& lane) {
  const Store& store = *s[block]->body.as<Store>();
  if (is_contiguous(store.indices, lane)) return;
  std::vector<int64_t> axes, last;
  for (size_t d = 0; d < store.indices.size(); ++d) {
    std::vector<int64_t>& place = uses_var(store.indices[d], lane.get()) ? last : axes;
    place.insert(place.end(), {static_cast<int64_t>(d), int_value(store.buffer->shape[d])});
  }
  axes.insert(axes.end(), last.begin(), last.end());
  s.transform_layout(block, 0, axes);
}

void schedule_in_lanes(Schedule& s, BlockHandle block, bool is_last, LoopHandle place, const Target& target) {
  std::vector<LoopHandle> loops = loops_inside(s, block, place);
  const std::optional<size_t> along = lanes_of_rows(s, *s[block], loops, target);
  if (!along) fail("block `{}` does not go by neighbouring rows", s[block]->name);
  const LoopHandle lane = loops[*along];
  if (!is_last) put_rows_last(s, block, s[block]->iters[*variable_along(*s[block], *s[lane])].var);
  loops.erase(loops.begin() + static_cast<int64_t>(*along));
  const auto first_term = std::stable_partition(
      loops.begin(), loops.end(), [&](LoopHandle loop) { return !carries_reduction(*s[block], *s[loop]); });
  const std::optional<LoopHandle> terms =
      first_term == loops.end() ? std::nullopt : std::optional(*first_term);
  std::vector<LoopHandle> order = loops;
  order.push_back(lane);
  if (order.size() > 1) s.reorder(order);
  for (LoopHandle loop : loops) s.unroll(loop);
  s.vectorize(lane);
  if (terms) s.decompose_reduction(block, *terms);
}

/// The innermost variable of several values that counts rows; nothing where there is none.
std::optional<size_t> variable_of_lanes(const Block& last, const std::vector<RowVariable>& rows) {
  for (size_t i = rows.size(); i-- > 0;)
    if (!is_int(last.iters[rows[i].variable].extent, 1)) return rows[i].variable;
  return std::nullopt;
}

/// The program's rows, where they are short and more than a vector has lanes.
std::optional<RowProgram> short_rows(const Func& func, const Target& target) {
  std::optional<RowProgram> rows = row_program(func);
  if (!rows || rows->across) return std::nullopt;
  const Block& last = *path_to_block(func, rows->last)->back().cast<Block>();
  const bool whole =
      std::all_of(rows->rows.begin(), rows->rows.end(), [](const RowVariable& r) { return r.divisor == 1; });
  const std::optional<size_t> lanes = variable_of_lanes(last, rows->rows);
  if (!whole || !lanes || int_value(last.iters[*lanes].extent) < target.lanes() ||
      !is_short(row_length(last, rows->rows), target))
    return std::nullopt;
  return rows;
}
}  // namespace

void generate_short_rows(Schedule& s, const Target& target, const Policy& policy) {
  inline_in_rows(s, policy);
  const std::optional<RowProgram> rows = short_rows(s.func(), target);
  if (!rows) fail("with these blocks kept, it does not go by short rows");
  int64_t work = 0;
  for (const Ref<Block>& block : all_blocks(s.func())) work += iterations(*block);
  BlockHandle last = s.get_block(rows->last);
  if (is_reduction(*s[last])) last = s.cache_write(last, 0, Scope::kLocal);
  const std::vector<LoopHandle> loops = s.get_loops(last);
  const std::optional<size_t> lanes = variable_of_lanes(*s[last], rows->rows);
  std::vector<LoopHandle> outer, inside;
  for (size_t i = 0; i < loops.size(); ++i) {
    const bool is_row = std::any_of(rows->rows.begin(), rows->rows.end(),
                                    [&](const RowVariable& row) { return row.variable == i; });
    if (i == lanes) {
      const auto parts = s.split(loops[i], {kInferred, target.lanes()});
      outer.push_back(parts[0]);
      inside.push_back(parts[1]);
    } else {
      (is_row ? outer : inside).push_back(loops[i]);
    }
  }
  std::vector<LoopHandle> order = outer;
  order.insert(order.end(), inside.begin(), inside.end());
  s.reorder(order);
  const std::string name = s[last]->name;
  compute_in_rows(s, name, outer.back());
  for (const Ref<Block>& block : all_blocks(s.func()))
    schedule_in_lanes(s, s.get_block(block->name), block->name == name, outer.back(), target);
  if (pays_in_parallel(work, target)) run_parallel(s, outer, target, policy);
}

bool has_short_rows(const Func& func, const Target& target) {
  // Before anything is inlined, as there are few programs with such rows.
  const auto has_rows = [&](const Buffer& param) {
    return !param->shape.empty() && as_int(param->shape.back()) &&
           is_short(int_value(param->shape.back()), target);
  };
  if (target.lanes() < 8 || std::none_of(func->params.begin(), func->params.end(), has_rows) ||
      !dominant_reduction(func))
    return false;
  Schedule trial(func);
  inline_in_rows(trial, {Decide::kHeuristic});
  if (!short_rows(trial.func(), target)) return false;
  try {
    Schedule whole(func);
    generate_short_rows(whole, target, {Decide::kHeuristic});
    return true;
  } catch (const Error&) {
    return false;  // what it reads lies in another order
  }
}

}  // namespace lathe::schedule
