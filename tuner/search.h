// Evolutionary search over the traces of one task (Zheng et al. 2020, "Ansor", section 5; Shao et al. 2022,
// "MetaSchedule"): a population of measured and sampled schedules is mutated, ranked by the cost model, and
// the most promising new ones are proposed for measuring.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/tir/stmt.h"
#include "core/tir/target.h"
#include "schedules/random.h"
#include "schedules/space.h"
#include "schedules/trace.h"

namespace lathe::tuner {

/// A schedule worth measuring.
struct Proposal {
  schedule::Trace trace;
  tir::Func program;        // what the trace makes of the task
  std::string fingerprint;  // of `program` by structure: traces that give one program are one candidate
  double score = 0;         // predicted, higher is faster; comparable within a task
};

/// Predicted scores of scheduled programs, higher is faster. Empty: no model yet.
using Score = std::function<std::vector<double>(std::span<const tir::Func>)>;

struct SearchSettings {
  size_t population = 48;  // programs a generation
  int generations = 2;
  schedule::Rounding rounding = schedule::Rounding::kNone;
  double explore = 0.15;  // share of proposals taken at random instead of by score
  size_t parents = 24;    // fastest measured schedules that enter the population
};

/// All that a search has become since it began: what it needs to go on elsewhere as if nothing had happened.
struct SearchState {
  struct Known {
    schedule::Trace trace;
    double seconds = 0;
    bool operator==(const Known&) const = default;
  };
  uint64_t random = 0;                     // schedule::Random::state()
  std::vector<Known> elite;                // fastest first, at most SearchSettings::parents
  std::set<std::string> seen;              // fingerprints proposed or reported
  std::set<uint64_t> codes;                // of what was proposed, lowered
  std::vector<schedule::Trace> suggested;  // and not yet proposed
  size_t reported = 0;
  bool proposed_default = false;
  bool operator==(const SearchState&) const = default;
};

/// Deterministic: the same seed and the same reports give the same proposals. Not thread-safe.
class TaskSearch {
 public:
  TaskSearch(tir::Func workload, Target target, uint64_t seed, SearchSettings settings = {});

  /// Up to `count` candidates that were never proposed nor reported before, the most promising first; the
  /// default schedule is the very first. Fewer, or none, when the space seems to be exhausted.
  std::vector<Proposal> propose(size_t count, const Score& score);

  /// A schedule of another workload, to be proposed right after the default one if it applies to this.
  void suggest(const schedule::Trace& trace) { state_.suggested.push_back(trace); }

  /// A measured latency (none: the candidate failed) of a trace, proposed here or known from the database.
  void report(const schedule::Trace& trace, const std::string& fingerprint, std::optional<double> seconds);

  /// Of what was reported only `elite`, fastest first, is to be believed. Nothing is proposed again.
  void believe(std::vector<SearchState::Known> elite);

  /// The fastest so far; 0 and null when nothing was measured.
  double best_seconds() const { return state_.elite.empty() ? 0 : state_.elite.front().seconds; }
  const schedule::Trace* best() const { return state_.elite.empty() ? nullptr : &state_.elite.front().trace; }
  size_t reported() const { return state_.reported; }

  SearchState state() const;
  void restore(SearchState state);

 private:
  std::optional<Proposal> made(const schedule::Trace& trace) const;
  /// Whether no proposal before was lowered to the same code; another schedule may be.
  bool is_new_code(const tir::Func& program);
  std::vector<Proposal> sampled(size_t count);
  std::vector<Proposal> first_population();
  std::vector<Proposal> evolved(std::vector<Proposal> population, const Score& score);

  tir::Func workload_;
  Target target_;
  SearchSettings settings_;
  schedule::Random random_;
  SearchState state_;  // but for its random numbers
};

/// The structural hash of what a scheduled program does at run time, as text: schedules that differ in their
/// prologues (core/tir/prologue.h) alone are one candidate.
std::string fingerprint(const tir::Func& program);

}  // namespace lathe::tuner
