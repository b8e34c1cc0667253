// The table for terminals and the page in Markdown: the same rows.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/support/statistics.h"
#include "gate/report.h"

namespace lathe::gate {
namespace {

/// Of one side alone. The quotient of the two medians need not be the change: that is of pairs, whose halves
/// share a slow minute.
std::string milliseconds(const std::vector<double>& seconds) {
  return fmt::format("{:.4g} ms", median(seconds) * 1e3);
}

std::string bounds_text(const Location& ln_ratio) {
  return fmt::format("{} .. {}", change_text(ln_ratio.low), change_text(ln_ratio.high));
}

/// "1.2 MB, +3.0%".
std::string counter_text(const Counter& counter) {
  const bool bytes = counter.name.ends_with("bytes");
  const std::string now = bytes ? fmt::format("{:.4g} MB", static_cast<double>(counter.candidate) / 1e6)
                                : fmt::format("{:.6g}", static_cast<double>(counter.candidate));
  if (counter.candidate == counter.baseline) return now + ", equal";
  if (counter.baseline == 0) return now + ", from 0";
  return fmt::format(
      "{}, {}", now,
      change_text(std::log(static_cast<double>(counter.candidate) / static_cast<double>(counter.baseline))));
}

using Row = std::vector<std::string>;

const Row kHeader = {"unit", "verdict", "change", "bounds", "pairs", "baseline", "candidate"};

/// Dashes where nothing was measured. `suffix` follows the unit's name.
Row row_of(const UnitResult& unit, const std::string& suffix) {
  Row row = {unit.unit.name + suffix, to_string(unit.verdict)};
  if (unit.pairs == 0) {
    row.resize(kHeader.size(), "-");
    return row;
  }
  row.insert(row.end(),
             {change_text(unit.ln_ratio.centre), bounds_text(unit.ln_ratio), fmt::format("{}", unit.pairs),
              milliseconds(unit.baseline_seconds), milliseconds(unit.candidate_seconds)});
  return row;
}

std::vector<Row> rows_of(const GateResult& result) {
  std::vector<Row> rows = {kHeader};
  for (const UnitResult& unit : result.units) rows.push_back(row_of(unit, ""));
  if (result.control) rows.push_back(row_of(*result.control, " (control: against itself)"));
  return rows;
}

/// Columns that line up.
std::string aligned(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows[0].size());
  for (const Row& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string how_text(const Report& report) {
  std::string text =
      fmt::format("{}; {} thread{}, margin {:g}%, family alpha {:g}%, seed {}, {:.0f} s", report.device,
                  report.threads, report.threads == 1 ? "" : "s", 100 * report.rule.margin,
                  100 * report.rule.alpha, report.seed, report.seconds);
  if (report.rule.in_cycles) text += "; in time and in cycles of the clock";
  return text;
}

/// "12 of 640 samples dropped, at less than 75% of the median clock of 1980 MHz".
std::string dropped_text(const Clocks& clocks, const Rule& rule) {
  if (clocks.median_hz <= 0) return fmt::format("no clock was told with any of {} samples", clocks.taken);
  return fmt::format("{} of {} samples dropped, at less than {:g}% of the median clock of {:.0f} MHz",
                     clocks.dropped, clocks.taken, 100 * rule.clock_floor, clocks.median_hz / 1e6);
}

/// Of the clock, where it was asked for; "" or after a semicolon.
std::string clock_text(const UnitResult& unit, const Rule& rule) {
  std::string text;
  if (unit.ln_cycles)
    text +=
        fmt::format("; cycles {} ({})", change_text(unit.ln_cycles->centre), bounds_text(*unit.ln_cycles));
  if (unit.clocks.dropped > 0) text += "; " + dropped_text(unit.clocks, rule);
  return text;
}

/// Time says that the margin is passed, and cycles do not: what differs is the clock.
bool differs_by_clock(const UnitResult& unit, const Rule& rule) {
  return unit.ln_cycles && unit.ln_ratio.low > 0 && unit.ln_ratio.centre >= std::log1p(rule.margin) &&
         unit.ln_cycles->low <= 0;
}

/// One line for each unit whose artifacts differ.
std::string counters_text(const UnitResult& unit) {
  std::string text;
  for (const Counter& counter : unit.counters)
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", counter.name, counter_text(counter));
  if (!unit.uncounted.empty()) text += fmt::format("; no instructions: {}", unit.uncounted);
  return text;
}

}  // namespace

std::string change_text(double ln_ratio) {
  // A bound is infinite where there are too few pairs for its confidence.
  if (!std::isfinite(ln_ratio)) return "unbounded";
  const double percent = 100 * std::expm1(ln_ratio);
  // Not "-0.0%".
  return fmt::format("{:+.1f}%", std::abs(percent) < 0.05 ? 0 : percent);
}

std::string explain(const UnitResult& unit, const Rule& rule) {
  const std::string margin =
      fmt::format("margin {:g}%, {} pairs{}", 100 * rule.margin, unit.pairs, clock_text(unit, rule));
  const std::string change =
      fmt::format("{} ({})", change_text(unit.ln_ratio.centre), bounds_text(unit.ln_ratio));
  switch (unit.verdict) {
    case Verdict::kSame:
      return "the two artifacts are the same bytes";
    case Verdict::kBroken:
      return unit.broken;
    case Verdict::kPass:
      return fmt::format("time {}: not slower by the margin; {}", change, margin);
    case Verdict::kImproved:
      return fmt::format("time {}: faster; {}", change, margin);
    case Verdict::kFail:
      return fmt::format("time {}: slower; {}", change, margin);
    case Verdict::kUnfit:
      return fmt::format(
          "{}, and {:g}% are the most that a device may lose: lock its clock, as `tune doctor` "
          "says, and measure again",
          dropped_text(unit.clocks, rule), 100 * rule.unfit_share);
    case Verdict::kInconclusive:
      break;
  }
  if (unit.pairs == 0) return "not measured";
  if (differs_by_clock(unit, rule))
    return fmt::format(
        "time {}: slower, and not in cycles: the clock was {:.0f} MHz, and {:.0f} before the "
        "change; lock it, as `tune doctor` says; {}",
        change, unit.clocks.candidate_hz / 1e6, unit.clocks.baseline_hz / 1e6, margin);
  return fmt::format("time {}: too noisy to tell; {}; `tune doctor` says what disturbs", change, margin);
}

std::string explain_control(const UnitResult& control, const Rule& rule) {
  return fmt::format("this machine tells equal modules apart: {} against itself: {}", control.unit.name,
                     explain(control, rule));
}

std::string table_text(const Report& report) {
  std::string text = aligned(rows_of(report.result));
  text += "\n";
  for (const UnitResult& unit : report.result.units) {
    if (unit.verdict == Verdict::kSame) continue;
    text += fmt::format("{}: {}\n  {}\n", unit.unit.name, explain(unit, report.rule), counters_text(unit));
  }
  text += fmt::format("{}\n", how_text(report));
  for (const worker::Finding& finding : report.findings)
    if (finding.verdict == worker::Verdict::kBad)
      text += fmt::format("doctor: {}: {}; {}\n", finding.check, finding.found, finding.fix);
  return text + fmt::format("gate: {}\n", to_string(report.result.answer()));
}

namespace {

/// A cell of a Markdown table: no line breaks, and bars that are no borders. A backslash of the text's own is
/// escaped too, or it would take away the one before the bar behind it.
std::string cell(const std::string& text) {
  std::string escaped;
  for (char c : text) {
    if (c == '\\' || c == '|' || c == '`' || c == '<' || c == '*' || c == '_' || c == '[') escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return escaped;
}

std::string line(const Row& row) {
  std::string text = "|";
  for (const std::string& each : row) text += fmt::format(" {} |", each);
  return text + "\n";
}

Row cells(Row row) {
  std::transform(row.begin(), row.end(), row.begin(), cell);
  return row;
}

/// Words of whoever made the modules: as code, in which code hosts make no links and call nobody. In code
/// nothing is escaped, so what would end it, or its cell, looks alike instead.
std::string code(const std::string& text) {
  std::string quoted = "`";
  for (char c : text) {
    if (c == '|')
      quoted += "\u00a6";
    else
      quoted += c == '`' ? '\'' : c == '\n' || c == '\r' ? ' ' : c;
  }
  return quoted + "`";
}

}  // namespace

std::string markdown_text(const Report& report) {
  const std::vector<Row> rows = rows_of(report.result);
  std::string text = fmt::format("### Performance gate: {}\n\n", to_string(report.result.answer()));
  text += line(rows[0]) + line(Row(kHeader.size(), "---"));
  for (size_t i = 1; i < rows.size(); ++i) {
    Row row = cells(rows[i]);
    row[0] = code(rows[i][0]);
    text += line(row);
  }
  text += "\n";
  for (const UnitResult& unit : report.result.units) {
    if (unit.verdict == Verdict::kSame) continue;
    const std::string why = explain(unit, report.rule);
    text += fmt::format("- {}: {}. {}\n", code(unit.unit.name),
                        unit.verdict == Verdict::kBroken ? code(why) : cell(why), cell(counters_text(unit)));
  }
  text += fmt::format("\n{}\n\n<details><summary>tune doctor</summary>\n\n", cell(how_text(report)));
  text += line({"check", "found", "verdict", "fix"}) + line(Row(4, "---"));
  for (const worker::Finding& finding : report.findings)
    text += line(cells({finding.check, finding.found, to_string(finding.verdict), finding.fix}));
  return text + "\n</details>\n";
}

}  // namespace lathe::gate
