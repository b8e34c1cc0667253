// JUnit's XML has no standard: this is the part that Jenkins, GitLab and GitHub's actions all read.
#include <fmt/core.h>

#include <algorithm>

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

int count(const Report& report, Verdict verdict) {
  const std::vector<UnitResult>& units = report.result.units;
  return static_cast<int>(std::count_if(units.begin(), units.end(),
                                        [&](const UnitResult& unit) { return unit.verdict == verdict; }));
}

/// What is inside the test case of such a unit.
std::string outcome_text(const UnitResult& unit, const std::string& why) {
  switch (unit.verdict) {
    case Verdict::kFail:
      return fmt::format("<failure type=\"slower\" message=\"{}\"/>", why);
    case Verdict::kBroken:
      return fmt::format("<error type=\"broken\" message=\"{}\"/>", why);
    case Verdict::kUnfit:
      return fmt::format("<error type=\"unfit\" message=\"{}\"/>", why);
    // Neither a failure nor a success; servers show skipped tests, and fail no build for them.
    case Verdict::kInconclusive:
      return fmt::format("<skipped message=\"{}\"/>", why);
    default:
      return fmt::format("<system-out>{}: {}</system-out>", to_string(unit.verdict), why);
  }
}

}  // namespace

std::string junit_text(const Report& report) {
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"tune gate\" tests=\"{}\" "
      "failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.1f}\">\n<properties>\n",
      report.result.units.size(), count(report, Verdict::kFail),
      count(report, Verdict::kBroken) + count(report, Verdict::kUnfit), count(report, Verdict::kInconclusive),
      report.seconds);
  const auto property = [&](const std::string& name, const std::string& value) {
    text += fmt::format("<property name=\"{}\" value=\"{}\"/>\n", escape(name), escape(value));
  };
  property("device", report.device);
  property("margin", fmt::format("{:g}", report.rule.margin));
  property("seed", fmt::format("{}", report.seed));
  if (report.result.control) property("control", explain(*report.result.control, report.rule));
  for (const worker::Finding& finding : report.findings)
    property("doctor: " + finding.check, fmt::format("{} ({})", finding.found, to_string(finding.verdict)));
  text += "</properties>\n";
  for (const UnitResult& unit : report.result.units)
    text +=
        fmt::format("<testcase classname=\"gate.{}\" name=\"{}\">{}</testcase>\n", escape(unit.unit.target()),
                    escape(unit.unit.name), outcome_text(unit, escape(explain(unit, report.rule))));
  return text + "</testsuite>\n</testsuites>\n";
}

}  // namespace lathe::gate
