// JSON for programs, SARIF 2.1.0 (OASIS) for code hosts, and the lines of a history.
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/support/bounded_json.h"
#include "core/support/statistics.h"
#include "gate/report.h"

namespace lathe::gate {
namespace {

using Json = nlohmann::json;

/// A bound that is not known is null.
Json ratio_json(double ln_ratio) { return std::isfinite(ln_ratio) ? Json(std::exp(ln_ratio)) : Json(); }

/// A clock that nobody told is null.
Json mhz_json(double hz) { return hz > 0 ? Json(hz / 1e6) : Json(); }

Json location_json(const Location& ln_ratio) {
  return {{"ratio", ratio_json(ln_ratio.centre)},
          {"low", ratio_json(ln_ratio.low)},
          {"high", ratio_json(ln_ratio.high)}};
}

Json side_json(const Side& side, std::vector<double> seconds, double hz) {
  Json json = {{"from", side.of}, {"digest", side.head.digest}, {"mhz", mhz_json(hz)}};
  if (seconds.empty()) return json;
  json["ms"] = median(seconds) * 1e3;
  for (double& sample : seconds) sample *= 1e3;
  json["samples_ms"] = seconds;
  return json;
}

Json unit_json(const UnitResult& result, const Rule& rule) {
  const Unit& unit = result.unit;
  Json json = {{"unit", unit.name},
               {"target", unit.target()},
               {"verdict", to_string(result.verdict)},
               {"why", explain(result, rule)},
               {"baseline", side_json(unit.baseline, result.baseline_seconds, result.clocks.baseline_hz)},
               {"candidate", side_json(unit.candidate, result.candidate_seconds, result.clocks.candidate_hz)},
               {"pairs", result.pairs},
               {"samples",
                {{"taken", result.clocks.taken},
                 {"dropped", result.clocks.dropped},
                 {"median_mhz", mhz_json(result.clocks.median_hz)}}},
               {"counters", Json::object()}};
  for (const Counter& counter : result.counters)
    json["counters"][counter.name] = {{"baseline", counter.baseline}, {"candidate", counter.candidate}};
  if (!result.uncounted.empty()) json["uncounted"] = result.uncounted;
  // Nothing was measured: no ratio.
  if (result.pairs == 0) return json;
  json.update(location_json(result.ln_ratio));
  if (result.ln_cycles) json["cycles"] = location_json(*result.ln_cycles);
  return json;
}

/// As SARIF calls it; nullptr for what is no result.
const char* level_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kFail:
    case Verdict::kBroken:
      return "error";
    case Verdict::kInconclusive:
    case Verdict::kUnfit:
      return "warning";
    default:
      return nullptr;
  }
}

struct SarifRule {
  Verdict verdict;
  const char *id, *text;
};
constexpr SarifRule kSarifRules[] = {
    {Verdict::kFail, "slower", "The candidate is slower than the baseline by the margin"},
    {Verdict::kBroken, "broken", "The candidate does not run"},
    {Verdict::kInconclusive, "inconclusive", "The machine was too noisy to tell"},
    {Verdict::kUnfit, "unfit",
     "The machine tells equal modules apart, or its device's clock fell too often to tell"},
};

const SarifRule& sarif_rule(Verdict verdict) {
  for (const SarifRule& rule : kSarifRules)
    if (rule.verdict == verdict) return rule;
  CHECK(false, "{}", to_string(verdict));
}

/// A relative reference (RFC 3986), or a file URI for an absolute path.
std::string uri_of(const std::string& path) {
  // No colon: in a relative reference it would make a scheme of what stands before it.
  constexpr std::string_view kPlain = "-._~/";
  std::string uri = path.starts_with('/') ? "file://" : "";
  for (char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte < 128 && (std::isalnum(byte) != 0 || kPlain.find(c) != std::string_view::npos);
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return uri;
}

/// For a SARIF message, in which brackets make links (SARIF 2.1.0, 3.11.6).
std::string without_links(const std::string& text) {
  std::string escaped;
  for (char c : text) {
    if (c == '[' || c == ']' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

Json sarif_result(const std::string& name, const Unit& unit, Verdict verdict, const std::string& why) {
  const Json file = {{"artifactLocation", {{"uri", uri_of(unit.candidate.of)}}}};
  // The fingerprint has no figures: by it a code host knows the alarm of the last run again.
  return {{"ruleId", sarif_rule(verdict).id},
          {"level", level_of(verdict)},
          {"message", {{"text", without_links(fmt::format("{}: {}", name, why))}}},
          {"locations", Json::array({Json{{"physicalLocation", file}}})},
          {"partialFingerprints", {{"unit/v1", fmt::format("{} {}", name, unit.target())}}}};
}

}  // namespace

std::string json_text(const Report& report) {
  Json json = {{"answer", to_string(report.result.answer())},
               {"interrupted", report.result.interrupted},
               {"units", Json::array()},
               {"margin", report.rule.margin},
               {"alpha", report.rule.alpha},
               {"in_cycles", report.rule.in_cycles},
               {"clock_floor", report.rule.clock_floor},
               {"unfit_share", report.rule.unfit_share},
               {"seed", report.seed},
               {"threads", report.threads},
               {"seconds", report.seconds},
               {"device", report.device},
               {"revision", report.revision},
               {"doctor", Json::array()}};
  for (const UnitResult& unit : report.result.units) json["units"].push_back(unit_json(unit, report.rule));
  if (report.result.control) json["control"] = unit_json(*report.result.control, report.rule);
  for (const worker::Finding& finding : report.findings)
    json["doctor"].push_back({{"check", finding.check},
                              {"found", finding.found},
                              {"verdict", worker::to_string(finding.verdict)},
                              {"fix", finding.fix}});
  return json_line(json) + "\n";
}

std::string sarif_text(const Report& report) {
  Json rules = Json::array(), results = Json::array();
  for (const SarifRule& rule : kSarifRules)
    rules.push_back({{"id", rule.id}, {"shortDescription", {{"text", rule.text}}}});
  const GateResult& result = report.result;
  const bool unfit = result.answer() == Answer::kUnfit;
  if (result.tells_equals_apart())
    results.push_back(sarif_result("control", result.control->unit, Verdict::kUnfit,
                                   explain_control(*result.control, report.rule)));
  for (const UnitResult& unit : result.units)
    // An alarm of an unfit gate is none.
    if (level_of(unit.verdict) && (!unfit || unit.verdict == Verdict::kUnfit))
      results.push_back(sarif_result(unit.unit.name, unit.unit, unit.verdict, explain(unit, report.rule)));
  const Json driver = {{"name", "tune gate"}, {"rules", rules}};
  const Json run = {{"tool", {{"driver", driver}}}, {"results", results}};
  return json_line({{"version", "2.1.0"},
                    {"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                    {"runs", Json::array({run})}}) +
         "\n";
}

std::string history_text(const Report& report, const std::string& when) {
  std::string text;
  for (const UnitResult& unit : report.result.units) {
    if (unit.pairs == 0) continue;
    Json line = {{"when", when},
                 {"revision", report.revision},
                 {"unit", unit.unit.name},
                 {"target", unit.unit.target()},
                 {"device", report.device},
                 {"threads", report.threads},
                 {"seconds", median(unit.candidate_seconds)},
                 {"verdict", to_string(unit.verdict)}};
    if (!unit.unit.candidate.shapes.empty()) line["shapes"] = unit.unit.candidate.shapes;
    text += json_line(line) + "\n";
  }
  return text;
}

}  // namespace lathe::gate
