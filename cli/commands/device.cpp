// `tune device`: what schedules decide by.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/target.h"
#include "core/support/bounded_json.h"
#include "db/store.h"

namespace lathe::cli {
namespace {

/// One number of the machine, and where the one in use comes from.
struct Line {
  const MachineField& field;
  double row = 0, used = 0;
  std::optional<double> measured;
  const char* source = "row";
};

std::vector<Line> lines_of(const TargetKnowledge& knowledge) {
  MachineModel row = machine_row(knowledge.target).model, used = machine_of(knowledge.target);
  std::vector<Line> lines;
  for (const MachineField& field : machine_fields()) {
    Line line{field, field.of(row), field.of(used), {}};
    if (auto found = knowledge.measured.find(field.name); found != knowledge.measured.end()) {
      line.measured = found->second;
      line.source = "measured";
    }
    if (knowledge.given.contains(field.name)) line.source = "given";
    lines.push_back(line);
  }
  return lines;
}

void print_text(const TargetKnowledge& knowledge) {
  const MachineRow& row = machine_row(knowledge.target);
  fmt::print("{}\nrow {}: {}\n{}\n\n", to_text(knowledge.target), row.name, row.source,
             knowledge.source.empty() ? "not measured" : knowledge.source);
  fmt::print("{:<18}  {:>10}  {:>10}  {:>10}  {:<8}  {:<13}\n", "number", "row", "measured", "used", "from",
             "unit");
  for (const Line& line : lines_of(knowledge)) {
    const auto& unsettled = knowledge.unsettled;
    const bool in_vain = std::find(unsettled.begin(), unsettled.end(), line.field.name) != unsettled.end();
    const std::string measured =
        line.measured ? fmt::format("{:.6g}", *line.measured) : (in_vain ? "unsettled" : "-");
    fmt::print("{:<18}  {:>10.6g}  {:>10}  {:>10.6g}  {:<8}  {:<13}  {}\n", line.field.name, line.row,
               measured, line.used, line.source, line.field.unit, line.field.doc);
  }
  if (!knowledge.unsettled.empty())
    fmt::print("\nunsettled: no two rounds agreed; `tune device --measure` tries again\n");
}

void print_json(const TargetKnowledge& knowledge) {
  nlohmann::json numbers = nlohmann::json::object();
  for (const Line& line : lines_of(knowledge))
    numbers[line.field.name] = {
        {"row", line.row},
        {"measured", line.measured ? nlohmann::json(*line.measured) : nlohmann::json()},
        {"used", line.used},
        {"from", line.source},
        {"unit", line.field.unit}};
  fmt::print("{}\n", json_line({{"target", to_text(knowledge.target)},
                                {"row", machine_row(knowledge.target).name},
                                {"source", knowledge.source},
                                {"unsettled", knowledge.unsettled},
                                {"numbers", numbers}}));
}

}  // namespace

int device_command(Flags& flags) {
  std::string target = "cpu", database;
  bool again = false, as_json = false;
  flags.add("--target TARGET", target, "the target asked about; numbers in it count before all others");
  flags.add("--measure", again, "measure this machine again, and keep that");
  flags.add("--db FILE", database, "tuning database, for what workers have told of other machines");
  flags.add("--json", as_json, "print a JSON object");
  if (!flags.parse()) return kSuccess;

  // Of this machine nothing is looked up there; one that is named and cannot be read is a mistake all the
  // same.
  if (!database.empty())
    db::Store(database, {.read_only = true});
  else if (std::filesystem::exists(db::default_database_path()))
    database = db::default_database_path();
  const TargetKnowledge knowledge =
      know_target(target, database, again ? Measure::kAgain : Measure::kIfNeeded);
  (as_json ? print_json : print_text)(knowledge);
  return kSuccess;
}

}  // namespace lathe::cli
