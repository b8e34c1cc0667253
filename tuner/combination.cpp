#include "tuner/combination.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "core/support/error.h"
#include "core/support/statistics.h"

namespace lathe::tuner {
namespace {

// Each exchange is a record that later builds follow: it has to be worth more than its upkeep.
constexpr double kLeastGain = 0.001;  // as a share of the run: less is not worth another schedule
constexpr double kMostLoss = 0.003;   // a single exchange with a worse forecast is not tried

/// Chances of being wrong: of taking an equal for faster, and of missing what wins as often as kWin.
struct Risks {
  double equal, missed;
};
// Losing an improvement is cheap, taking an equal is not: each would be built, stored and raced
// against from then on.
constexpr Risks kRace{0.01, 0.1};
constexpr Risks kLastRace{0.05, 0.02};  // of what won a race already

/// Wald's sequential test of "wins a turn with probability kWin" against "1/2" (The Annals of Mathematical
/// Statistics 16, 1945). Only who is faster counts, not by how much: other programs of the machine slow
/// single turns down by half, to either side.
class WinsTest {
 public:
  /// Wald's bounds: the logarithm of the likelihood ratio at which one of the two is taken for true with the
  /// wanted risk of being wrong.
  explicit WinsTest(Risks risks)
      : pass_(std::log((1 - risks.missed) / risks.equal)),
        give_up_(std::log(risks.missed / (1 - risks.equal))) {}

  void add(bool won) {
    evidence_ += std::log((won ? kWin : 1 - kWin) / 0.5);
    ++turns_;
  }
  bool passed() const { return evidence_ >= pass_; }
  // So near to the indifference between both that no number of turns would pay.
  bool decided() const { return passed() || evidence_ <= give_up_ || turns_ == kMostTurns; }

 private:
  static constexpr double kWin = 0.7;
  static constexpr int kMostTurns = 200;
  double pass_, give_up_, evidence_ = 0;
  int turns_ = 0;
};

double sum(std::span<const double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }

class Choosing {
 public:
  Choosing(std::span<const size_t> counts, const Combination& start, ModelTimer& timer,
           const ChoiceLimits& limits)
      : counts_(counts), start_(start), incumbent_(start), timer_(timer), limits_(limits), tried_{start} {
    CHECK(counts.size() == start.size(), "{} counts, {} tasks", counts.size(), start.size());
    for (size_t count : counts) cost_.emplace_back(count, 0.0);
  }

  /// The steps of choose_combination (combination.h). What is accepted is the incumbent of all that follows.
  Chosen run(std::span<const Combination> proposals) {
    for (const Combination& proposal : proposals) attempt(proposal);
    profile_rounds();
    // The whole jump first: where tasks do not touch each other it is the answer, for one build.
    attempt(fastest_apart());
    while (exchange_one()) {
    }
    return compare_with_start();
  }

 private:
  bool over() const { return timer_.elapsed() >= limits_.seconds || limits_.stop(); }

  /// Whether the challenger could be made ready, for the first time.
  bool challenge(const Combination& challenger) {
    // A combination that lost once is not raced again, though the incumbent may be another by now: each
    // challenger costs a build.
    if (over() || !tried_.insert(challenger).second) return false;
    try {
      timer_.challenge(challenger);
    } catch (const Error&) {  // a record that this program can no longer build
      return false;
    }
    ++status_.challengers;
    limits_.on_change(status_);
    return true;
  }

  /// Whether the challenger is clearly faster than the incumbent; or, `reversed`, the other way round.
  bool race(Risks risks, bool reversed = false) {
    WinsTest test(risks);
    std::vector<double> seconds, ratios;
    while (!test.decided()) {
      ModelTimer::Turn turn = timer_.turn();
      // "Before" is the side whose place the other wants. The last race is reversed because the timer has the
      // start as challenger then.
      double before = reversed ? turn.challenger : turn.incumbent;
      seconds.push_back(before);
      ratios.push_back((reversed ? turn.incumbent : turn.challenger) / before);
      // A turn that is better by less than the least gain counts as lost: equals then lose a little more
      // often than they win, and the test gives up sooner.
      test.add(ratios.back() < 1 - kLeastGain);
    }
    raced_ = {median(seconds), median(seconds) * median(ratios)};
    return test.passed();
  }

  bool attempt(const Combination& challenger) { return challenge(challenger) && settle(challenger); }

  /// Races the challenger that stands ready and makes it the incumbent when it wins.
  bool settle(const Combination& challenger) {
    bool won = race(kRace);
    if (status_.before == 0) status_.before = raced_.incumbent;
    status_.incumbent = won ? raced_.challenger : raced_.incumbent;
    if (won) {
      timer_.accept();
      incumbent_ = challenger;
    }
    limits_.on_change(status_);
    return won;
  }

  /// Round r runs of each task the alternative that stands r / rounds on the way from its leanest to its
  /// fattest: each alternative comes at least once, in as many rounds as the longest list has.
  void profile_rounds() {
    size_t rounds = 1;
    for (size_t count : counts_) rounds = std::max(rounds, count);
    for (size_t round = 0; round < rounds; ++round) {
      Combination challenger;
      for (size_t count : counts_) challenger.push_back(round * count / rounds);
      if (!challenge(challenger)) continue;
      ModelTimer::Profile profile = timer_.profile();
      learn(challenger, profile);
      if (status_.before == 0) status_.before = status_.incumbent = sum(profile.incumbent);
      // What looks faster as it stands is raced at once, while it is built.
      // By sums of medians, which is only a hint; settle() decides.
      if (sum(profile.challenger) < sum(profile.incumbent)) settle(challenger);
    }
  }

  /// What an alternative costs follows from its ratio to the incumbent's, which the profile has beside it:
  /// drifts of the machine's speed cancel.
  void learn(const Combination& challenger, const ModelTimer::Profile& profile) {
    double run = sum(profile.incumbent);
    for (size_t i = 0; i < challenger.size(); ++i) {
      double& own = cost_[i][incumbent_[i]];
      if (own == 0) own = profile.incumbent[i] / run;
      if (challenger[i] != incumbent_[i] && profile.incumbent[i] > 0)
        cost_[i][challenger[i]] = own * profile.challenger[i] / profile.incumbent[i];
    }
  }

  /// Both have a cost, in shares of one run. What was never profiled, because it cannot be built or time was
  /// over, is not proposed.
  bool known(size_t i, size_t a) const { return cost_[i][a] > 0 && cost_[i][incumbent_[i]] > 0; }
  /// What a run is expected to save, as a share, by alternative a of task i. REQUIRES: known.
  double gain(size_t i, size_t a) const { return cost_[i][incumbent_[i]] - cost_[i][a]; }

  /// The best of each task by the profiles, as if they did not touch each other; the race tells whether that
  /// holds. Differences below a quarter of the least gain are noise.
  Combination fastest_apart() const {
    Combination fastest = incumbent_;
    for (size_t i = 0; i < counts_.size(); ++i)
      for (size_t a = 0; a < counts_[i]; ++a)
        if (known(i, a) && gain(i, a) > std::max(gain(i, fastest[i]), kLeastGain / 4)) fastest[i] = a;
    return fastest;
  }

  struct Exchange {
    double gain;
    size_t task, alternative;
  };

  /// Races single exchanges until one wins; false when none does.
  bool exchange_one() {
    // An exchange that looks a little worse is tried too: profiles see a task's own time, not what it does to
    // the caches of others.
    std::vector<Exchange> exchanges;
    for (size_t i = 0; i < counts_.size(); ++i)
      for (size_t a = 0; a < counts_[i]; ++a)
        if (a != incumbent_[i] && known(i, a) && gain(i, a) > -kMostLoss)
          exchanges.push_back({gain(i, a), i, a});
    std::stable_sort(exchanges.begin(), exchanges.end(),
                     [](const Exchange& a, const Exchange& b) { return a.gain > b.gain; });
    for (const Exchange& exchange : exchanges) {
      Combination challenger = incumbent_;
      challenger[exchange.task] = exchange.alternative;
      if (attempt(challenger)) return true;
      if (over()) break;
    }
    return false;
  }

  Chosen compare_with_start() {
    Chosen chosen{start_, status_.before, status_.before, status_.challengers};
    if (incumbent_ == start_) return chosen;
    // However the time stands: what is returned has to rest on turns that chose nothing.
    // Is built still: ModelRace keeps it.
    timer_.challenge(start_);
    if (race(kLastRace, /*reversed=*/true)) chosen.combination = incumbent_;
    chosen.before = chosen.after = raced_.incumbent;
    if (chosen.combination != start_) chosen.after = raced_.challenger;
    return chosen;
  }

  std::span<const size_t> counts_;
  const Combination& start_;
  Combination incumbent_;
  ModelTimer& timer_;
  const ChoiceLimits& limits_;
  std::set<Combination> tried_;
  std::vector<std::vector<double>> cost_;  // by task and alternative: a share of the run; 0: not profiled
  ModelTimer::Turn raced_;                 // medians of the last race
  ChoiceStatus status_;
};

}  // namespace

Chosen choose_combination(std::span<const size_t> counts, const Combination& start,
                          std::span<const Combination> proposals, ModelTimer& timer,
                          const ChoiceLimits& limits) {
  return Choosing(counts, start, timer, limits).run(proposals);
}

}  // namespace lathe::tuner
