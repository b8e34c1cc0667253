// `tune doctor`: is this machine fit to measure on?
#include "workers/doctor.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/terminal.h"
#include "core/support/bounded_json.h"

namespace lathe::cli {
namespace {

/// In a column of seven.
std::string verdict_text(worker::Verdict verdict) {
  constexpr Color kColors[] = {Color::kGreen, Color::kYellow, Color::kRed};  // by Verdict
  return colored(fmt::format("{:<7}", to_string(verdict)), kColors[static_cast<size_t>(verdict)],
                 STDOUT_FILENO);
}

}  // namespace

int doctor_command(Flags& flags) {
  double seconds = 1;
  bool as_json = false;
  flags.add_duration("--watch", seconds, "watch so long what else runs");
  flags.add("--json", as_json, "print a JSON object");
  if (!flags.parse()) return kSuccess;

  const worker::ForeignLoad load = worker::watch_load(seconds);
  const std::vector<worker::Finding> findings = worker::examine("", load);
  const bool fit = std::none_of(findings.begin(), findings.end(),
                                [](const auto& finding) { return finding.verdict == worker::Verdict::kBad; });
  if (as_json) {
    nlohmann::json rows = nlohmann::json::array();
    for (const worker::Finding& finding : findings)
      rows.push_back({{"check", finding.check},
                      {"found", finding.found},
                      {"verdict", to_string(finding.verdict)},
                      {"fix", finding.fix}});
    fmt::print("{}\n", json_line({{"fit", fit}, {"findings", rows}}));
  } else {
    fmt::print("{:<18}  {:<48}  {:<7}  {}\n", "check", "found", "verdict", "fix");
    for (const worker::Finding& finding : findings)
      fmt::print("{:<18}  {:<48}  {}  {}\n", finding.check, finding.found, verdict_text(finding.verdict),
                 finding.fix);
    fmt::print("\n{}\n", fit ? "fit to measure on" : "not fit to measure on: see what is bad");
  }
  return fit ? kSuccess : kUnfit;
}

}  // namespace lathe::cli
