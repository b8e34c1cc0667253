// The pass manager of tensor programs. A pass is one free function in a header of its own (passes/*.h) and
// one row of the table in pass.cpp, as for graphs (core/relay/pass.h); docs/adding-a-pass.md.
#pragma once

#include <span>

#include "core/support/pass_instrument.h"
#include "core/tir/stmt.h"
#include "core/tir/target.h"
#include "core/tir/verify.h"

namespace lathe::tir {

/// In the order of the table.
enum class PassId : uint8_t {
  kLowerBlocks,
  kSkipNeutralTerms,
  kSimplifyProgram,
  kPlaceAllocations,
  kPadAllocations,
  kSkipEmptyTiles,
  kSpecializeBoundaries,
  kSplitConditions,
  kVectorizeLoops,
  kUnrollLoops,
};

struct Pass {
  PassId id;
  const char* name;  // as in --passes=
  const char* doc;
  Level first, last;  // takes programs of these levels
  Func (*run)(const Func&, const Target&);
};

using PassInstrument = lathe::PassInstrument<Pass, Func>;

/// What the passes of one run share.
struct PassContext {
  Target target;
  std::vector<PassInstrument*> instruments;
  bool verify = true;  // CHECK that the program is valid at its level after each pass
};

std::span<const Pass> passes();
const Pass& pass(PassId id);
/// The pass named. Throws Error with the nearest name.
const Pass& find_pass(std::string_view name);

/// Runs `sequence` in order. Throws Error where a pass does not take programs of the level reached, and where
/// a schedule asks for what cannot be; a program left invalid is ours and aborts with its text.
Func run_passes(Func func, std::span<const PassId> sequence, const PassContext& context = {});

/// From the scheduled level to what code generation takes, in order.
std::span<const PassId> lowering_pipeline();

}  // namespace lathe::tir
