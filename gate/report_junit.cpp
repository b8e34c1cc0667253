// JUnit's XML has no standard: this is the part that Jenkins, GitLab and GitHub's actions all read.
#include <fmt/core.h>

#include "gate/report.h"

namespace lathe::gate {
namespace {

/// Text inside an attribute in quotes, or between tags. What XML cannot hold becomes a question mark, and so
/// does all that is not ASCII: names of files may be no UTF-8.
std::string escape(const std::string& text) {
  std::string escaped;
  for (char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e ? '?' : c;
    }
  }
  return escaped;
}

/// What servers count.
struct Counts {
  int tests = 0, failures = 0, errors = 0, skipped = 0;
};

/// What is inside the test case of such a unit.
std::string outcome_text(Verdict verdict, const std::string& why, Counts& counts) {
  switch (verdict) {
    case Verdict::kFail:
      ++counts.failures;
      return fmt::format("<failure type=\"slower\" message=\"{}\"/>", why);
    case Verdict::kBroken:
      ++counts.errors;
      return fmt::format("<error type=\"broken\" message=\"{}\"/>", why);
    case Verdict::kUnfit:
      ++counts.errors;
      return fmt::format("<error type=\"unfit\" message=\"{}\"/>", why);
    // Neither a failure nor a success; servers show skipped tests, and fail no build for them.
    case Verdict::kInconclusive:
      ++counts.skipped;
      return fmt::format("<skipped message=\"{}\"/>", why);
    default:
      return fmt::format("<system-out>{}: {}</system-out>", to_string(verdict), why);
  }
}

std::string case_text(const Unit& unit, const std::string& name, Verdict verdict, const std::string& why,
                      Counts& counts) {
  ++counts.tests;
  return fmt::format("<testcase classname=\"gate.{}\" name=\"{}\">{}</testcase>\n", escape(unit.target()),
                     escape(name), outcome_text(verdict, escape(why), counts));
}

std::string cases_text(const Report& report, Counts& counts) {
  const GateResult& result = report.result;
  std::string text;
  if (result.tells_equals_apart())
    text += case_text(result.control->unit, "control", Verdict::kUnfit,
                      explain_control(*result.control, report.rule), counts);
  const bool unfit = result.answer() == Answer::kUnfit;
  for (const UnitResult& unit : result.units) {
    const std::string why = explain(unit, report.rule);
    if (unfit && unit.verdict != Verdict::kUnfit)
      text += case_text(unit.unit, unit.unit.name, Verdict::kInconclusive,
                        why + "; of no worth, for the gate is unfit", counts);
    else
      text += case_text(unit.unit, unit.unit.name, unit.verdict, why, counts);
  }
  return text;
}

}  // namespace

std::string junit_text(const Report& report) {
  Counts counts;
  const std::string cases = cases_text(report, counts);
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"tune gate\" tests=\"{}\" "
      "failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.1f}\">\n<properties>\n",
      counts.tests, counts.failures, counts.errors, counts.skipped, report.seconds);
  const auto property = [&](const std::string& name, const std::string& value) {
    text += fmt::format("<property name=\"{}\" value=\"{}\"/>\n", escape(name), escape(value));
  };
  property("device", report.device);
  property("margin", fmt::format("{:g}", report.rule.margin));
  property("seed", fmt::format("{}", report.seed));
  if (report.result.control) property("control", explain(*report.result.control, report.rule));
  for (const worker::Finding& finding : report.findings)
    property("doctor: " + finding.check, fmt::format("{} ({})", finding.found, to_string(finding.verdict)));
  text += "</properties>\n" + cases;
  return text + "</testsuite>\n</testsuites>\n";
}

}  // namespace lathe::gate
