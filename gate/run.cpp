#include "gate/run.h"

#include <algorithm>

#include "core/support/error.h"
#include "core/support/unfit.h"

namespace lathe::gate {
namespace {

/// The measured units of one gate while it runs.
class Run {
 public:
  Run(std::vector<UnitResult*> units, const Rule& rule, uint64_t seed, const RunModule& run)
      : units_(std::move(units)), gate_(rule, static_cast<int>(units_.size()), seed), run_(run) {}

  /// Measures the next pair. False when there is none, or it was interrupted.
  bool step() {
    const std::optional<Gate::Pair> pair = gate_.next();
    if (!pair) return false;
    const std::optional<Times> times = measure(*pair);
    // A pair of which one side is missing is no pair: it leaves no trace.
    if (interrupted_) return false;
    if (times) gate_.record(*pair, times->baseline.samples, times->candidate.samples);
    write_down(pair->unit);
    return true;
  }

  bool interrupted() const { return interrupted_; }

  GateStatus status() const {
    GateStatus status{.units = static_cast<int>(units_.size())};
    // What may still come only falls: a unit that is decided takes no more pairs.
    for (size_t i = 0; i < units_.size(); ++i) {
      const Trial& trial = gate_.trial(static_cast<int>(i));
      const bool decided = trial.verdict() || !units_[i]->broken.empty();
      status.decided += decided;
      status.pairs += trial.pairs();
      status.most_pairs += decided ? trial.pairs() : trial.most_pairs();
    }
    return status;
  }

 private:
  struct Times {
    worker::ModuleTimes baseline, candidate;
  };

  /// Nothing when the candidate does not run, or it was interrupted.
  std::optional<Times> measure(const Gate::Pair& pair) {
    UnitResult& unit = *units_[static_cast<size_t>(pair.unit)];
    // Instructions are the same in each run: they are counted with the first pair only.
    const bool count = unit.clocks.taken == 0;
    Times times;
    // Not at once: they would share caches and memory, and each would be measured under the
    // load of the other.
    for (const bool candidate : {pair.candidate_first, !pair.candidate_first}) {
      const std::optional<worker::ModuleTimes> found =
          candidate ? run_candidate(pair.unit, count) : run_(unit.unit.baseline, count);
      if (!found) {
        // Without times either the candidate broke, which run_candidate() has noted, or somebody stopped it.
        interrupted_ = unit.broken.empty();
        return std::nullopt;
      }
      (candidate ? times.candidate : times.baseline) = *found;
    }
    if (count) note_instructions(unit, times);
    return times;
  }

  /// A candidate that does not run is a verdict about it. An Error of the baseline is not caught here:
  /// nothing can be said then.
  std::optional<worker::ModuleTimes> run_candidate(int number, bool count) {
    UnitResult& unit = *units_[static_cast<size_t>(number)];
    try {
      return run_(unit.unit.candidate, count);
    } catch (const Unfit&) {  // the machine's failure, and no verdict about a module
      throw;
    } catch (const Error& error) {
      unit.broken = error.what();
      gate_.drop(number);
      return std::nullopt;
    }
  }

  static void note_instructions(UnitResult& unit, const Times& times) {
    if (times.baseline.instructions > 0 && times.candidate.instructions > 0)
      unit.counters.insert(unit.counters.begin(),
                           {"instructions", times.baseline.instructions, times.candidate.instructions});
    else
      unit.uncounted = times.candidate.uncounted;
  }

  /// The result of a unit is complete after every pair, so that an interrupted gate can be printed as it
  /// stands.
  void write_down(int number) {
    UnitResult& unit = *units_[static_cast<size_t>(number)];
    const Trial& trial = gate_.trial(number);
    unit.verdict = !unit.broken.empty() ? Verdict::kBroken : trial.verdict().value_or(Verdict::kInconclusive);
    unit.pairs = trial.pairs();
    unit.clocks = trial.clocks();
    if (unit.pairs == 0) return;
    unit.ln_ratio = trial.ln_ratio();
    unit.ln_cycles = trial.ln_cycles();
    unit.baseline_seconds = trial.baseline();
    unit.candidate_seconds = trial.candidate();
  }

  std::vector<UnitResult*> units_;
  Gate gate_;
  const RunModule& run_;
  bool interrupted_ = false;
};

/// Inconclusive until it is measured: a gate that is interrupted before has not passed it.
UnitResult unmeasured(const Unit& unit) {
  return {.unit = unit,
          .verdict = unit.same() ? Verdict::kSame : Verdict::kInconclusive,
          .counters = counters_of(unit)};
}

/// Of a unit against itself: undecided is no difference either.
/// Faster than itself is as wrong as slower: both say that the machine tells equals apart.
bool is_equal(Verdict verdict) { return verdict == Verdict::kPass || verdict == Verdict::kInconclusive; }

}  // namespace

const char* to_string(Answer answer) {
  switch (answer) {
    case Answer::kPass:
      return "pass";
    case Answer::kFail:
      return "fail";
    case Answer::kInconclusive:
      return "inconclusive";
    case Answer::kUnfit:
      return "unfit";
  }
  return "";
}

bool GateResult::tells_equals_apart() const { return control && !is_equal(control->verdict); }

Answer GateResult::answer() const {
  const auto any = [&](Verdict verdict) {
    return std::any_of(units.begin(), units.end(),
                       [&](const UnitResult& unit) { return unit.verdict == verdict; });
  };
  if (tells_equals_apart() || any(Verdict::kUnfit)) return Answer::kUnfit;
  // Before the inconclusive ones: more measuring of these would not save the gate.
  if (any(Verdict::kFail) || any(Verdict::kBroken)) return Answer::kFail;
  return any(Verdict::kInconclusive) ? Answer::kInconclusive : Answer::kPass;
}

GateResult run_gate(const std::vector<Unit>& units, const Rule& rule, uint64_t seed, const RunModule& run,
                    const std::function<void(const GateStatus&)>& show) {
  GateResult result;
  for (const Unit& unit : units) result.units.push_back(unmeasured(unit));
  // Point into `result.units`, which does not grow any more.
  std::vector<UnitResult*> measured;
  const UnitResult* same = nullptr;
  // Equal bytes run equally fast: such a unit costs no measurement, and the last of them serves as the
  // control.
  for (UnitResult& unit : result.units) {
    if (unit.verdict == Verdict::kSame)
      same = &unit;
    else
      measured.push_back(&unit);
  }
  // A control alone would say nothing about any unit.
  if (measured.empty()) return result;
  if (same) {
    // The control is a unit like the others, with its share of alpha and its turns.
    result.control = *same;
    result.control->verdict = Verdict::kInconclusive;
    measured.push_back(&*result.control);
  }
  Run running(measured, rule, seed, run);
  while (running.step()) show(running.status());
  result.interrupted = running.interrupted();
  return result;
}

}  // namespace lathe::gate
