#include "schedules/spaces/element_lanes.h"

#include <algorithm>
#include <numeric>

#include "core/arith/chain.h"
#include "core/support/error.h"
#include "schedules/open_dims.h"
#include "schedules/spaces/building_blocks.h"
#include "schedules/spaces/vector_loads.h"
#include "schedules/tile_model.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// How many vectors to compute at a time: chains leave the units idle otherwise.
int64_t vectors_at_once(const Expr& value) {
  bool chains = false;
  post_order(value, [&](const NodeRef& node) { chains |= is_chain(node); });
  return chains ? 2 : 1;
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

/// The fewest vectors that are together a whole number of periods, or as much of one vector; 1: too little.
int64_t lanes_of_periods(int64_t period, int64_t row, int64_t width) {
  constexpr int64_t kMostVectors = 4;
  const int64_t whole = std::lcm(period, width);
  if (whole <= std::min(kMostVectors * width, row)) return whole;
  const int64_t step = std::lcm(period, kFewestLanes), part = width / step * step;
  return 2 * part > width ? part : 1;
}
}  // namespace

Var variable_of(const Block& block, const For& loop) {
  for (const BlockIter& iter : block.iters) {
    if (!uses_var(iter.value, loop.var.get())) continue;
    std::vector<Var> vars{loop.var};
    auto form = linear_form(iter.value, vars);
    return form && form->coefficients[loop.var.get()] == 1 ? iter.var : Var();
  }
  return {};
}

bool computes(const Block& block) {
  const Store* store = block.body.as<Store>();
  bool found = false;
  if (store) post_order(store->value, [&](const NodeRef& node) { found |= is_chain(node); });
  return found;
}

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

std::vector<int64_t> copies_in_row(const Block& block, int64_t vectors) {
  constexpr int64_t kMost = 16;
  return copies_of(vectors, std::min(kMost, copies_worth(block.body.as<Store>()->value)));
}

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

int64_t whole_row(const std::vector<int64_t>& counts, const Block& block, const For& row) {
  for (int64_t copies : {int_value(row.extent), period_along(block, row)})
    if (std::find(counts.begin(), counts.end(), copies) != counts.end()) return copies;
  return 1;
}

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

namespace {
int64_t lanes_of_whole_rows(const Schedule& s, const Block& block, const Target& target) {
  Schedule trial = s;
  const std::vector<LoopHandle> loops = trial.get_loops(trial.get_block(block.name));
  if (loops.empty()) return 1;
  const int64_t joined = loops_worth_joining(trial, loops, loops_of_line(trial, block, loops), target);
  const int64_t lanes = joined > 1 ? target.lanes() : lanes_for(block, *trial[loops.back()], target);
  return lanes < kFewestLanes ? 1 : lanes;
}

/// What divides `row`, of those that the block divides its variable by, from the largest on.
std::vector<int64_t> lengths_in_row(const Block& block, const BlockIter& row) {
  std::vector<int64_t> lengths;
  post_order(block.body.as<Store>()->value, [&](const NodeRef& node) {
    const Binary* binary = node.as<Binary>();
    if (!binary || (binary->op != BinaryOp::kFloorDiv && binary->op != BinaryOp::kFloorMod)) return;
    const int64_t* length = as_int(binary->b);
    if (length && *length >= kFewestLanes && *length < int_value(row.extent) &&
        int_value(row.extent) % *length == 0 && uses_var(binary->a, row.var.get()))
      lengths.push_back(*length);
  });
  std::sort(lengths.rbegin(), lengths.rend());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  return lengths;
}
}  // namespace

std::optional<Groups> rows_in_row(const Schedule& s, const Block& block, const Target& target) {
  constexpr size_t kTried = 2;
  // A length of a typical size is none of the others.
  if (is_for_typical_dims(*s.func()) || block.iters.empty() || !as_int(block.iters.back().extent))
    return std::nullopt;
  const Groups last{static_cast<int64_t>(block.iters.size()) - 1, 1};
  const std::vector<int64_t> lengths = lengths_in_row(block, block.iters.back());
  if (lengths.empty() || is_transposition(block, target) || lanes_of_whole_rows(s, block, target) > 1)
    return std::nullopt;
  for (size_t i = 0; i < std::min(lengths.size(), kTried); ++i) {
    Schedule trial = s;
    const BlockHandle handle = trial.get_block(block.name);
    try {
      trial.split_variable(handle, last.variable, lengths[i]);
    } catch (const Error&) {
      return std::nullopt;  // it is scheduled already
    }
    if (lanes_of_whole_rows(trial, *trial[handle], target) > 1) return Groups{last.variable, lengths[i]};
  }
  return std::nullopt;
}

int64_t lanes_at_once(const Schedule& s, const Block& block, const Target& target) {
  const std::optional<Groups> groups = rows_in_row(s, block, target);
  if (!groups) return lanes_of_whole_rows(s, block, target);
  Schedule trial = s;
  const BlockHandle handle = trial.get_block(block.name);
  trial.split_variable(handle, groups->variable, groups->length);
  return lanes_of_whole_rows(trial, *trial[handle], target);
}

bool is_in_vectors(const Schedule& s, const Block& block, const Target& target) {
  return is_transposition(block, target) || lanes_at_once(s, block, target) > 1;
}

}  // namespace lathe::schedule
