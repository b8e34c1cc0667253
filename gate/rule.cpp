#include "gate/rule.h"

#include <algorithm>
#include <cmath>

#include "core/support/error.h"

namespace lathe::gate {
namespace {

// A large slowdown shows at the first look whatever its share of alpha; the last one, which decides what is
// near the margin, has the most.
constexpr double kShares[] = {0.2, 0.3, 0.5};  // of alpha, by look
constexpr int kGrowth[] = {1, 2, 4};           // of the pairs, by look
constexpr int kLeastPairs = 10;

}  // namespace

/// Programs read these in the JSON and in histories.
const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSame:
      return "SAME";
    case Verdict::kPass:
      return "PASS";
    case Verdict::kImproved:
      return "IMPROVED";
    case Verdict::kFail:
      return "FAIL";
    case Verdict::kInconclusive:
      return "INCONCLUSIVE";
    case Verdict::kBroken:
      return "BROKEN";
  }
  return "";
}

std::array<Look, 3> looks_of(const Rule& rule, int units) {
  CHECK(units >= 1, "{} units", units);
  const double each = rule.alpha / units;
  // The smallest tail that n signed ranks can have is 2^-n: all pairs agree.
  const int first = std::max(kLeastPairs, static_cast<int>(std::ceil(-std::log2(kShares[0] * each))));
  std::array<Look, 3> looks;
  for (size_t i = 0; i < looks.size(); ++i) looks[i] = {kGrowth[i] * first, kShares[i] * each};
  return looks;
}

Trial::Trial(const Rule& rule, int units)
    // Logarithms of ratios: a factor and its inverse are equally far from 0, so that neither
    // side is favoured.
    : ln_margin_(std::log1p(rule.margin)), looks_(looks_of(rule, units)) {}

void Trial::add(double baseline_seconds, double candidate_seconds) {
  CHECK(!verdict_ && baseline_seconds > 0 && candidate_seconds > 0, "{} s, {} s", baseline_seconds,
        candidate_seconds);
  baseline_.push_back(baseline_seconds);
  candidate_.push_back(candidate_seconds);
  ln_ratios_.push_back(std::log(candidate_seconds / baseline_seconds));
  if (pairs() < looks_[looked_].pairs) return;
  // Between looks nothing is judged: deciding after every pair would spend alpha each time.
  const double tail = looks_[looked_++].tail;
  look(tail, looked_ == looks_.size());
}

/// FAIL and IMPROVED need both, a bound clear of 0 and an estimate at the margin: else a large but uncertain
/// change would count, or a certain but small one. PASS needs the upper bound alone.
void Trial::look(double tail, bool last) {
  // The interval is wrong at either end with a chance of `tail`.
  at_look_ = hodges_lehmann(ln_ratios_, 1 - 2 * tail);
  // FAIL and PASS cannot both hold, for the estimate lies between its bounds. What is improved passes, too:
  // so the stronger verdict is asked for first.
  if (at_look_.low > 0 && at_look_.centre >= ln_margin_)
    verdict_ = Verdict::kFail;
  else if (at_look_.high < 0 && at_look_.centre <= -ln_margin_)
    verdict_ = Verdict::kImproved;
  else if (at_look_.high < ln_margin_)
    verdict_ = Verdict::kPass;
  else if (last)
    verdict_ = Verdict::kInconclusive;
}

Location Trial::ln_ratio() const { return looked_ > 0 ? at_look_ : hodges_lehmann(ln_ratios_, 1); }

}  // namespace lathe::gate
