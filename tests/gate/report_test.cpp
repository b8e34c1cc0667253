#include "gate/report.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace lathe::gate {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Unit unit(const std::string& name) {
  return {.name = name,
          .baseline = {.of = "main.db", .head = {.plan = {.target = "cpu:x"}, .digest = "1"}},
          .candidate = {.of = "new 1.db", .head = {.plan = {.target = "cpu:x"}, .digest = "2"}}};
}

UnitResult measured(const std::string& name, Verdict verdict, double ratio) {
  return {.unit = unit(name),
          .verdict = verdict,
          .pairs = 12,
          .ln_ratio = {std::log(ratio), std::log(ratio - 0.02), std::log(ratio + 0.02)},
          .baseline_seconds = {0.001, 0.002, 0.003},
          .candidate_seconds = {0.001, 0.002 * ratio, 0.004},
          .counters = {{"code bytes", 1000, 1100}, {"arena bytes", 64, 64}},
          .uncounted = "no counter"};
}

Report report() {
  Report report{.seed = 7, .seconds = 12, .device = "host (2 cores of X)", .revision = "abc"};
  report.result.units = {measured("slow", Verdict::kFail, 1.05), measured("fine", Verdict::kPass, 1),
                         measured("noisy<&>", Verdict::kInconclusive, 1.03)};
  report.result.units.push_back({.unit = unit("same"), .verdict = Verdict::kSame});
  report.result.units.push_back(
      {.unit = unit("broken"), .verdict = Verdict::kBroken, .broken = "it \"crashed\""});
  report.result.control = measured("same", Verdict::kPass, 1);
  report.findings = {{"governor", "powersave", worker::Verdict::kBad, "cpupower"},
                     {"quota", "none", worker::Verdict::kGood, ""}};
  return report;
}

TEST(GateReport, ATableForPeople) {
  const std::string text = table_text(report());
  EXPECT_THAT(text, HasSubstr("\nslow                            FAIL          +5.0%   +3.0% .. +7.0%  12    "
                              " 2 ms      2.1 ms\n"));
  EXPECT_THAT(text, HasSubstr("\nsame                            SAME          -       -"));
  EXPECT_THAT(text, HasSubstr("\nsame (control: against itself)  PASS"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "\nslow: time +5.0% (+3.0% .. +7.0%): slower; margin 3%, 12 pairs\n"
          "  code bytes 0.0011 MB, +10.0%; arena bytes 6.4e-05 MB, equal; no instructions: no counter\n"));
  EXPECT_THAT(text, HasSubstr("\nbroken: it \"crashed\"\n"));
  EXPECT_THAT(text, HasSubstr("\ndoctor: governor: powersave; cpupower\n"));
  EXPECT_THAT(text, Not(HasSubstr("quota")));
  EXPECT_THAT(text, HasSubstr("seed 7"));
  EXPECT_THAT(text, ::testing::EndsWith("gate: fail\n"));
}

TEST(GateReport, BoundsThatAreNotKnownAreSaidToBe) {
  UnitResult result = measured("a", Verdict::kInconclusive, 1);
  result.ln_ratio.low = -std::numeric_limits<double>::infinity();
  result.ln_ratio.high = std::numeric_limits<double>::infinity();
  EXPECT_THAT(explain(result, {}), HasSubstr("+0.0% (unbounded .. unbounded): too noisy to tell"));
  Report one{.result = {.units = {result}}};
  EXPECT_TRUE(nlohmann::json::parse(json_text(one))["units"][0]["low"].is_null());
}

TEST(GateReport, JsonHoldsAllOfIt) {
  const nlohmann::json json = nlohmann::json::parse(json_text(report()));
  EXPECT_EQ(json["answer"], "fail");
  EXPECT_EQ(json["seed"], 7);
  EXPECT_EQ(json["doctor"].size(), 2u);
  EXPECT_EQ(json["control"]["verdict"], "PASS");
  const nlohmann::json& slow = json["units"][0];
  EXPECT_EQ(slow["verdict"], "FAIL");
  EXPECT_NEAR(slow["ratio"], 1.05, 1e-9);
  EXPECT_NEAR(slow["low"], 1.03, 1e-9);
  EXPECT_NEAR(slow["candidate"]["ms"], 2.1, 1e-9);
  EXPECT_NEAR(slow["candidate"]["samples_ms"][2], 4, 1e-9);
  EXPECT_EQ(slow["counters"]["code bytes"]["candidate"], 1100);
  EXPECT_FALSE(json["units"][3].contains("ratio"));
}

TEST(GateReport, JUnitHasACaseForEachUnit) {
  const std::string xml = junit_text(report());
  EXPECT_THAT(xml, HasSubstr("tests=\"5\" failures=\"1\" errors=\"1\" skipped=\"1\" time=\"12.0\""));
  EXPECT_THAT(
      xml,
      HasSubstr(
          "<testcase classname=\"gate.cpu:x\" name=\"slow\"><failure type=\"slower\" message=\"time +5.0%"));
  EXPECT_THAT(xml, HasSubstr("name=\"noisy&lt;&amp;&gt;\"><skipped message="));
  EXPECT_THAT(xml, HasSubstr("<error type=\"broken\" message=\"it &quot;crashed&quot;\"/>"));
  EXPECT_THAT(xml, HasSubstr("<property name=\"doctor: governor\" value=\"powersave (bad)\"/>"));
}

TEST(GateReport, SarifHasWhatIsWrong) {
  const nlohmann::json run = nlohmann::json::parse(sarif_text(report()))["runs"][0];
  ASSERT_EQ(run["results"].size(), 3u);
  EXPECT_EQ(run["results"][0]["ruleId"], "slower");
  EXPECT_EQ(run["results"][0]["level"], "error");
  EXPECT_EQ(run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], "new%201.db");
  EXPECT_EQ(run["results"][1]["level"], "warning");
  EXPECT_EQ(run["tool"]["driver"]["rules"].size(), 4u);
}

/// Servers count failures themselves, and know no exit code.
TEST(GateReport, AGateThatTellsEqualsApartReportsNoRegression) {
  Report unfit = report();
  unfit.result.control = measured("same", Verdict::kFail, 1.2);
  const std::string junit = junit_text(unfit);
  EXPECT_THAT(junit, HasSubstr("tests=\"6\" failures=\"0\" errors=\"1\" skipped=\"5\""));
  EXPECT_THAT(junit,
              HasSubstr("name=\"control\"><error type=\"unfit\" message=\"this machine tells equal modules "
                        "apart: same against itself: "));
  EXPECT_THAT(junit, HasSubstr("of no worth, for the gate is unfit\"/></testcase>"));
  EXPECT_THAT(junit, Not(HasSubstr("<failure")));
  const nlohmann::json results = nlohmann::json::parse(sarif_text(unfit))["runs"][0]["results"];
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0]["ruleId"], "unfit");
  EXPECT_EQ(results[0]["partialFingerprints"]["unit/v1"], "control cpu:x");
}

TEST(GateReport, OfAnUnfitDeviceOnlyThatIsReported) {
  Report unfit = report();
  unfit.result.units[2].verdict = Verdict::kUnfit;
  EXPECT_THAT(junit_text(unfit), HasSubstr("tests=\"5\" failures=\"0\" errors=\"1\" skipped=\"4\""));
  EXPECT_EQ(nlohmann::json::parse(sarif_text(unfit))["runs"][0]["results"].size(), 1u);
}

TEST(GateReport, SarifLinksNowhereForAModule) {
  Report one = report();
  one.result.units = {measured("[a](https://example.org)", Verdict::kFail, 1.05)};
  const nlohmann::json run = nlohmann::json::parse(sarif_text(one))["runs"][0];
  EXPECT_THAT(run["results"][0]["message"]["text"].get<std::string>(),
              HasSubstr("\\[a\\](https://example.org): time"));
}

TEST(GateReport, MarkdownIsATableWithoutBrokenCells) {
  Report one = report();
  one.result.units = {measured("a|b\nc", Verdict::kFail, 1.05), measured("d\\`e", Verdict::kPass, 1)};
  const std::string text = markdown_text(one);
  EXPECT_THAT(text, HasSubstr("\n| `d\\'e` | PASS |"));
  EXPECT_THAT(text, HasSubstr("### Performance gate: fail\n"));
  EXPECT_THAT(text, HasSubstr("\n| `a\u00a6b c` | FAIL | +5.0% |"));
  EXPECT_THAT(text, HasSubstr("\n| governor | powersave | bad | cpupower |\n"));
}

TEST(GateReport, MarkdownLinksAndCallsNobodyForAModule) {
  Report one = report();
  one.result.units = {
      measured("@everyone https://example.org", Verdict::kFail, 1.05),
      {.unit = unit("#1"), .verdict = Verdict::kBroken, .broken = "see `https://example.org`, @admin"}};
  const std::string text = markdown_text(one);
  EXPECT_THAT(text, HasSubstr("\n| `@everyone https://example.org` | FAIL |"));
  EXPECT_THAT(text, HasSubstr("\n- `@everyone https://example.org`: time +5.0%"));
  EXPECT_THAT(text, HasSubstr("\n- `#1`: `see 'https://example.org', @admin`."));
}

TEST(GateReport, HistoryHasALineForEachMeasuredUnit) {
  const std::string text = history_text(report(), "2026-11-23T08:00:00Z");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  const nlohmann::json line = nlohmann::json::parse(text.substr(0, text.find('\n')));
  EXPECT_EQ(line["unit"], "slow");
  EXPECT_EQ(line["when"], "2026-11-23T08:00:00Z");
  EXPECT_NEAR(line["seconds"], 0.0021, 1e-12);
  EXPECT_FALSE(line.contains("shapes"));
  Report one = report();
  one.result.units[0].unit.candidate.shapes = "x (1, 128)";
  EXPECT_THAT(history_text(one, ""), HasSubstr("\"shapes\":\"x (1, 128)\""));
}

class ReportOfAGpu : public testing::Test {
 protected:
  ReportOfAGpu()
      : report_{.rule = {.margin = 0.02, .in_cycles = true, .clock_floor = 0.75, .unfit_share = 0.2}} {
    UnitResult slow = measured("slow", Verdict::kFail, 1.05);
    slow.ln_cycles = {std::log(1.04), std::log(1.01), std::log(1.08)};
    slow.clocks = {
        .median_hz = 1980e6, .baseline_hz = 1980e6, .candidate_hz = 1965e6, .taken = 240, .dropped = 12};
    UnitResult hotter = slow;
    hotter.verdict = Verdict::kInconclusive;
    hotter.unit.name = "hotter";
    hotter.ln_cycles->low = std::log(0.99);
    hotter.clocks.candidate_hz = 1800e6;
    UnitResult unfit = slow;
    unfit.verdict = Verdict::kUnfit;
    unfit.unit.name = "unfit";
    unfit.clocks.dropped = 60;
    report_.result.units = {slow, hotter, unfit};
  }
  Report report_;
};

TEST_F(ReportOfAGpu, SaysWhatWasDroppedAndWhatCyclesSay) {
  const std::string slow =
      "time +5.0% (+3.0% .. +7.0%): slower; margin 2%, 12 pairs; cycles +4.0% (+1.0% .. +8.0%); 12 of 240 "
      "samples "
      "dropped, at less than 75% of the median clock of 1980 MHz";
  const std::string hotter =
      "time +5.0% (+3.0% .. +7.0%): slower, and not in cycles: the clock was 1800 MHz, and 1980 before the "
      "change; "
      "lock it, as `tune doctor` says; margin 2%";
  const std::string unfit =
      "60 of 240 samples dropped, at less than 75% of the median clock of 1980 MHz, and 20% are the most "
      "that a "
      "device may lose: lock its clock, as `tune doctor` says, and measure again";
  const std::string table = table_text(report_);
  for (const std::string& why : {slow, hotter, unfit}) {
    EXPECT_THAT(table, HasSubstr(why));
    EXPECT_THAT(json_text(report_), HasSubstr(why));
    EXPECT_THAT(junit_text(report_), HasSubstr("message=\"" + why));
    // Of an unfit gate what made it so alone.
    EXPECT_EQ(sarif_text(report_).find(why) != std::string::npos, why == unfit);
  }
  EXPECT_THAT(table, HasSubstr("; in time and in cycles of the clock\n"));
  EXPECT_THAT(table, ::testing::EndsWith("gate: unfit\n"));
  EXPECT_THAT(markdown_text(report_), HasSubstr("60 of 240 samples dropped"));
  EXPECT_THAT(junit_text(report_), HasSubstr("errors=\"1\""));
  report_.result.units.pop_back();
  for (const std::string& why : {slow, hotter}) EXPECT_THAT(sarif_text(report_), HasSubstr(why));
}

TEST_F(ReportOfAGpu, InNumbers) {
  const nlohmann::json json = nlohmann::json::parse(json_text(report_));
  EXPECT_EQ(json["answer"], "unfit");
  EXPECT_EQ(json["clock_floor"], 0.75);
  EXPECT_EQ(json["unfit_share"], 0.2);
  const nlohmann::json& unit = json["units"][0];
  EXPECT_EQ(unit["samples"], (nlohmann::json{{"taken", 240}, {"dropped", 12}, {"median_mhz", 1980}}));
  EXPECT_NEAR(unit["cycles"]["low"], 1.01, 1e-9);
  EXPECT_EQ(unit["candidate"]["mhz"], 1965);
}

}  // namespace
}  // namespace lathe::gate
