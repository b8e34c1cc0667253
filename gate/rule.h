// When a performance gate has seen enough of one unit: a sequential rule, without I/O (docs/gate.md).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/support/signed_rank.h"

namespace lathe::gate {

enum class Verdict : uint8_t {
  kSame,          // the two artifacts are the same bytes: nothing to measure
  kPass,          // slower by less than the margin, if at all
  kImproved,      // faster by the margin
  kFail,          // slower by the margin
  kInconclusive,  // too noisy to tell within the last look
  kBroken,        // the candidate does not run
};
const char* to_string(Verdict verdict);

struct Rule {
  double margin = 0.03;  // a slowdown that matters, as a share
  double alpha = 0.01;   // the chance that a gate whose units are all unchanged fails
};

/// After `pairs` pairs the bounds of the difference are taken, each wrong with a chance of `tail`.
struct Look {
  int pairs = 0;
  double tail = 0;
};

/// The looks at each of `units` units. Their tails, over all looks and units, sum to alpha (Bonferroni); the
/// first is taken as early as pairs that all agree can be evidence enough. REQUIRES: units >= 1.
std::array<Look, 3> looks_of(const Rule& rule, int units);

/// One unit while it is measured.
class Trial {
 public:
  /// One of `units` units.
  Trial(const Rule& rule, int units);

  /// The times of one pair, above 0. REQUIRES: no verdict yet.
  void add(double baseline_seconds, double candidate_seconds);

  std::optional<Verdict> verdict() const { return verdict_; }
  /// ln(candidate / baseline) as of the latest look, with the bounds that the verdict rests on; of all pairs
  /// and unbounded before the first. REQUIRES: a pair.
  Location ln_ratio() const;
  /// Of each pair.
  const std::vector<double>& baseline() const { return baseline_; }
  const std::vector<double>& candidate() const { return candidate_; }
  int pairs() const { return static_cast<int>(ln_ratios_.size()); }
  /// How many the last look needs.
  int most_pairs() const { return looks_.back().pairs; }

 private:
  void look(double tail, bool last);

  double ln_margin_;
  std::array<Look, 3> looks_;
  std::vector<double> baseline_, candidate_, ln_ratios_;
  Location at_look_;
  size_t looked_ = 0;  // how many times
  std::optional<Verdict> verdict_;
};

}  // namespace lathe::gate
