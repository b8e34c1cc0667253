#include "tracker/health.h"

#include <algorithm>
#include <cmath>

#include "core/support/error.h"
#include "tracker/defaults.h"

namespace lathe::tracker {

using namespace defaults;

namespace {

using Kernel = double wire::Canary::*;

std::vector<double> values(const std::deque<wire::Canary>& canaries, Kernel kernel) {
  std::vector<double> result;
  for (const wire::Canary& canary : canaries) result.push_back(canary.*kernel);
  std::sort(result.begin(), result.end());
  return result;
}

double share_above(double seconds, double baseline) { return seconds / baseline - 1; }

/// Twice as far as any of these few, for more will come.
db::CanaryLevel level_of(const std::deque<wire::Canary>& canaries, Kernel kernel) {
  const std::vector<double> sorted = values(canaries, kernel);
  // kCanaryBaseline is odd, so this is the median: one canary that met a neighbour does not
  // shift the baseline.
  const double middle = sorted[sorted.size() / 2];
  // The range and not a deviation: of five values that would be an estimate of little worth, and a narrow one
  // would make a machine suspect that jitters as it always did.
  const double spread = std::max(-share_above(sorted.front(), middle), share_above(sorted.back(), middle));
  return {.seconds = middle, .tolerance = std::max(kCanaryTolerance, 2 * spread)};
}

bool is_off(const db::CanaryLevel& level) { return std::abs(level.drift) > level.tolerance; }
bool is_slower(const db::CanaryLevel& level) { return level.drift > level.tolerance; }

bool can_run(const wire::Canary& canary) { return canary.compute_seconds > 0 && canary.memory_seconds > 0; }

}  // namespace

Health::Health(std::string worker, std::string device_class) {
  row_.worker = std::move(worker);
  row_.device_class = std::move(device_class);
}

Health::Health(db::WorkerHealth row) : row_(std::move(row)) {}

std::optional<Health::Change> Health::hear(const wire::Canary& canary) {
  // A copy, or one that a later one has overtaken.
  if (canary.number <= number_) return std::nullopt;
  number_ = canary.number;
  if (!can_run(canary)) {
    good_ = 0;
    // Zeroes mean that its child died: the sandbox or the memory of that machine, not of a candidate.
    return ++off_ >= kCanariesToSuspect ? make_suspect("it cannot run the canary kernels") : Change::kNone;
  }
  // Another release has other kernels, whose times say nothing about the old baseline.
  if (canary.kernels != row_.kernels) {
    row_.compute = row_.memory = {};
    row_.kernels = canary.kernels;
    recent_.clear();
  }
  recent_.push_back(canary);
  if (recent_.size() > kCanaryBaseline) recent_.pop_front();
  // A worker that is slow from the start gets a slow baseline: nothing here knows how fast it should be.
  // Candidates that fail, and confirmations by other workers, tell instead.
  if (!has_baseline()) {
    // With nothing to compare it with it is taken for good.
    off_ = 0, ++good_;
    if (recent_.size() == kCanaryBaseline) set_baseline();
  } else {
    set_drift();
    const bool off = is_off(row_.compute) || is_off(row_.memory);
    // In a row: one canary off among good ones is a neighbour's moment, and samples are watched for
    // these by themselves.
    off_ = off ? off_ + 1 : 0;
    good_ = off ? 0 : good_ + 1;
    // A machine that has become faster for good (another governor, say) is not the worse for it: as many
    // canaries as make a baseline make a new one.
    const bool only_faster = off && !is_slower(row_.compute) && !is_slower(row_.memory);
    // It is suspect for the first few of these, like any that changes, and trusted again below
    // with its new baseline.
    if (off_ >= static_cast<int>(kCanaryBaseline) && only_faster) set_baseline();
  }
  // Said anew with each canary, so that the reason shows the latest drift; only the first
  // time it is a change.
  if (off_ >= kCanariesToSuspect) return make_suspect(describe_drift());
  // Canaries give trust back by themselves: what made it suspect may have been a neighbour.
  if (suspect() && good_ >= kCanariesToTrust && !lies()) {
    row_.suspect.clear();
    // What it failed with then says nothing of it now.
    blamed_.clear(), lies_.clear();
    return Change::kTrusted;
  }
  return Change::kNone;
}

/// Of the last canary.
void Health::set_drift() {
  row_.compute.drift = share_above(recent_.back().compute_seconds, row_.compute.seconds);
  row_.memory.drift = share_above(recent_.back().memory_seconds, row_.memory.seconds);
}

void Health::set_baseline() {
  row_.compute = level_of(recent_, &wire::Canary::compute_seconds);
  row_.memory = level_of(recent_, &wire::Canary::memory_seconds);
  set_drift();
  off_ = 0;
  good_ = static_cast<int>(recent_.size());
}

Health::Change Health::blame(uint64_t trial, bool lied) {
  // A set: the same candidate may be tried, and fail, more than once.
  blamed_.insert(trial);
  if (lied) lies_.insert(trial);
  if (blamed_.size() < kFailuresToSuspect) return Change::kNone;
  good_ = 0;
  // Whatever its canaries say: a worker whose memory is faulty may have perfect ones.
  return make_suspect(
      fmt::format("{} candidates failed with it and did well with another worker", blamed_.size()));
}

Health::Change Health::contradict(int64_t candidate, std::string reason) {
  contradicted_.insert(candidate);
  good_ = 0;
  return make_suspect(std::move(reason));
}

Health Health::elsewhere(std::string device_class) const {
  Health other(row_.worker, std::move(device_class));
  // Its canaries there say nothing of those here; its lies are its own.
  other.contradicted_ = contradicted_;
  if (lies()) other.row_.suspect = row_.suspect;
  return other;
}

void Health::trust() {
  row_.suspect.clear();
  row_.compute = row_.memory = {};
  // The administrator's word that what it does now is right: the baseline is made of what follows.
  recent_.clear();
  blamed_.clear(), lies_.clear();
  contradicted_.clear();
  off_ = good_ = 0;
}

bool Health::lies() const { return contradicted_.size() >= kContradictionsToStay; }

Health::Change Health::make_suspect(std::string reason) {
  const bool was = suspect();
  row_.suspect = std::move(reason);
  return was ? Change::kNone : Change::kSuspect;
}

double Health::drift() const {
  const double compute = row_.compute.drift, memory = row_.memory.drift;
  return std::abs(compute) > std::abs(memory) ? compute : memory;
}

std::string Health::describe_drift() const {
  const auto text = [](const char* kernel, const db::CanaryLevel& level) {
    return fmt::format("{} {:+.1f}% (usual: within {:.1f}%)", kernel, 100 * level.drift,
                       100 * level.tolerance);
  };
  std::string result = fmt::format("{} canaries in a row were off its baseline: ", off_);
  if (is_off(row_.compute)) result += text("compute", row_.compute);
  if (is_off(row_.compute) && is_off(row_.memory)) result += ", ";
  if (is_off(row_.memory)) result += text("memory", row_.memory);
  return result;
}

}  // namespace lathe::tracker
