#include "schedules/space.h"

#include <algorithm>
#include <memory>
#include <set>

#include "core/arith/simplify.h"
#include "core/support/error.h"
#include "core/tir/dims.h"
#include "core/tir/lower.h"
#include "schedules/family.h"
#include "schedules/primitive.h"
#include "schedules/spaces/building_blocks.h"
#include "schedules/tile_model.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// The reduction that dominates the program once element-wise blocks are merged and operands are prepared,
/// when it vectorizes; as a last resort with its terms computed inside.
std::optional<VectorReduction> main_reduction(Schedule& schedule, const Target& target,
                                              const Policy& policy) {
  inline_elementwise(schedule);
  if (!prepare_operands(schedule, target, policy) &&
      !(inline_terms(schedule) && prepare_operands(schedule, target, policy)))
    return std::nullopt;
  auto reduction = vector_reduction(dominant_reduction(schedule.func()));
  if (!reduction || vector_width(*reduction, target) == 1) return std::nullopt;
  return reduction;
}

/// On a copy: asking whether a space applies changes nothing.
std::optional<VectorReduction> main_reduction(const Func& func, const Target& target) {
  if (!dominant_reduction(func)) return std::nullopt;
  Schedule prepared(func);
  return main_reduction(prepared, target, {Decide::kHeuristic});
}

bool has_broadcast_reduction(const Func& func, const Target& target) {
  auto reduction = main_reduction(func, target);
  return reduction && reduction->broadcasts();
}

/// A single reduction that vectorizes as it stands has a model of its own.
bool has_rows_alone(const Func& func, const Target& target) {
  if (!has_rows(func, target)) return false;
  Ref<Block> single;
  for (const Ref<Block>& block : all_blocks(func)) {
    if (!is_reduction(*block)) continue;
    if (single) return true;
    single = block;
  }
  auto reduction = vector_reduction(single);
  return !reduction || vector_width(*reduction, target) == 1;
}

/// One that has its model, and may go row by row all the same.
bool has_other_rows(const Func& func, const Target& target) {
  return has_rows(func, target) && !has_rows_alone(func, target);
}

bool has_first_implicit_gemm(const Func& func, const Target& target) {
  return implicit_gemm(func, target) == ImplicitGemm::kFirst;
}

bool has_other_implicit_gemm(const Func& func, const Target& target) {
  return implicit_gemm(func, target) == ImplicitGemm::kOther;
}

bool has_vector_reduction(const Func& func, const Target& target) {
  auto reduction = main_reduction(func, target);
  return reduction && !reduction->broadcasts();
}

bool always(const Func&, const Target&) { return true; }

/// Vectors half as wide; as a heuristic as wide as the target's.
void choose_width(Schedule& schedule, VectorReduction& reduction, const Target& target,
                  const Policy& policy) {
  constexpr int64_t kFewest = 8;
  int64_t width = vector_width(reduction, target);
  if (width < kFewest || width % 2 != 0) return;
  reduction.run = choose_one_of(schedule, {reduction.run, width / 2}, reduction.run, policy);
}

/// Kernels whose elements are far apart see padding alone for many tiles, unless the image is larger by far.
/// Where its size is known, it was taken apart (core/relay/passes/crop_kernels.h).
void skip_far_padding(Schedule& schedule, const std::string& reduction) {
  if (!is_for_typical_dims(*schedule.func())) return;
  const BlockHandle block = schedule.get_block(reduction);
  if (least_dilation(*schedule[block]) < kFarApart) return;
  try {
    schedule.skip_padding(block);
  } catch (const Error&) {
    // It has no padding, or one that its schedule took apart.
  }
}

void generate_tiled(Schedule& schedule, const Target& target, const Policy& policy) {
  auto reduction = main_reduction(schedule, target, policy);
  CHECK(reduction, "a space for reductions was asked to schedule another program");
  if (!reduction->broadcasts()) choose_width(schedule, *reduction, target, policy);
  Chain chain = reduction_chain(schedule.func(), target);
  // The chain ends with the program's last reduction; the largest one may stand apart from it, and is then
  // scheduled alone.
  bool dominates = std::any_of(chain.begin(), chain.end(),
                               [&](const VectorReduction& each) { return each.block == reduction->block; });
  if (!dominates || chain.size() == 1) chain = {*reduction};
  schedule_rest(schedule, target, schedule_chain(schedule, chain, target, policy));
  skip_far_padding(schedule, reduction->block);
}

void generate_generic(Schedule& schedule, const Target& target, const Policy& policy) {
  inline_in_vectors(schedule, choose_kept(schedule, target, policy), target);
  schedule_rest(schedule, target, {}, policy);
}

constexpr DesignSpace kWinograd{
    "winograd", "convolutions with fewer multiplications: transformed tiles of data and weights",
    has_winograd, generate_winograd};
constexpr DesignSpace kRows{"rows",
                            "softmax, normalizations, means: all blocks row by row, in vectors along rows "
                            "or across neighbouring ones",
                            has_rows_alone, generate_rows};
constexpr DesignSpace kShortRows{"short-rows",
                                 "softmax, normalizations, sums of rows of a few elements: lanes are rows",
                                 has_short_rows, generate_short_rows};
constexpr DesignSpace kRowParts{"row-parts",
                                "the same of fewer rows than cores: block by block, rows in parts",
                                has_row_parts, generate_row_parts};
constexpr DesignSpace kAttention{"attention",
                                 "two matrix products with a softmax between them, some rows at a time",
                                 has_attention, generate_attention};
constexpr DesignSpace kScan{"scan", "running sums: vectors of neighbouring lines, or several lines in turn",
                            has_scan, generate_scan};
constexpr DesignSpace kContraction{
    "contraction", "convolutions and matrix products: a broadcast operand times vectors, in register tiles",
    has_broadcast_reduction, generate_tiled};
constexpr DesignSpace kStrassen{
    "strassen", "large matrix products with fewer multiplications: seven products of sums of quadrants",
    has_strassen, generate_strassen};
/// One space in two places: before the tiles of rows where these are clearly slower, else after them.
constexpr DesignSpace kFirstImplicitGemm{
    "implicit-gemm",
    "convolutions as one matrix product over all positions, where rows are cut into tiles badly",
    has_first_implicit_gemm, generate_implicit_gemm};
constexpr DesignSpace kOtherImplicitGemm{
    "implicit-gemm",
    "convolutions as one matrix product over all positions: windows gathered, in register tiles",
    has_other_implicit_gemm, generate_implicit_gemm};
constexpr DesignSpace kVectorReduction{
    "vector-reduction",
    "depthwise convolutions, poolings, sums: vectors combined with vectors, in register tiles",
    has_vector_reduction, generate_tiled};
constexpr DesignSpace kOtherRows{
    "other-rows", "reductions that have register tiles of their own, row by row as an alternative",
    has_other_rows, generate_rows};
constexpr DesignSpace kGeneric{"generic",
                               "any program: blocks one by one, outer loops parallel, inner ones vectorized",
                               always, generate_generic};
constexpr const DesignSpace* kSpaces[] = {&kWinograd,
                                          &kAttention,
                                          &kRowParts,
                                          &kShortRows,
                                          &kRows,
                                          &kScan,
                                          &kFirstImplicitGemm,
                                          &kContraction,
                                          &kStrassen,
                                          &kOtherImplicitGemm,
                                          &kVectorReduction,
                                          &kOtherRows,
                                          &kGeneric};
}  // namespace

std::span<const DesignSpace* const> design_spaces() { return kSpaces; }

std::vector<const DesignSpace*> spaces_for(const Func& program, const Target& target) {
  const Func func = at_typical_dims(program);
  std::vector<const DesignSpace*> spaces;
  for (const DesignSpace* space : design_spaces()) {
    // The generic space is for what no other space knows.
    if (space == &kGeneric && !spaces.empty()) break;
    if (space->applies(func, target)) spaces.push_back(space);
  }
  return spaces;
}

Schedule sample(const DesignSpace& space, const Func& func, const Target& target, uint64_t seed,
                Rounding rounding) {
  constexpr int kAttempts = 8;
  // A seed for each attempt: the same seed gives the same schedule however many attempts it took.
  Random seeds(seed);
  const Func typical = at_typical_dims(func);
  const bool is_open = typical != func;
  for (int attempt = 1;; ++attempt) {
    Schedule schedule(typical, seeds.next());
    if (is_open) schedule.keep_apart();
    try {
      space.generate(schedule, target, {Decide::kRandom, rounding});
      return is_open ? replay_schedule(schedule.trace(), func) : schedule;
    } catch (const Error& e) {
      if (attempt == kAttempts)
        fail("space {}: no legal schedule in {} attempts: {}", space.name, kAttempts, e.what());
    }
  }
}

namespace {
/// The sampling steps whose results later steps take. Others chose between structures: with another choice
/// the steps would be others.
std::vector<size_t> renewable_steps(const Trace& trace) {
  std::set<int> taken;
  for (const Step& step : trace.steps)
    for (const Input& input : step.inputs)
      if (const auto* number = std::get_if<IntHandle>(&input)) taken.insert(number->id);
  std::vector<size_t> steps;
  for (size_t i = 0; i < trace.steps.size(); ++i) {
    const Step& step = trace.steps[i];
    bool renews = false;
    for (const Output& output : step.outputs) {
      const auto* number = std::get_if<IntHandle>(&output);
      renews |= !number || taken.contains(number->id);
    }
    if (step.primitive->samples && renews) steps.push_back(i);
  }
  return steps;
}
}  // namespace

std::optional<Schedule> mutate(const Trace& trace, const Func& func, Random& random) {
  std::vector<size_t> sampling = renewable_steps(trace);
  if (sampling.empty()) return std::nullopt;
  constexpr int kAttempts = 4;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    size_t step = sampling[static_cast<size_t>(random.below(static_cast<int64_t>(sampling.size())))];
    try {
      Schedule mutated = replay_renewing(trace, func, step, random.next());
      // The new decision may be the old one.
      if (!(mutated.trace() == trace)) return mutated;
    } catch (const Error&) {
      // The rest of the trace does not fit the new decision; try another one.
    }
  }
  return std::nullopt;
}

namespace {
/// Blocks as they are, the outermost loop of each on all cores where it may be: the compiler's own vectors.
Trace plain_trace(const Func& func) {
  Schedule schedule(func);
  for (const Ref<Block>& block : all_blocks(func)) {
    std::vector<LoopHandle> loops = schedule.get_loops(schedule.get_block(block->name));
    const bool spatial = !block->iters.empty() && block->iters[0].kind == IterKind::kSpatial;
    if (loops.size() == block->iters.size() && spatial) schedule.parallel(loops[0]);
  }
  return schedule.trace();
}

/// Not so where an extent has no name, as of a sum of tensors of which either may be one element: such a
/// program is refused when it is lowered.
bool has_known_extents(const Func& typical) {
  for (const Ref<Block>& block : all_blocks(typical))
    for (const BlockIter& iter : block->iters)
      if (!as_int(iter.extent)) return false;
  return true;
}

/// The schedule of the space for these values of the dimensions, with numbers in their place; nothing where
/// it has none.
std::optional<Trace> typical_trace(const DesignSpace& space, const Func& func,
                                   std::span<const int64_t> values, const Target& target, Rounding rounding) {
  const Func typical = for_typical_dims(func, values);
  if (!has_known_extents(typical) || !space.applies(typical, target)) return std::nullopt;
  try {
    Schedule schedule(typical);
    schedule.keep_apart();
    space.generate(schedule, target, {Decide::kHeuristic, rounding});
    return schedule.trace();
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// No step of the schedule needs to know a size.
bool fits_open(const Trace& trace, const Func& func, const Target& target) {
  try {
    return can_lower(replay(trace, func), target);
  } catch (const Error&) {
    return false;
  }
}

/// What a schedule is chosen for that is to be good near `value`: a whole number of vectors, and of register
/// tiles where there are many. 250 has no width that divides it but 10.
int64_t whole_vectors_near(int64_t value, const Target& target) {
  constexpr int64_t kFewVectors = 2, kManyVectors = 8, kTile = 4;
  const int64_t lanes = target.lanes();
  if (value < kFewVectors * lanes || value % lanes == 0) return value;
  const int64_t step = value < kManyVectors * lanes ? lanes : kTile * lanes;
  return (value + step / 2) / step * step;
}

std::vector<Expr> extents_of_results(const Func& func) {
  std::vector<Expr> extents;
  for (const Buffer& result : std::span(func->params).last(static_cast<size_t>(func->outputs)))
    extents.insert(extents.end(), result->shape.begin(), result->shape.end());
  return extents;
}

/// Along which sums lie in vectors.
std::vector<Expr> extents_of_reductions(const Func& func) {
  std::vector<Expr> extents;
  for (const Ref<Block>& block : all_blocks(func))
    if (is_reduction(*block) && !block->writes[0].buffer->shape.empty())
      extents.push_back(block->writes[0].buffer->shape.back());
  return extents;
}

/// The same where it is these extents that are to be whole vectors: of an image of 256 rows (n + 1) // 2 - 5
/// are 123, which has no width that divides it, nor has the product of rows and columns. The next larger
/// values; as they are where there are none near.
std::vector<int64_t> with_whole(const std::vector<Expr>& extents, const Func& func,
                                std::vector<int64_t> values, const Target& target) {
  const std::vector<Var> dims = dims_of(*func);
  const auto is_whole = [&](const Var& dim, const VarMap& numbers) {
    for (const Expr& extent : extents) {
      if (!uses_var(extent, dim.get())) continue;
      const Expr value = simplify(substitute(extent, numbers));
      if (as_int(value) && whole_vectors_near(int_value(value), target) != int_value(value)) return false;
    }
    return true;
  };
  VarMap numbers;
  for (size_t i = 0; i < dims.size(); ++i) numbers[dims[i].get()] = Expr(values[i]);
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t most = values[i] + values[i] / 2;
    for (int64_t value = values[i]; value <= most; ++value) {
      numbers[dims[i].get()] = Expr(value);
      if (!is_whole(dims[i], numbers)) continue;
      values[i] = value;
      break;
    }
    numbers[dims[i].get()] = Expr(values[i]);
  }
  return values;
}

/// The schedule that is chosen for a typical size, on the program itself: splits of open loops leave the
/// outermost part open, under a guard. The first space that has one which can be built, for that size or a
/// larger one; the generic space is asked for any program.
Trace open_trace(const Func& func, const Target& target, Rounding rounding) {
  std::vector<int64_t> typical = typical_dims(func);
  for (int64_t& value : typical) value = whole_vectors_near(value, target);
  std::vector<std::vector<int64_t>> sizes{typical};
  // A window along the rows of what is pooled down their columns has more of these than it has results.
  for (const std::vector<Expr>& extents : {extents_of_results(func), extents_of_reductions(func)})
    if (auto whole = with_whole(extents, func, typical, target);
        std::find(sizes.begin(), sizes.end(), whole) == sizes.end())
      sizes.push_back(std::move(whole));
  for (int64_t scale : {2, 4}) {
    sizes.push_back(typical);
    // One of a dimension is no size but a case of its own.
    for (int64_t& value : sizes.back()) value *= value > 1 ? scale : 1;
  }
  auto trace_for = [&](const DesignSpace& space, std::span<const int64_t> values) {
    std::optional<Trace> trace = typical_trace(space, func, values, target, rounding);
    return trace && fits_open(*trace, func, target) ? trace : std::nullopt;
  };
  // A space that is for larger sizes alone, as transforms are of images that have rows enough, comes after
  // those for the typical one.
  for (const DesignSpace* space : kSpaces) {
    if (space == &kGeneric) continue;
    std::optional<Trace> trace = typical_trace(*space, func, typical, target, rounding);
    if (!trace) continue;
    if (fits_open(*trace, func, target)) return *trace;
    for (const std::vector<int64_t>& values : std::span(sizes).subspan(1))
      if ((trace = trace_for(*space, values))) return *trace;
  }
  for (const DesignSpace* space : kSpaces)
    for (const std::vector<int64_t>& values : sizes)
      if (std::optional<Trace> trace = trace_for(*space, values)) return *trace;
  return plain_trace(func);
}

/// Block by block, each as the generic space has it: one that this does not know after all stays as it is,
/// and the others get their schedules.
Trace blockwise_trace(const Func& func, const Target& target) {
  auto schedule = std::make_unique<Schedule>(func);
  std::set<std::string> done;
  auto attempt = [&](auto step) {
    // On copies: a step that fails has changed nothing.
    auto further = std::make_unique<Schedule>(*schedule);
    std::set<std::string> done_further = done;
    try {
      step(*further, done_further);
    } catch (const Error&) {
      return;
    }
    schedule = std::move(further);
    done = std::move(done_further);
  };
  attempt([](Schedule& s, std::set<std::string>&) { inline_elementwise(s); });
  for (const Ref<Block>& block : all_blocks(schedule->func()))
    attempt([&](Schedule& s, std::set<std::string>& names) {
      schedule_block(s, block, target, names, {Decide::kHeuristic});
    });
  return schedule->trace();
}
}  // namespace

Trace default_trace(const Func& func, const Target& target, Rounding rounding) {
  if (!dims_of(*func).empty()) return open_trace(func, target, rounding);
  // The first that applies is the most specific; a later one is asked only where it fails.
  for (const DesignSpace* space : kSpaces) {
    if (!space->applies(func, target)) continue;
    try {
      Schedule schedule(func);
      space->generate(schedule, target, {Decide::kHeuristic, rounding});
      return schedule.trace();
    } catch (const Error&) {
      // The program has a shape the space does not know after all; the next one is more general.
    }
  }
  return blockwise_trace(func, target);
}

}  // namespace lathe::schedule
