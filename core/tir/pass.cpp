#include "core/tir/pass.h"

#include "core/support/error.h"
#include "core/support/in_order.h"
#include "core/support/pass_table.h"
#include "core/tir/passes/lower_blocks.h"
#include "core/tir/passes/pad_allocations.h"
#include "core/tir/passes/place_allocations.h"
#include "core/tir/passes/simplify_program.h"
#include "core/tir/passes/skip_empty_tiles.h"
#include "core/tir/passes/skip_neutral_terms.h"
#include "core/tir/passes/specialize_boundaries.h"
#include "core/tir/passes/split_conditions.h"
#include "core/tir/passes/unroll_loops.h"
#include "core/tir/passes/vectorize_loops.h"
#include "core/tir/text.h"

namespace lathe::tir {
namespace {

using enum PassId;
using enum Level;

/// Null when nothing is left to do.
Func with_statements(const Func& func, const Stmt& body) {
  if (body == func->body) return func;
  auto changed = mutate(*func);
  changed->body = body ? body : seq({});
  return seal(std::move(changed));
}

/// A pass that looks at the statements alone, or at the machine as well.
template <Stmt (*kPass)(const Stmt&)>
Func on_body(const Func& func, const Target&) {
  return with_statements(func, kPass(func->body));
}
template <Stmt (*kPass)(const Stmt&, const Target&)>
Func on_body(const Func& func, const Target& target) {
  return with_statements(func, kPass(func->body, target));
}

// clang-format off
constexpr Pass kPasses[] = {
    // id, name, what it does, the levels it takes, function
    {kLowerBlocks, "lower_blocks", "blocks become their bodies, under their predicates", kScheduled, kScheduled, on_body<lower_blocks>},
    {kSkipNeutralTerms, "skip_neutral_terms", "sums pass over the terms that are nothing at the border of an image", kLoops, kLoops, on_body<skip_neutral_terms>},
    {kSimplifyProgram, "simplify_program", "indices simplified, conditions decided or moved out of loops, loops of one iteration gone", kLoops, kVectors, on_body<simplify_program>},
    {kPlaceAllocations, "place_allocations", "intermediates move to the innermost place of their uses and shrink to what is used there", kLoops, kLoops, on_body<place_allocations>},
    {kPadAllocations, "pad_allocations", "lines of intermediates that are touched together lie in different sets of the first-level cache", kLoops, kLoops, on_body<pad_allocations>},
    {kSkipEmptyTiles, "skip_empty_tiles", "tiles of tiles beyond an open edge are passed over", kLoops, kLoops, on_body<skip_empty_tiles>},
    {kSpecializeBoundaries, "specialize_boundaries", "tiles that stick out over an edge apart from those that do not", kLoops, kLoops, on_body<specialize_boundaries>},
    {kSplitConditions, "split_conditions", "loops whose conditions change a few times as loops without conditions, one after another", kLoops, kLoops, on_body<split_conditions>},
    {kVectorizeLoops, "vectorize_loops", "vectorized loops become vector statements", kLoops, kLoops, on_body<vectorize_loops>},
    {kUnrollLoops, "unroll_loops", "the bodies of unrolled loops are repeated", kLoops, kVectors, on_body<unroll_loops>},
};
// clang-format on

/// Each header says why its pass stands where it does.
// simplify_program comes again after passes that leave conditions and indices to it.
constexpr PassId kLowering[] = {
    kLowerBlocks,     kSkipNeutralTerms, kSimplifyProgram,      kPlaceAllocations,
    kPadAllocations,  kSkipEmptyTiles,   kSpecializeBoundaries, kSimplifyProgram,
    kSplitConditions, kVectorizeLoops,   kUnrollLoops,          kSimplifyProgram,
};

static_assert(in_order(kPasses), "rows stand in the order of PassId");

void require_level(const Pass& pass, const Func& func) {
  Level level = level_of(func);
  if (level < pass.first || level > pass.last)
    fail("{}: {} works on {}, this program is at the level of {}", func->name, pass.name,
         pass.first == pass.last ? spelling(pass.first)
                                 : fmt::format("{} and {}", spelling(pass.first), spelling(pass.last)),
         spelling(level));
}

}  // namespace

std::span<const Pass> passes() { return kPasses; }

const Pass& pass(PassId id) { return kPasses[static_cast<size_t>(id)]; }

const Pass& find_pass(std::string_view name) { return pass_named<Pass>(name, kPasses); }

std::span<const PassId> lowering_pipeline() { return kLowering; }

Func run_passes(Func func, std::span<const PassId> sequence, const PassContext& context) {
  for (PassId id : sequence) {
    const Pass& next = pass(id);
    require_level(next, func);
    for (PassInstrument* each : context.instruments) each->before(next, func);
    Func result = next.run(func, context.target);
    // What a pass returned unchanged was valid before.
    if (context.verify && result != func) {
      auto fault = find_fault(result, level_of(result));
      CHECK(!fault, "pass {} left the program invalid: {}\n{}", next.name, *fault, print(result));
    }
    for (PassInstrument* each : context.instruments) each->after(next, result);
    func = std::move(result);
  }
  return func;
}

}  // namespace lathe::tir
