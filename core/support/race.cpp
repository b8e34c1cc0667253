#include "core/support/race.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/support/statistics.h"

namespace lathe {
namespace {

/// Turns at which the race is looked at.
/// Each 1.6 times the last, so that a race ends within 60% of the turns that it needed, by ten looks.
constexpr int kLooks[] = {10, 16, 26, 42, 68, 110, 178, 288, 461, 737};
// Shared out evenly among the looks (Bonferroni): whoever looks ten times may be wrong by chance ten times.
constexpr double kError = 0.05;  // of the interval, over all looks
constexpr double kEqual = 0.01;  // less is no difference to a user

/// Logarithms, so that a ratio and its inverse weigh alike. The challenger's time is the incumbent's by the
/// ratio: medians of both sides apart would disagree with it where the machine drifted.
RaceResult look(std::span<const double> incumbent, std::span<const double> challenger,
                std::span<const double> ln_ratios) {
  const Location at = hodges_lehmann(ln_ratios, 1 - kError / std::size(kLooks));
  RaceResult result{.verdict = race_verdict(std::exp(at.low), std::exp(at.high)),
                    .incumbent = median({incumbent.begin(), incumbent.end()}),
                    .ratio = std::exp(at.centre),
                    .low = std::exp(at.low),
                    .high = std::exp(at.high),
                    .incumbent_run = hodges_lehmann(incumbent, 1 - kError),
                    .challenger_run = hodges_lehmann(challenger, 1 - kError),
                    .turns = static_cast<int>(ln_ratios.size())};
  result.challenger = result.incumbent / result.ratio;
  return result;
}

}  // namespace

/// Two one-sided conclusions from one interval: clear of 1 it says who is faster, within the margin that
/// nobody is.
RaceVerdict race_verdict(double low, double high) {
  if (low > 1) return RaceVerdict::kFaster;
  if (high < 1) return RaceVerdict::kSlower;
  return low > 1 / (1 + kEqual) && high < 1 + kEqual ? RaceVerdict::kEqual : RaceVerdict::kUndecided;
}

RaceResult race(TurnTimer& timer, const RaceLimits& limits) {
  const double begun = timer.elapsed();
  std::vector<double> incumbent, challenger, ln_ratios;
  RaceResult result;
  // Where all looks are over and nothing is decided, the last interval is what there is to say.
  for (int turns : kLooks) {
    // A race cut short is looked at where it stands, in place of the look it was on the way to: there are
    // never more looks than the error is shared among.
    bool over = limits.stop();
    while (static_cast<int>(ln_ratios.size()) < turns && !over) {
      const TurnTimer::Turn turn = timer.turn();
      incumbent.push_back(turn.incumbent);
      challenger.push_back(turn.challenger);
      ln_ratios.push_back(std::log(turn.incumbent / turn.challenger));
      over = limits.stop() ||
             // A first look however long its turns are: without one, nothing could be said at all.
             (static_cast<int>(ln_ratios.size()) >= kLooks[0] && timer.elapsed() - begun >= limits.seconds);
    }
    if (!ln_ratios.empty()) result = look(incumbent, challenger, ln_ratios);
    if (over || result.verdict != RaceVerdict::kUndecided) break;
  }
  return result;
}

bool prefers_challenger(RaceVerdict verdict, bool favoured) {
  // Where it is not clear who is faster, whoever is favoured stays.
  return verdict == RaceVerdict::kFaster || (verdict != RaceVerdict::kSlower && favoured);
}

}  // namespace lathe
