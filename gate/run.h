// A gate with real times: the state machine of gate.h, fed by who runs modules.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gate/gate.h"
#include "gate/unit.h"
#include "workers/module_run.h"

namespace lathe::gate {

/// What was found about one unit.
struct UnitResult {
  Unit unit;
  Verdict verdict = Verdict::kInconclusive;
  std::string broken;                 // why the candidate does not run
  int pairs = 0;                      // none: what follows is empty
  Location ln_ratio;                  // of candidate over baseline
  std::optional<Location> ln_cycles;  // the same in cycles, where the rule asks for them
  Clocks clocks;
  std::vector<double> baseline_seconds, candidate_seconds;  // of each pair
  std::vector<Counter> counters;
  std::string uncounted;  // why the counters lack instructions
};

enum class Answer : uint8_t { kPass, kFail, kInconclusive, kUnfit };
const char* to_string(Answer answer);

struct GateResult {
  std::vector<UnitResult> units;
  std::optional<UnitResult> control;  // one module against itself
  bool interrupted = false;

  /// Whether the control differs from itself.
  bool tells_equals_apart() const;
  /// Of the whole gate. Where the control is not equal to itself, or a unit found the device unfit, no other
  /// verdict is worth anything.
  Answer answer() const;
};

/// Who runs modules: fresh processes (worker::run_module), or a fake in tests. `count`: instructions too.
/// Nothing when it was interrupted; throws Error when the module does not run, and Unfit when that is no
/// fault of the module.
using RunModule = std::function<std::optional<worker::ModuleTimes>(const Side& side, bool count)>;

/// What is going on, once a pair.
struct GateStatus {
  int decided = 0, units = 0;  // measured ones, the control among them
  int pairs = 0, most_pairs = 0;
};

/// Measures the units whose artifacts differ, and one of the others as control when there are both. A
/// candidate that does not run is a verdict; throws Error when a baseline does not, and Unfit as `run` does.
GateResult run_gate(const std::vector<Unit>& units, const Rule& rule, uint64_t seed, const RunModule& run,
                    const std::function<void(const GateStatus&)>& show);

}  // namespace lathe::gate
