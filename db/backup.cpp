#include "db/backup.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "core/support/disk.h"
#include "core/support/error.h"
#include "core/support/unfinished.h"
#include "core/support/working_folder.h"
#include "db/database.h"
#include "db/database_error.h"
#include "db/schema.h"

namespace lathe::db {
namespace {

namespace fs = std::filesystem;

void require_file(const std::string& path) {
  if (!is_server(path) && !fs::exists(path)) fail("there is no database {}", path);
}

void require_ours(Database& database) {
  if (database.version() == 0) fail("{} is empty, not a database of lathe", database.name());
  require_version(database, Access::kReadWrite);
}

/// A folder beside it, for SQLite has a journal beside what it writes.
std::string make_partial(const std::string& path) {
  // A name that nobody has: what is there may be the user's.
  std::string name = path + ".partial-XXXXXX";
  // SQLite would say that the database cannot be opened.
  if (!mkdtemp(name.data())) fail_to_write(path, errno);
  return name;
}

/// The name of a file is in its folder, which reaches the disk by itself only later.
void sync_name(const std::string& path) { sync_to_disk(fs::path(absolute_path(path)).parent_path()); }

// Of a tracker's longest commit on a slow disk.
constexpr std::chrono::seconds kPatience(10);

/// Of a full disk SQLite says that the database which is read cannot grow.
void vacuum_into(Database& database, const std::string& file, const std::string& copy) {
  try {
    database.run("VACUUM INTO ?", {file});
  } catch (const DiskFullError&) {
    fail_to_write(copy, ENOSPC);
  }
}

void require_sound(const std::string& copy, const std::string& of) {
  // Opened as a file that nobody changes: no log is left beside it.
  const auto database = open_database(copy, Access::kAlone, kPatience);
  if (const auto problems = database->problems(); !problems.empty())
    fail("the copy of {} is damaged: {}; `tune db check` says whether {} itself is", of, problems.front(),
         of);
}

}  // namespace

std::vector<std::string> problems_of(const std::string& path) {
  require_file(path);
  const auto database = open_database(path, Access::kReadOnly, kPatience);
  require_ours(*database);
  return database->problems();
}

void back_up(const std::string& path, const std::string& copy) {
  if (is_server(path)) fail("{} is a server's: its own tools copy it (pg_dump)", path);
  require_file(path);
  const auto database = open_database(path, Access::kReadOnly, kPatience);
  // To copy a strange file is to vouch for it.
  require_ours(*database);
  // Beside a database of that name it would be taken for the database's own: removed, or written over.
  for (const char* ending : {"-wal", "-shm", "-journal", "-claims"})
    if (copy.ends_with(ending))
      fail("{}: what ends in {} belongs to a database; name another file", copy, ending);
  std::error_code error;
  if (fs::exists(copy, error)) fail("{} exists; a backup is a new file", copy);
  // Under its own name only when it is whole and checked: a backup that was interrupted must not look like
  // one.
  const Unfinished partial([&] { return make_partial(copy); });
  const std::string whole = partial.path() + "/copy";
  // Of one moment, beside writers, which do not wait for it.
  // Not sqlite3_backup, which starts over whenever somebody writes; and what comes is compact.
  vacuum_into(*database, whole, copy);
  require_sound(whole, path);
  sync_to_disk(whole);
  fs::permissions(whole, fs::status(path).permissions());
  if (!rename_unless_there(whole, copy)) fail("{} exists; a backup is a new file", copy);
  sync_name(copy);
}

bool make_filled(const std::string& path, const std::function<void(const std::string& part)>& fill) {
  const fs::path whole = absolute_path(path), folder = whole.parent_path();
  // What is above it is made for what has come to be.
  fs::path there = folder;
  while (!fs::exists(there)) there = there.parent_path();
  const Unfinished partial([&] { return make_partial((there / whole.filename()).string()); });
  const std::string part = partial.path() + "/part";
  try {
    fill(part);
  } catch (const DiskFullError& error) {  // by the name that it was to have
    std::string said = error.what();
    if (const size_t at = said.find(part); at != said.npos) said.replace(at, part.size(), path);
    throw DiskFullError(said);
  }
  sync_to_disk(part);
  make_folder(folder.string());
  if (!rename_unless_there(part, path)) return false;
  sync_name(path);
  return true;
}

}  // namespace lathe::db
