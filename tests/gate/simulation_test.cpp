// Whole gates on simulated machines: how often they alarm for nothing, and how often they find what is there.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "gate/gate.h"

namespace lathe::gate {
namespace {

constexpr int kGates = 300, kUnits = 25;

/// A machine where each process takes another time: load that comes and goes over many processes
/// (correlated), clocks that drift by a tenth over the gate, rare processes that are slowed down by much
/// (heavy tails), and scatter of its own.
class NoisyMachine {
 public:
  explicit NoisyMachine(uint64_t seed) : random_(seed) {}

  /// Seconds of a process that takes `seconds` when nothing disturbs it.
  double run(double seconds) {
    ++processes_;
    load_ = 0.9 * load_ + 0.01 * normal_(random_);
    const double drift = 0.05 * std::sin(processes_ * std::numbers::pi / 400);
    const double scatter = 0.006 * student_(random_);
    double slowdown = 0;
    if (uniform_(random_) < 0.1) slowdown = 0.07 / std::sqrt(1 - uniform_(random_));  // of infinite variance
    return seconds * std::exp(load_ + drift + scatter + std::min(slowdown, 3.0));
  }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::student_t_distribution<double> student_{3};
  std::uniform_real_distribution<double> uniform_;
  double load_ = 0;
  int processes_ = 0;
};

/// Runs a gate whose unit 7 is slower by the share.
Gate simulate(uint64_t seed, double slower) {
  NoisyMachine machine(seed);
  Gate gate(Rule{}, kUnits, seed);
  while (const std::optional<Gate::Pair> pair = gate.next()) {
    const double seconds = 0.001 * (1 + pair->unit), changed = seconds * (pair->unit == 7 ? 1 + slower : 1);
    double baseline = 0, candidate = 0;
    if (pair->candidate_first) candidate = machine.run(changed);
    baseline = machine.run(seconds);
    if (!pair->candidate_first) candidate = machine.run(changed);
    gate.record(*pair, baseline, candidate);
  }
  return gate;
}

bool fails(const Gate& gate, int unit) { return gate.trial(unit).verdict() == Verdict::kFail; }

/// What many gates do: alarm when the mean of the first ten processes is larger by 5%.
bool alarms_by_means(const Gate& gate) {
  for (int unit = 0; unit < kUnits; ++unit) {
    double baseline = 0, candidate = 0;
    for (size_t i = 0; i < 10; ++i) {
      baseline += gate.trial(unit).baseline()[i];
      candidate += gate.trial(unit).candidate()[i];
    }
    if (candidate > 1.05 * baseline) return true;
  }
  return false;
}

bool any_fails(const Gate& gate) {
  for (int unit = 0; unit < kUnits; ++unit)
    if (fails(gate, unit)) return true;
  return false;
}

TEST(GateSimulation, UnchangedUnitsRaiseHardlyAnyAlarm) {
  int failed = 0, undecided = 0, passed = 0, by_means = 0;
  for (int i = 0; i < kGates; ++i) {
    const Gate gate = simulate(static_cast<uint64_t>(i), 0);
    failed += any_fails(gate);
    by_means += alarms_by_means(gate);
    for (int unit = 0; unit < kUnits; ++unit) {
      undecided += gate.trial(unit).verdict() == Verdict::kInconclusive;
      passed += gate.trial(unit).verdict() == Verdict::kPass;
    }
  }
  RecordProperty("failed", failed);
  RecordProperty("by_means", by_means);
  EXPECT_GE(by_means, kGates / 2);  // the noise is worth the name
  EXPECT_LE(failed, 6);
  EXPECT_GE(passed, kGates * kUnits * 85 / 100) << undecided << " undecided";  // and not by saying nothing
}

TEST(GateSimulation, OneSlowerUnitIsFound) {
  int found = 0, others = 0;
  for (int i = 0; i < kGates; ++i) {
    const Gate gate = simulate(1000 + static_cast<uint64_t>(i), 1.5 * Rule{}.margin);
    found += fails(gate, 7);
    for (int unit = 0; unit < kUnits; ++unit) others += unit != 7 && fails(gate, unit);
  }
  RecordProperty("found", found);
  EXPECT_GE(found, 290);
  EXPECT_LE(others, 6);
}

}  // namespace
}  // namespace lathe::gate
