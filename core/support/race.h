// Two builds of one model, raced until it is clear which is the faster.
#pragma once

#include <cstdint>
#include <functional>

#include "core/support/signed_rank.h"

namespace lathe {

/// Runs a model as two builds, the incumbent and a challenger: real ones (core/runtime/module_pair.h,
/// tuner/model_race.h), or a fake in tests.
class TurnTimer {
 public:
  virtual ~TurnTimer() = default;
  /// Seconds of one run of the model, both timed one after the other.
  struct Turn {
    double incumbent = 0, challenger = 0;
  };
  virtual Turn turn() = 0;
  /// Seconds since the timer was made.
  virtual double elapsed() const = 0;
};

struct RaceLimits {
  double seconds = 30;  // of this race; the first look is taken however long it needs
  std::function<bool()> stop = [] { return false; };
};

enum class RaceVerdict : uint8_t {
  kFaster,     // the challenger is
  kSlower,     // it is not
  kEqual,      // neither is faster by 1%
  kUndecided,  // the time was over before any of these was clear
};

struct RaceResult {
  RaceVerdict verdict = RaceVerdict::kUndecided;
  double incumbent = 0, challenger = 0;    // seconds of one run; their quotient is the ratio
  double ratio = 1, low = 0, high = 0;     // incumbent / challenger, and its interval
  Location incumbent_run, challenger_run;  // seconds of one run, each side alone, with 95%
  int turns = 0;
};

/// Of an interval that holds the ratio of a race.
RaceVerdict race_verdict(double low, double high);

/// Races the two until one is clearly faster or they are clearly equal, or the limits are reached. The ratio
/// is the Hodges-Lehmann estimate over the turns' ln ratios, so a disturbance counts by its rank alone, and
/// what hits both sides of a turn not at all. The interval is looked at after 10 turns and then whenever
/// there are 1.6 times as many, at most 10 times; each look has a tenth of 5% to be wrong (Bonferroni's
/// inequality, for looks at growing parts of one series are not independent), so the interval returned covers
/// the ratio with 95% wherever the race ended. REQUIRES: the turns are fair: neither side always begins.
RaceResult race(TurnTimer& timer, const RaceLimits& limits);

/// Whether the challenger is the one to use: when it is faster; and, of two that are equal or undecided, when
/// other evidence is for it.
bool prefers_challenger(RaceVerdict verdict, bool favoured);

}  // namespace lathe
