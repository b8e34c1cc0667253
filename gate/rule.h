// When a performance gate has seen enough of one unit: a sequential rule, without I/O (docs/gate.md).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/support/signed_rank.h"
#include "workers/clocked_sample.h"

namespace lathe::gate {

enum class Verdict : uint8_t {
  kSame,          // the two artifacts are the same bytes: nothing to measure
  kPass,          // slower by less than the margin, if at all
  kImproved,      // faster by the margin
  kFail,          // slower by the margin
  kInconclusive,  // too noisy to tell within the last look
  kBroken,        // the candidate does not run
  kUnfit,         // the device's clock fell too often for any of these
};
const char* to_string(Verdict verdict);

struct Rule {
  double margin = 0.03;  // a slowdown that matters, as a share
  double alpha = 0.01;   // the chance that a gate whose units are all unchanged fails
  // Of devices whose clock moves under load. A change counts only if it is one in cycles of the clock too.
  bool in_cycles = false;
  double clock_floor =
      0;  // what was taken at less than this share of the median clock is dropped; 0: nothing
  double unfit_share = 1;  // more dropped than this share: the device says nothing of worth
};

/// After `pairs` pairs the bounds of the difference are taken, each wrong with a chance of `tail`.
struct Look {
  int pairs = 0;
  double tail = 0;
};

/// The looks at each of `units` units. Their tails, over all looks and units, sum to alpha (Bonferroni); the
/// first is taken as early as pairs that all agree can be evidence enough. REQUIRES: units >= 1.
std::array<Look, 3> looks_of(const Rule& rule, int units);

/// What one process of a pair saw: slices of its time, in order. Its fastest one stands for it.
using Process = std::vector<worker::ClockedSample>;

/// Of all samples of one unit.
struct Clocks {
  double median_hz = 0;                      // 0: none is told
  double baseline_hz = 0, candidate_hz = 0;  // medians of the two sides
  int taken = 0, dropped = 0;                // samples
};

/// One unit while it is measured.
class Trial {
 public:
  /// One of `units` units. REQUIRES: a rule in cycles has a floor.
  Trial(const Rule& rule, int units);

  /// One pair. Of it nothing is left when all samples of a side are dropped. REQUIRES: no verdict yet; a
  /// sample on each side, of a time above 0.
  void add(Process baseline, Process candidate);

  std::optional<Verdict> verdict() const { return verdict_; }
  /// ln(candidate / baseline) as of the latest look, with the bounds that the verdict rests on; of all pairs
  /// and unbounded before the first. REQUIRES: a pair.
  Location ln_ratio() const;
  /// The same of cycles; nothing where the rule does not ask for them. REQUIRES: a pair.
  std::optional<Location> ln_cycles() const;
  Clocks clocks() const { return clocks_; }
  /// Seconds of each pair.
  const std::vector<double>& baseline() const { return baseline_; }
  const std::vector<double>& candidate() const { return candidate_; }
  int pairs() const { return static_cast<int>(ln_ratios_.size()); }
  /// How many the last look needs.
  int most_pairs() const { return looks_.back().pairs; }

 private:
  struct Pair {
    Process baseline, candidate;
  };
  void settle();
  void settle_clocks();
  void look(double tail, bool last);

  Rule rule_;
  double ln_margin_;
  std::array<Look, 3> looks_;
  std::vector<Pair> tried_;
  Clocks clocks_;
  // Of the pairs of which both sides are left.
  std::vector<double> baseline_, candidate_, ln_ratios_, ln_cycles_;
  Location at_look_, cycles_at_look_;
  size_t looked_ = 0;  // how many times
  std::optional<Verdict> verdict_;
};

}  // namespace lathe::gate
