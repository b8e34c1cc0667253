// `tune timeline`: where a model's time changed over the nights. It annotates, and never gates.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <compare>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/messages.h"
#include "cli/progress.h"
#include "core/support/bounded_json.h"
#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/printable.h"
#include "gate/change_points.h"

namespace lathe::cli {
namespace {

using Json = nlohmann::json;

/// One line of a history (`tune gate --history`).
struct Point {
  std::string when, revision;
  double seconds = 0;
  auto operator<=>(const Point&) const = default;
};

/// What must be the same for times to be compared.
struct SeriesName {
  std::string unit, target, device;
  int64_t threads = 1;
  std::string shapes;  // of the inputs of a module with open dimensions
  auto operator<=>(const SeriesName&) const = default;
};

// Nights of five years: what change points take grows with the square of it and more. The rest is older.
constexpr size_t kMostPoints = 2000;
constexpr int kMostLeftOut = 20;  // lines of which it is said why

using History = std::map<SeriesName, std::vector<Point>>;

/// Throws Error or Json::exception for a line that is none of a history's.
void add_line(const std::string& line, History& history) {
  const Json json = parse_bounded_json(line, /*depth=*/4, "the line");
  if (json.is_discarded()) fail("it is no JSON");
  Point point{.when = json.at("when"), .revision = json.at("revision"), .seconds = json.at("seconds")};
  if (!(point.seconds >= 1e-12 && point.seconds <= 1e9)) fail("seconds is {}", point.seconds);
  const Json& threads = json.at("threads");
  if (!threads.is_number_unsigned() || threads.get<uint64_t>() > INT32_MAX)
    fail("threads is no number of them");
  // Each series by itself: a level of another device is no change.
  auto& points =
      history[{json.at("unit"), json.at("target"), json.at("device"), threads, json.value("shapes", "")}];
  if (points.size() == 2 * kMostPoints) points.erase(points.begin(), points.end() - kMostPoints);
  points.push_back(point);
}

/// As `tune gate` writes it: "2026-11-23T08:00:00Z".
bool is_time(const std::string& text) {
  constexpr std::string_view kShape = "dddd-dd-ddTdd:dd:ddZ";
  return std::equal(text.begin(), text.end(), kShape.begin(), kShape.end(),
                    [](char c, char shape) { return shape == 'd' ? c >= '0' && c <= '9' : c == shape; });
}

/// Histories of several branches or machines are joined by appending one to the other: by their order a level
/// would come back that never did. A line that both have is of one gate.
void put_in_order(std::vector<Point>& points) {
  if (!std::all_of(points.begin(), points.end(), [](const Point& point) { return is_time(point.when); }))
    return;
  std::sort(points.begin(), points.end());
  points.erase(std::unique(points.begin(), points.end()), points.end());
}

/// In the order of their times, the last ones of each series. A line torn by a crash is told of, and left
/// out.
History read_history(const std::string& file) {
  std::istringstream stream(read_file(file));
  History history;
  int64_t number = 0, left_out = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    std::string why;
    try {
      add_line(line, history);
    } catch (const nlohmann::json::exception&) {
      why = "it is no line that `tune gate --history` writes";
    } catch (const std::exception& error) {
      why = error.what();
    }
    if (!why.empty() && ++left_out <= kMostLeftOut) say("{}:{}: left out: {}", file, number, why);
  }
  if (left_out > kMostLeftOut) say("{}: left out {} more lines", file, left_out - kMostLeftOut);
  for (auto& [name, points] : history) {
    put_in_order(points);
    if (points.size() > kMostPoints) points.erase(points.begin(), points.end() - kMostPoints);
  }
  if (history.empty()) fail("{} has no line of a history; `tune gate --history {}` writes them", file, file);
  return history;
}

std::string revision_text(const Point& point) {
  return point.revision.empty() ? "" : " " + point.revision.substr(0, 12);
}

std::string series_text(const SeriesName& name, const std::vector<Point>& points,
                        const std::vector<gate::ChangePoint>& changes) {
  std::string text =
      fmt::format("{}{}, {}, {} thread{}, {}\n  {} points, {} .. {}, now {}\n", name.unit,
                  name.shapes.empty() ? "" : " of " + name.shapes, name.target, name.threads,
                  name.threads == 1 ? "" : "s", name.device, points.size(), points.front().when,
                  points.back().when, duration_text(points.back().seconds));
  for (const gate::ChangePoint& change : changes)
    text += fmt::format("  {}{}: {} -> {}, {:+.1f}%, p {:.1e}\n", points[change.at].when,
                        revision_text(points[change.at]), duration_text(change.before),
                        duration_text(change.after), 100 * (change.after / change.before - 1), change.p);
  return changes.empty() ? text + "  no change\n" : text;
}

Json series_json(const SeriesName& name, const std::vector<Point>& points,
                 const std::vector<gate::ChangePoint>& changes) {
  Json json = {{"unit", name.unit},       {"target", name.target},   {"device", name.device},
               {"threads", name.threads}, {"points", points.size()}, {"changes", Json::array()}};
  if (!name.shapes.empty()) json["shapes"] = name.shapes;
  for (const gate::ChangePoint& change : changes)
    json["changes"].push_back({{"at", change.at},
                               {"when", points[change.at].when},
                               {"revision", points[change.at].revision},
                               {"before", change.before},
                               {"after", change.after},
                               {"p", change.p}});
  return json;
}

}  // namespace

int timeline_command(Flags& flags) {
  std::string file, unit;
  gate::ChangeRule rule;
  bool as_json = false;
  flags.add("FILE", file, "a history that `tune gate --history` wrote", Flags::Need::kRequired);
  flags.add("--unit NAME", unit, "only this one");
  flags.add_share("--least-change", rule.least_change, "a change below this share is none");
  flags.add_share("--alpha", rule.alpha, "the chance that a series without a change shows one");
  flags.add("--json", as_json, "print a JSON array");
  if (!flags.parse()) return kSuccess;

  Json all = Json::array();
  std::vector<std::string> units;
  bool found = false;
  for (const auto& [name, points] : read_history(file)) {
    units.push_back(name.unit);
    if (!unit.empty() && name.unit != unit) continue;
    found = true;
    std::vector<double> seconds;
    for (const Point& point : points) seconds.push_back(point.seconds);
    const std::vector<gate::ChangePoint> changes = gate::change_points(seconds, rule);
    if (as_json)
      all.push_back(series_json(name, points, changes));
    else  // a history is kept and passed on by CI: its names are anybody's
      fmt::print("{}", printable(series_text(name, points, changes)));
  }
  if (!found) fail("{} has no unit {}{}", file, unit, did_you_mean(unit, units));
  if (as_json) fmt::print("{}\n", json_line(all));
  return kSuccess;
}

}  // namespace lathe::cli
