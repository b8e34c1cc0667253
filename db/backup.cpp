#include "db/backup.h"

#include <filesystem>

#include "core/support/disk.h"
#include "core/support/error.h"
#include "db/database.h"
#include "db/schema.h"

namespace lathe::db {
namespace {

namespace fs = std::filesystem;

void require_file(const std::string& path) {
  if (!fs::exists(path)) fail("there is no database {}", path);
}

void require_ours(Database& database) {
  if (version_of(database) == 0) fail("{} is an empty file, not a database of lathe", database.path());
  require_version(database, schema_version(), Access::kReadWrite);
}

// Of a tracker's longest commit on a slow disk.
constexpr std::chrono::seconds kPatience(10);

void require_sound(const std::string& copy, const std::string& of) {
  // Opened as a file that nobody changes: no log is left beside it.
  Database database(copy, Access::kAlone, kPatience);
  if (const auto problems = problems_of(database); !problems.empty())
    fail("the copy of {} is damaged: {}; `tune db check` says whether {} itself is", of, problems.front(),
         of);
}

}  // namespace

std::vector<std::string> problems_of(Database& database) {
  std::vector<std::string> problems;
  // Reads every page and every index: minutes for gigabytes.
  for (Query row = database.query("PRAGMA integrity_check"); row.step();)
    if (std::string line = row.text(); line != "ok") problems.push_back(line);
  // Not part of the former (sqlite.org/pragma.html).
  for (Query row = database.query("PRAGMA foreign_key_check"); row.step();) {
    std::string table = row.text();
    problems.push_back(fmt::format("row {} of table {} refers to nothing", row.integer(), table));
  }
  return problems;
}

std::vector<std::string> problems_of(const std::string& path) {
  require_file(path);
  Database database(path, Access::kReadOnly, kPatience);
  require_ours(database);
  return problems_of(database);
}

void back_up(const std::string& path, const std::string& copy) {
  require_file(path);
  Database database(path, Access::kReadOnly, kPatience);
  // To copy a strange file is to vouch for it.
  require_ours(database);
  std::error_code error;
  if (fs::exists(copy, error)) fail("{} exists; a backup is a new file", copy);
  // Under its own name only when it is whole and checked: a backup that was interrupted must not look like
  // one.
  const fs::path partial = fmt::format("{}.partial", copy);
  fs::remove(partial, error);
  try {
    // Of one moment, beside writers, which do not wait for it.
    // Not sqlite3_backup, which starts over whenever somebody writes; and what comes is compact.
    database.run("VACUUM INTO ?", {partial.string()});
    require_sound(partial.string(), path);
    sync_to_disk(partial);
    fs::rename(partial, copy);
    // The name is in the folder, which reaches the disk by itself only later.
    sync_to_disk(fs::absolute(copy).parent_path());
  } catch (...) {
    fs::remove(partial, error);
    throw;
  }
}

}  // namespace lathe::db
