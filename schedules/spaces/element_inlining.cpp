// Which element-wise blocks are inlined where that decides what is computed in vectors: by what the blocks
// that are left would take.
#include <algorithm>
#include <map>

#include "core/support/node_map.h"
#include "schedules/row_program.h"
#include "schedules/spaces/building_blocks.h"
#include "schedules/spaces/element_lanes.h"

namespace lathe::schedule {

using namespace tir;

namespace {
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
  std::map<std::string, Ending> known;  // each inlines all but one
  const auto with_kept = [&](const std::string& kept) -> const Ending& {
    auto found = known.find(kept);
    if (found == known.end()) found = known.emplace(kept, ending(s, kept, target)).first;
    return found->second;
  };
  const Ending merged = with_kept("");
  // Turned as it is: nothing has to be kept.
  if (is_transposition(*merged.block, target)) return "";
  // Nor where vectors are put together of what lies in several places.
  if (merged.lanes > 1 && !merged.computes) return "";
  const size_t blocks = all_blocks(s.func()).size();
  for (const std::string& name : last_of(joins, blocks))
    if (const Ending& end = with_kept(name); end.kept_lanes > 1 && is_transposition(*end.block, target))
      return name;
  if (!merged.computes || merged.lanes > 1) return "";
  const std::vector<std::string> choosing = last_of(all, blocks);
  for (auto name = choosing.rbegin(); name != choosing.rend(); ++name)
    if (const Ending& end = with_kept(*name); end.lanes > 1 && !end.computes_before) return *name;
  return "";
}

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

}  // namespace lathe::schedule
