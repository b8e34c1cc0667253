#include "gate/run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/support/error.h"
#include "core/support/unfit.h"
#include "gate/kinds.h"

namespace lathe::gate {
namespace {

/// A unit whose sides are files BASELINE and CANDIDATE with these digests.
Unit unit(const std::string& name, const std::string& baseline, const std::string& candidate) {
  return {.name = name,
          .baseline = {.file = name + "/baseline",
                       .of = "main.db",
                       .head = {.digest = baseline, .code_bytes = 100}},
          .candidate = {
              .file = name + "/candidate", .of = "new.db", .head = {.digest = candidate, .code_bytes = 110}}};
}

/// Machines that take fixed times, by file; those without one do not run.
struct FakeMachine {
  std::map<std::string, double> seconds;
  std::map<std::string, int> runs;
  int most_runs = 1 << 30;  // then it is interrupted

  GateResult gate(const std::vector<Unit>& units) {
    int all = 0;
    const RunModule run = [&](const Side& side, bool count) -> std::optional<worker::ModuleTimes> {
      const std::string& file = side.file;
      if (all++ == most_runs) return std::nullopt;
      ++runs[file];
      if (!seconds.count(file)) fail("{} does not run", file);
      return worker::ModuleTimes{.samples = {{seconds[file]}}, .instructions = count ? 1000 : 0};
    };
    return run_gate(units, {}, /*seed=*/1, run, [](const GateStatus&) {});
  }
};

TEST(RunGate, EqualArtifactsAreTheSameWithoutARun) {
  FakeMachine machine;
  const GateResult result = machine.gate({unit("a", "1", "1"), unit("b", "2", "2")});
  EXPECT_EQ(result.units[0].verdict, Verdict::kSame);
  EXPECT_EQ(result.answer(), Answer::kPass);
  EXPECT_FALSE(result.control);
  EXPECT_TRUE(machine.runs.empty());
}

TEST(RunGate, ASlowerUnitFailsAndASameOneIsTheControl) {
  FakeMachine machine{
      .seconds = {{"a/baseline", 1}, {"a/candidate", 1}, {"b/baseline", 1}, {"b/candidate", 1.1}}};
  const GateResult result = machine.gate({unit("a", "1", "1"), unit("b", "2", "3")});
  EXPECT_EQ(result.answer(), Answer::kFail);
  EXPECT_EQ(result.units[1].verdict, Verdict::kFail);
  EXPECT_EQ(result.units[1].pairs, 10);
  EXPECT_NEAR(std::exp(result.units[1].ln_ratio.centre), 1.1, 1e-9);
  ASSERT_TRUE(result.control);
  EXPECT_EQ(result.control->verdict, Verdict::kPass);
  EXPECT_EQ(result.control->unit.name, "a");
  EXPECT_EQ(machine.runs["b/candidate"], 10);
}

TEST(RunGate, InstructionsAreCountedOnceAndShown) {
  FakeMachine machine{.seconds = {{"a/baseline", 1}, {"a/candidate", 1}}};
  const UnitResult result = machine.gate({unit("a", "1", "2")}).units[0];
  EXPECT_EQ(result.counters[0].name, "instructions");
  EXPECT_EQ(result.counters[0].candidate, 1000);
  EXPECT_EQ(result.counters[1].name, "code bytes");
  EXPECT_EQ(result.counters[1].baseline, 100);
  EXPECT_EQ(result.counters[1].candidate, 110);
}

TEST(RunGate, ACandidateThatDoesNotRunIsBroken) {
  FakeMachine machine{.seconds = {{"a/baseline", 1}, {"b/baseline", 1}, {"b/candidate", 1}}};
  const GateResult result = machine.gate({unit("a", "1", "2"), unit("b", "1", "2")});
  EXPECT_EQ(result.answer(), Answer::kFail);
  EXPECT_FALSE(result.interrupted);
  EXPECT_EQ(result.units[0].verdict, Verdict::kBroken);
  EXPECT_EQ(result.units[0].broken, "a/candidate does not run");
  EXPECT_EQ(result.units[1].verdict, Verdict::kPass);
}

TEST(RunGate, ABaselineThatDoesNotRunIsAnError) {
  FakeMachine machine{.seconds = {{"a/candidate", 1}}};
  EXPECT_THROW(machine.gate({unit("a", "1", "2")}), Error);
}

TEST(RunGate, AMachineThatEndsProcessesIsNoVerdict) {
  const RunModule run = [](const Side& side, bool) -> std::optional<worker::ModuleTimes> {
    if (side.file == "a/candidate") throw Unfit("out of memory");
    return worker::ModuleTimes{.samples = {{1}}};
  };
  EXPECT_THROW(run_gate({unit("a", "1", "2")}, {}, /*seed=*/1, run, [](const GateStatus&) {}), Unfit);
}

TEST(RunGate, AControlThatDiffersFromItselfMakesTheMachineUnfit) {
  GateResult result;
  result.units.resize(1);
  result.units[0].verdict = Verdict::kFail;
  result.control = result.units[0];
  EXPECT_EQ(result.answer(), Answer::kUnfit);
  result.control->verdict = Verdict::kPass;
  EXPECT_EQ(result.answer(), Answer::kFail);
}

TEST(RunGate, AnInterruptedGateTellsWhatItHas) {
  FakeMachine machine{.seconds = {{"a/baseline", 1}, {"a/candidate", 2}}, .most_runs = 7};
  const GateResult result = machine.gate({unit("a", "1", "2")});
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.units[0].verdict, Verdict::kInconclusive);
  EXPECT_EQ(result.units[0].pairs, 3);
  EXPECT_EQ(result.answer(), Answer::kInconclusive);
}

TEST(RunGate, AnUnfitDeviceEndsTheGate) {
  const Rule rule = kind_of("cuda").rule;
  std::map<std::string, int> runs;
  // Of unit a every third sample is taken at half of the clock.
  const RunModule run = [&](const Side& side, bool) -> std::optional<worker::ModuleTimes> {
    ++runs[side.file];
    const double hz = side.file.starts_with("a/") ? 1e9 : 2e9;
    return worker::ModuleTimes{.samples = {{1, 2e9}, {1, 2e9}, {1, hz}}};
  };
  const GateResult result =
      run_gate({unit("a", "1", "2"), unit("b", "1", "2")}, rule, /*seed=*/1, run, [](const GateStatus&) {});
  EXPECT_EQ(result.units[0].verdict, Verdict::kUnfit);
  EXPECT_EQ(result.units[0].clocks.dropped, runs["a/candidate"] * 2);
  EXPECT_EQ(result.units[1].pairs, result.units[0].pairs - 1) << "it ends at once";
  EXPECT_EQ(result.answer(), Answer::kUnfit);
  EXPECT_FALSE(result.interrupted);
}

TEST(Kinds, AreRows) {
  EXPECT_EQ(kind_of("cpu:mcpu=znver4").rule.margin, 0.03);
  EXPECT_FALSE(kind_of("cpu").rule.in_cycles);
  EXPECT_EQ(kind_of("").name, "cpu");
  for (const char* target : {"cuda:arch=sm_90", "hip"}) {
    const Kind& kind = kind_of(target);
    EXPECT_EQ(kind.rule.margin, 0.02);
    EXPECT_TRUE(kind.rule.in_cycles);
    EXPECT_EQ(kind.rule.clock_floor, 0.75);
    EXPECT_EQ(kind.rule.unfit_share, 0.2);
    EXPECT_TRUE(kind.clock);
  }
  EXPECT_THROW(kind_of("cud"), Error);
}

}  // namespace
}  // namespace lathe::gate
