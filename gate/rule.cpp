#include "gate/rule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/support/error.h"
#include "core/support/statistics.h"

namespace lathe::gate {
namespace {

// A large slowdown shows at the first look whatever its share of alpha; the last one, which decides what is
// near the margin, has the most.
constexpr double kShares[] = {0.2, 0.3, 0.5};  // of alpha, by look
constexpr int kGrowth[] = {1, 2, 4};           // of the pairs, by look
constexpr int kLeastPairs = 10;

/// The lowest clock at which a sample counts. Where it matters and none is told, none does.
double least_hz(const Rule& rule, double median_hz) {
  if (rule.clock_floor <= 0) return 0;
  return median_hz > 0 ? rule.clock_floor * median_hz : std::numeric_limits<double>::infinity();
}

bool is_dropped(const worker::ClockedSample& sample, double least_hz) { return sample.hz < least_hz; }

/// Of those that are not dropped; nullptr when all are.
const worker::ClockedSample* fastest(const Process& process, double least_hz) {
  const worker::ClockedSample* best = nullptr;
  for (const worker::ClockedSample& sample : process)
    if (!is_dropped(sample, least_hz) && (!best || sample.seconds < best->seconds)) best = &sample;
  return best;
}

double median_hz(const std::vector<double>& hz) { return hz.empty() ? 0 : median(hz); }

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
    case Verdict::kUnfit:
      return "UNFIT";
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
    : rule_(rule),
      // Logarithms of ratios: a factor and its inverse are equally far from 0, so that neither
      // side is favoured.
      ln_margin_(std::log1p(rule.margin)),
      looks_(looks_of(rule, units)) {
  CHECK(!rule.in_cycles || rule.clock_floor > 0);
}

void Trial::add(Process baseline, Process candidate) {
  CHECK(!verdict_ && !baseline.empty() && !candidate.empty());
  for (const Process* process : {&baseline, &candidate})
    for (const worker::ClockedSample& sample : *process) CHECK(sample.seconds > 0, "{} s", sample.seconds);
  tried_.push_back({std::move(baseline), std::move(candidate)});
  settle();
  // As often as a first look takes at least: a device that has just begun to compute is no evidence. It ends
  // pairs without end, too, for each that is dropped has lost half of its samples or more.
  if (static_cast<int>(tried_.size()) >= looks_[0].pairs &&
      clocks_.dropped > rule_.unfit_share * clocks_.taken) {
    verdict_ = Verdict::kUnfit;
    return;
  }
  if (pairs() < looks_[looked_].pairs) return;
  // Between looks nothing is judged: deciding after every pair would spend alpha each time.
  const double tail = looks_[looked_++].tail;
  look(tail, looked_ == looks_.size());
}

/// What is kept of all pairs so far, by the median clock so far. It is that of both sides together: were they
/// equal, swapping the sides of a pair would change what is kept of no pair, and its difference by its sign
/// alone, which is all that the signed ranks assume.
void Trial::settle() {
  settle_clocks();
  const double least = least_hz(rule_, clocks_.median_hz);
  for (auto* values : {&baseline_, &candidate_, &ln_ratios_, &ln_cycles_}) values->clear();
  for (const Pair& pair : tried_) {
    const worker::ClockedSample *baseline = fastest(pair.baseline, least),
                                *candidate = fastest(pair.candidate, least);
    if (!baseline || !candidate) continue;
    baseline_.push_back(baseline->seconds);
    candidate_.push_back(candidate->seconds);
    ln_ratios_.push_back(std::log(candidate->seconds / baseline->seconds));
    if (rule_.in_cycles)
      ln_cycles_.push_back(std::log(candidate->seconds * candidate->hz / (baseline->seconds * baseline->hz)));
  }
}

void Trial::settle_clocks() {
  clocks_ = {};
  std::vector<double> of_baseline, of_candidate;
  for (const Pair& pair : tried_)
    for (const auto& [process, hz] :
         {std::pair{&pair.baseline, &of_baseline}, {&pair.candidate, &of_candidate}})
      for (const worker::ClockedSample& sample : *process) {
        ++clocks_.taken;
        if (sample.hz > 0) hz->push_back(sample.hz);
      }
  clocks_.baseline_hz = median_hz(of_baseline);
  clocks_.candidate_hz = median_hz(of_candidate);
  of_baseline.insert(of_baseline.end(), of_candidate.begin(), of_candidate.end());
  clocks_.median_hz = median_hz(of_baseline);
  const double least = least_hz(rule_, clocks_.median_hz);
  for (const Pair& pair : tried_)
    for (const Process* process : {&pair.baseline, &pair.candidate})
      clocks_.dropped += static_cast<int>(
          std::count_if(process->begin(), process->end(),
                        [&](const worker::ClockedSample& sample) { return is_dropped(sample, least); }));
}

/// FAIL and IMPROVED need both, a bound clear of 0 and an estimate at the margin: else a large but uncertain
/// change would count, or a certain but small one. Where the clock moves, cycles must be clear of 0 on the
/// same side: an estimate of what is no change has either sign, each every second time. PASS needs the upper
/// bound of time alone.
void Trial::look(double tail, bool last) {
  // The interval is wrong at either end with a chance of `tail`.
  at_look_ = hodges_lehmann(ln_ratios_, 1 - 2 * tail);
  cycles_at_look_ = rule_.in_cycles ? hodges_lehmann(ln_cycles_, 1 - 2 * tail) : at_look_;
  // FAIL and PASS cannot both hold, for the estimate lies between its bounds. What is improved passes, too:
  // so the stronger verdict is asked for first.
  if (at_look_.low > 0 && at_look_.centre >= ln_margin_ && cycles_at_look_.low > 0)
    verdict_ = Verdict::kFail;
  else if (at_look_.high < 0 && at_look_.centre <= -ln_margin_ && cycles_at_look_.high < 0)
    verdict_ = Verdict::kImproved;
  else if (at_look_.high < ln_margin_)
    verdict_ = Verdict::kPass;
  else if (last)
    verdict_ = Verdict::kInconclusive;
}

Location Trial::ln_ratio() const { return looked_ > 0 ? at_look_ : hodges_lehmann(ln_ratios_, 1); }

std::optional<Location> Trial::ln_cycles() const {
  if (!rule_.in_cycles) return std::nullopt;
  return looked_ > 0 ? cycles_at_look_ : hodges_lehmann(ln_cycles_, 1);
}

}  // namespace lathe::gate
