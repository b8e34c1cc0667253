// `tune db PART`: a tuning database as a whole. Each part is one row of kParts.
#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/messages.h"
#include "core/codegen/host_target.h"
#include "core/support/bounded_json.h"
#include "core/support/error.h"
#include "db/backup.h"
#include "db/file_system.h"
#include "db/foreign.h"
#include "db/pack.h"
#include "db/schema.h"
#include "tuner/record_meaning.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

struct Request {
  std::string part, path, model, target, database;
  bool json = false;
};

void print(const Request& request, const nlohmann::json& report, const std::string& text) {
  fmt::print("{}\n", request.json ? json_line(report) : text);
}

int export_records(const Request& request) {
  db::PackFilter filter{.model = request.model};
  if (!request.target.empty()) filter.target = to_text(codegen::resolve_target(request.target));
  db::Store store(request.database, {.read_only = true});
  const db::PackCounts counts = db::export_pack(store, request.path, filter);
  print(request,
        {{"pack", request.path},
         {"measurements", counts.measurements},
         {"workloads", counts.workloads},
         {"devices", counts.devices},
         {"models", counts.models}},
        fmt::format("wrote {}: {} measurements of {} workloads on {} devices, {} models", request.path,
                    counts.measurements, counts.workloads, counts.devices, counts.models));
  return kSuccess;
}

/// Says which lines were left out.
void warn(int64_t bad, const std::vector<std::string>& reasons) {
  for (const std::string& reason : reasons) say("left out: {}", reason);
  if (bad > static_cast<int64_t>(reasons.size()))
    say("left out: {} more lines", bad - static_cast<int64_t>(reasons.size()));
}

/// What `import` says of the database. One that is not there yet is made when all was read: what cannot be
/// leaves none.
template <typename Import>
auto import_into(const std::string& database, Import import) {
  std::optional<decltype(import(std::declval<db::Store&>()))> report;
  const auto fill = [&](const std::string& path) {
    db::Store store(path);
    report = import(store);
  };
  const bool is_there = db::is_server(database) || fs::exists(database);
  if (is_there || !db::make_filled(database, fill)) fill(database);
  return *std::move(report);
}

int import_records(const Request& request) {
  const db::ImportReport report = import_into(request.database, [&](db::Store& store) {
    return db::import_pack(store, request.path, tuner::record_meaning());
  });
  warn(report.bad, report.reasons);
  std::string text = fmt::format("{}: added {} measurements, {} were known", request.path,
                                 report.added.measurements, report.known);
  if (report.not_applicable > 0)
    text += fmt::format(", the schedules of {} do not apply in this version", report.not_applicable);
  print(request,
        {{"added", report.added.measurements},
         {"known", report.known},
         {"not_applicable", report.not_applicable},
         {"workloads", report.added.workloads},
         {"devices", report.added.devices},
         {"models", report.added.models},
         {"bad_lines", report.bad}},
        text);
  return kSuccess;
}

int report_foreign(const Request& request, const char* format, const db::ForeignReport& report) {
  warn(report.bad, report.reasons);
  print(request,
        {{"format", format}, {"added", report.added}, {"known", report.known}, {"bad_lines", report.bad}},
        fmt::format("{}: added {} foreign records ({}), {} were known; `tune query foreign` shows them",
                    request.path, report.added, format, report.known));
  return kSuccess;
}

/// A pack or a database of MetaSchedule is a folder, a log of AutoTVM a file.
int import_any(const Request& request) {
  constexpr const char *kWorkloads = "database_workload.json", *kRecords = "database_tuning_record.json";
  const fs::path path = request.path;
  // Before the database is opened, which would make one.
  if (!fs::exists(path)) fail("cannot read {}: there is no such file or folder", request.path);
  if (!fs::is_directory(path)) {
    if (db::is_sqlite_file(request.path))
      fail(
          "{0} is a database, and what is imported is a pack: `tune db export FOLDER --db {0}` writes one; "
          "or "
          "name this database with --db, or copy it with `tune db backup`",
          request.path);
    return report_foreign(request, "autotvm", import_into(request.database, [&](db::Store& store) {
                            return db::import_autotvm(store, request.path);
                          }));
  }
  if (fs::exists(path / "manifest.json")) return import_records(request);
  if (!fs::exists(path / kRecords))
    fail("{} holds neither a pack (manifest.json) nor a database of MetaSchedule ({})", request.path,
         kRecords);
  return report_foreign(request, "metaschedule", import_into(request.database, [&](db::Store& store) {
                          return db::import_metaschedule(store, (path / kWorkloads).string(),
                                                         (path / kRecords).string());
                        }));
}

int back_up(const Request& request) {
  db::back_up(request.database, request.path);
  const auto bytes = static_cast<int64_t>(fs::file_size(request.path));
  print(request, {{"backup", request.path}, {"bytes", bytes}},
        fmt::format("wrote {}: {:.1f} MB, checked", request.path, static_cast<double>(bytes) / 1e6));
  return kSuccess;
}

int check(const Request& request) {
  const std::vector<std::string> problems = db::problems_of(request.database);
  std::string text = problems.empty() ? request.database + ": sound" : "";
  for (const std::string& problem : problems) text += fmt::format("{}{}", text.empty() ? "" : "\n", problem);
  print(request, {{"database", request.database}, {"problems", problems}}, text);
  return problems.empty() ? kSuccess : kNegative;
}

int migrate(const Request& request) {
  if (!db::is_server(request.database) && !fs::exists(request.database))
    fail("there is no database {}", request.database);
  db::Store store(request.database);
  print(request, {{"database", request.database}, {"schema", db::kSchemaVersion}},
        fmt::format("{}: schema version {}", request.database, db::kSchemaVersion));
  return kSuccess;
}

struct Part {
  const char* name;
  const char* path;  // what PATH is; null: the part takes none
  bool filters;      // takes --model and --target
  int (*run)(const Request&);
};
constexpr Part kParts[] = {
    {"export", "the folder to write", true, export_records},
    {"import", "what to read", false, import_any},
    {"backup", "the file to write", false, back_up},
    {"check", nullptr, false, check},
    {"migrate", nullptr, false, migrate},
};

const Part& part_of(const std::string& name) {
  std::vector<std::string> names;
  for (const Part& part : kParts) {
    if (name == part.name) return part;
    names.emplace_back(part.name);
  }
  std::string hint = did_you_mean(name, names);
  fail("tune db: `{}` is not one of export, import, backup, check, migrate{}", name, hint);
}

void check_use(const Request& request, const Part& part) {
  if (part.path && request.path.empty()) fail("tune db {}: PATH is missing: {}", part.name, part.path);
  if (!part.path && !request.path.empty()) fail("tune db {}: unexpected `{}`", part.name, request.path);
  // A target may come from a configuration file, where it is meant for other commands.
  if (!part.filters && !request.model.empty()) fail("tune db {}: --model is for export alone", part.name);
}

}  // namespace

int db_command(Flags& flags) {
  Request request;
  flags.add(
      "PART export|import|backup|check|migrate", request.part,
      "export (what was measured, as a folder that others import), import (such a folder, a log of "
      "AutoTVM, or a folder of MetaSchedule), backup (a copy, while others write), check (whether it is "
      "sound), migrate (bring an older one to this program's schema)",
      Flags::Need::kRequired);
  flags.add("PATH", request.path, "the folder to export to, what to import, or the backup's file");
  flags.add("--model MODEL", request.model, "export only what this model's tasks need");
  flags.add("--target TARGET", request.target, "export only what is for this target");
  flags.add("--db FILE", request.database, "the tuning database");
  flags.add("--json", request.json, "print a JSON object");
  if (!flags.parse()) return kSuccess;
  if (request.database.empty()) request.database = db::default_database_path();
  const Part& part = part_of(request.part);
  check_use(request, part);
  return part.run(request);
}

}  // namespace lathe::cli
