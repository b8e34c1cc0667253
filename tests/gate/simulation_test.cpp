// Whole gates on simulated machines: how often they alarm for nothing, and how often they find what is there.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "gate/gate.h"
#include "gate/kinds.h"

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
    gate.record(*pair, {{baseline}}, {{candidate}});
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

/// A GPU: it cools down and heats up over many processes, which moves its clock; samples within a process
/// vary by a little; some are throttled to six tenths of the clock. Its driver tells the clock in steps of 15
/// MHz.
class DriftingGpu {
 public:
  DriftingGpu(uint64_t seed, double throttled) : random_(seed), throttled_(throttled) {}

  /// A process of work that takes `seconds` at the full clock, and lets the chip run at `clock` of it.
  Process run(double seconds, double clock) {
    heat_ = 0.97 * heat_ + 0.004 * normal_(random_);
    // Slowed down by what no clock tells: the memory's clock, the way to the host.
    const double scatter = 0.004 * student_(random_);
    Process process;
    for (int i = 0; i < 4; ++i) {
      double hz = kFullHz * clock * std::exp(-0.05 + heat_ + 0.004 * normal_(random_));
      if (uniform_(random_) < throttled_) hz *= 0.6;
      const double told = 15e6 * std::round(hz / 15e6);
      process.push_back(
          {seconds * kFullHz / hz * std::exp(scatter + 0.002 * std::abs(normal_(random_))), told});
    }
    return process;
  }

 private:
  static constexpr double kFullHz = 1980e6;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::student_t_distribution<double> student_{3};
  std::uniform_real_distribution<double> uniform_;
  double throttled_, heat_ = 0;
};

const Rule kGpu = kind_of("cuda").rule;

struct Change {
  double slower = 0;     // in cycles, as a share
  double clock = 1;      // at which the candidate lets the chip run
  double throttled = 0;  // share of all samples
};

/// Runs a gate whose unit 7 is changed.
Gate simulate(uint64_t seed, const Rule& rule, const Change& change) {
  DriftingGpu gpu(seed, change.throttled);
  Gate gate(rule, kUnits, seed);
  while (const std::optional<Gate::Pair> pair = gate.next()) {
    const bool changed = pair->unit == 7;
    const double seconds = 0.001 * (1 + pair->unit);
    Process baseline, candidate;
    for (const bool is_candidate : {pair->candidate_first, !pair->candidate_first}) {
      if (is_candidate)
        candidate = gpu.run(seconds * (changed ? 1 + change.slower : 1), changed ? change.clock : 1);
      else
        baseline = gpu.run(seconds, 1);
    }
    gate.record(*pair, baseline, candidate);
  }
  return gate;
}

bool is_unfit(const Gate& gate) {
  for (int unit = 0; unit < kUnits; ++unit)
    if (gate.trial(unit).verdict() == Verdict::kUnfit) return true;
  return false;
}

TEST(GateSimulation, ACandidateAtALowerClockIsNoAlarm) {
  const Change hotter = {.clock = 0.95};
  int alarms = 0, by_time = 0, unfit = 0;
  for (int i = 0; i < kGates; ++i) {
    const auto seed = static_cast<uint64_t>(i);
    const Gate gate = simulate(seed, kGpu, hotter);
    alarms += any_fails(gate);
    unfit += is_unfit(gate);
    by_time += fails(simulate(seed, {.margin = kGpu.margin}, hotter), 7);
  }
  RecordProperty("alarms", alarms);
  RecordProperty("by_time", by_time);
  EXPECT_GE(by_time, 290);  // the clock is worth asking for
  EXPECT_EQ(alarms, 0);
  EXPECT_EQ(unfit, 0);
}

TEST(GateSimulation, UnchangedUnitsOnADriftingGpuRaiseNoAlarm) {
  int alarms = 0, passed = 0, unfit = 0;
  for (int i = 0; i < kGates; ++i) {
    // Some throttling is what a fit device has, too.
    const Gate gate = simulate(2000 + static_cast<uint64_t>(i), kGpu, {.throttled = 0.05});
    alarms += any_fails(gate);
    unfit += is_unfit(gate);
    for (int unit = 0; unit < kUnits; ++unit) passed += gate.trial(unit).verdict() == Verdict::kPass;
  }
  RecordProperty("passed", passed);
  EXPECT_EQ(alarms, 0);
  EXPECT_EQ(unfit, 0);
  EXPECT_GE(passed, kGates * kUnits * 85 / 100);
}

TEST(GateSimulation, OneSlowerUnitOnADriftingGpuIsFound) {
  int found = 0, others = 0;
  for (int i = 0; i < kGates; ++i) {
    const Gate gate =
        simulate(3000 + static_cast<uint64_t>(i), kGpu, {.slower = 1.5 * kGpu.margin, .throttled = 0.05});
    found += fails(gate, 7);
    for (int unit = 0; unit < kUnits; ++unit) others += unit != 7 && fails(gate, unit);
  }
  RecordProperty("found", found);
  EXPECT_GE(found, 290);
  EXPECT_EQ(others, 0);
}

TEST(GateSimulation, AThrottledGpuIsUnfit) {
  int unfit = 0;
  for (int i = 0; i < kGates; ++i)
    unfit += is_unfit(simulate(4000 + static_cast<uint64_t>(i), kGpu, {.throttled = 0.3}));
  EXPECT_EQ(unfit, kGates);
}

}  // namespace
}  // namespace lathe::gate
