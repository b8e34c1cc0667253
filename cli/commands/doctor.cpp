// `tune doctor`: is this machine fit to measure on?
#include "workers/doctor.h"

#include <fmt/core.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/terminal.h"
#include "core/support/bounded_json.h"
#include "core/support/text.h"

namespace lathe::cli {
namespace {

/// In a column of seven.
std::string verdict_text(worker::Verdict verdict) {
  constexpr Color kColors[] = {Color::kGreen, Color::kYellow, Color::kRed, Color::kYellow};  // by Verdict
  return colored(fmt::format("{:<7}", to_string(verdict)), kColors[static_cast<size_t>(verdict)],
                 STDOUT_FILENO);
}

std::vector<std::string> checks_of(const std::vector<worker::Finding>& findings, worker::Verdict verdict) {
  std::vector<std::string> checks;
  for (const worker::Finding& finding : findings)
    if (finding.verdict == verdict) checks.push_back(finding.check);
  return checks;
}

}  // namespace

int doctor_command(Flags& flags) {
  double seconds = 1;
  bool as_json = false;
  flags.add_duration("--watch", seconds, "watch so long what else runs");
  flags.add("--json", as_json, "print a JSON object");
  if (!flags.parse()) return kSuccess;

  const std::vector<worker::Finding> findings = worker::examine("", worker::watch_load(seconds));
  const bool fit = checks_of(findings, worker::Verdict::kBad).empty();
  // A system may tell nothing at all, in a container without /proc say: that is no praise.
  const std::vector<std::string> unknown = checks_of(findings, worker::Verdict::kUnknown);
  if (as_json) {
    nlohmann::json rows = nlohmann::json::array();
    for (const worker::Finding& finding : findings)
      rows.push_back({{"check", finding.check},
                      {"found", finding.found},
                      {"verdict", to_string(finding.verdict)},
                      {"fix", finding.fix}});
    fmt::print("{}\n", json_line({{"fit", fit}, {"unknown", unknown}, {"findings", rows}}));
  } else {
    fmt::print("{:<18}  {:<48}  {:<7}  {}\n", "check", "found", "verdict", "fix");
    for (const worker::Finding& finding : findings)
      fmt::print("{:<18}  {:<48}  {}  {}\n", finding.check, finding.found, verdict_text(finding.verdict),
                 finding.fix);
    fmt::print("\n{}\n", !fit              ? "not fit to measure on: see what is bad"
                         : unknown.empty() ? "fit to measure on"
                                           : "nothing bad was found; unknown: " + join_text(unknown, ", "));
  }
  return fit ? kSuccess : kUnfit;
}

}  // namespace lathe::cli
