// Databases as programs of each released schema version left them (schemas/vN.sql), brought to this
// version's; and killed on the way. Whoever appends a migration adds the file of the version before it.
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "core/support/file.h"
#include "core/support/text.h"
#include "db/schema.h"
#include "tests/db/fixture.h"

namespace lathe::db {
namespace {

std::string fixture(int version) { return fmt::format("{}/v{}.sql", SCHEMA_FIXTURES, version); }

void load(int version, const std::string& path) {
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &handle), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(handle, read_file(fixture(version)).c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(handle);
  ASSERT_EQ(sqlite3_exec(handle, "PRAGMA journal_mode = WAL", nullptr, nullptr, nullptr), SQLITE_OK);
  ASSERT_EQ(sqlite3_close(handle), SQLITE_OK);
}

std::unique_ptr<Database> open(const std::string& path, Access access = Access::kReadOnly) {
  return open_database(path, access, std::chrono::seconds(5));
}

/// The steps of files, which a new one would go.
std::span<const Migration> migrations() {
  static TemporaryFolder folder;
  static const auto database = open_database(folder / "db", Access::kReadWrite, std::chrono::seconds(5));
  return database->migrations();
}

std::vector<std::string> schema_of(Database& database) {
  std::vector<std::string> all;
  for (Query row = database.query("SELECT coalesce(sql, name) FROM sqlite_schema ORDER BY type, name");
       row.step();)
    all.push_back(row.text());
  return all;
}

/// What the fixtures hold, as this program reads it.
void expect_content(Store& store, int version) {
  EXPECT_TRUE(store.problems().empty());
  const TargetId target = store.find_target("cpu:x").value();
  const WorkloadId workload = store.find_workload("mm").value();
  EXPECT_EQ(store.best({.workload = workload, .target = target})->measurement.trace, "fast");
  EXPECT_EQ(store.best({.workload = workload, .target = target})->measurement.imported_ms, std::nullopt);
  EXPECT_EQ(store.history(workload, target).size(), 2u);
  EXPECT_EQ(store.model_tasks(store.find_model("net").value(), target).at(0).calls, 2);
  EXPECT_EQ(store.jobs().at(0).state, JobState::kRunning);
  store.visit_open_trials([&](const OpenTrial& open) { EXPECT_EQ(store.trial(open.id).trace, "open"); });
  EXPECT_EQ(store.cost_model_of(store.jobs().at(0).id)->spearman, 0.5);
  if (version >= 2) {
    ChoiceKey key{"d", target, 1, 1e-4};
    EXPECT_EQ(store.find_choice(key)->tasks.at(0).measurement, 2);
    key.kind = {"m", 2};
    EXPECT_EQ(store.find_choice(key)->tasks.at(0).measurement, 2) << "of the device that measured it";
  }
  if (version >= 3) {
    EXPECT_EQ(store.find_machine("cpu:x")->numbers, "latency=4");
  }
}

TEST(Fixtures, ThereIsOneOfEachReleasedVersion) {
  for (int version = 1; version < kSchemaVersion; ++version)
    EXPECT_TRUE(std::filesystem::exists(fixture(version)))
        << "make it with a program of that version and `sqlite3 FILE .dump`";
}

TEST(Fixtures, AReleasedMigrationIsNeverEdited) {
  TemporaryFolder folder;
  for (int version = 1; version < kSchemaVersion; ++version) {
    const std::string path = folder / fmt::format("v{}.db", version), fresh = path + ".fresh";
    load(version, path);
    const auto then = open(path), now = open(fresh, Access::kReadWrite);
    migrate(*now, migrations().first(version));
    EXPECT_EQ(schema_of(*then), schema_of(*now)) << "version " << version;
  }
}

TEST(Fixtures, EachReleasedVersionIsBroughtToThisOne) {
  TemporaryFolder folder;
  Store fresh(folder / "fresh.db");
  for (int version = 1; version < kSchemaVersion; ++version) {
    const std::string path = folder / fmt::format("v{}.db", version);
    load(version, path);
    Store store(path);
    EXPECT_EQ(store.database().version(), kSchemaVersion);
    EXPECT_EQ(schema_of(store.database()), schema_of(fresh.database()));
    expect_content(store, version);
    const auto copy = open(fmt::format("{}.v{}.backup", path, version));
    EXPECT_EQ(copy->version(), version);
  }
}

TEST(Migration, ADatabaseFromBeforeChoicesKeepsItsRecords) {
  TemporaryFolder folder;
  std::string path = folder / "lathe.db";
  {
    const auto database = open(path, Access::kReadWrite);
    migrate(*database, migrations().first(1));
    database->run("INSERT INTO target(name, architecture, features) VALUES('cpu:x', 'x86_64', '')");
    database->run("INSERT INTO workload(digest, text, flops, bytes) VALUES('d', 't', 1, 1)");
  }
  EXPECT_THAT(thrown_by([&] { Store store(path, {.read_only = true}); }),
              ::testing::HasSubstr("has schema version 1, older than"));
  Store store(path);
  TargetId target = store.find_target("cpu:x").value();
  EXPECT_TRUE(store.find_workload("d"));
  EXPECT_FALSE(store.find_choice({"d", target, 1, 1e-4}));
  store.set_choice({.key = {"d", target, 1, 1e-4}});
  EXPECT_TRUE(store.find_choice({"d", target, 1, 1e-4}));
  EXPECT_TRUE(store.problems().empty());
}

// --- Killed between any two statements

std::vector<std::string> statements_of(const char* sql) {
  std::vector<std::string> statements(1);
  for (const char* c = sql; *c; ++c) {
    statements.back() += *c;
    if (*c == ';' && sqlite3_complete(statements.back().c_str())) statements.emplace_back();
  }
  statements.pop_back();  // the white space after the last one
  return statements;
}

void die(sqlite3_context*, int, sqlite3_value**) { kill(getpid(), SIGKILL); }
int define_die(sqlite3* handle, char**, const void*) {
  return sqlite3_create_function(handle, "die", 0, SQLITE_UTF8, nullptr, die, nullptr, nullptr);
}

/// Brings `path` up in a child that is killed before statement `at` of step `step`.
void migrate_and_die(const std::string& path, int step, size_t at) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    sqlite3_auto_extension(reinterpret_cast<void (*)()>(define_die));
    std::vector<std::string> statements = statements_of(migrations()[step].sql);
    statements.insert(statements.begin() + static_cast<std::ptrdiff_t>(at), "SELECT die();");
    const std::string sql = join_text(statements, "\n");
    std::vector<Migration> steps(migrations().begin(), migrations().end());
    steps[step].sql = sql.c_str();
    const auto database = open(path, Access::kReadWrite);
    migrate(*database, steps);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "step " << step << " statement " << at;
}

TEST(KilledMigration, LeavesTheOldVersionOrTheNew) {
  TemporaryFolder folder;
  int kills = 0;
  for (int version = 0; version < kSchemaVersion; ++version) {
    std::vector<std::string> before;
    for (size_t at = 0; at <= statements_of(migrations()[version].sql).size(); ++at) {
      const std::string path = folder / fmt::format("{}.db", kills++);
      if (version > 0) load(version, path);
      ASSERT_NO_FATAL_FAILURE(migrate_and_die(path, version, at));
      {
        const auto database = open(path);
        EXPECT_EQ(database->version(), version);
        if (at == 0) before = schema_of(*database);
        EXPECT_EQ(schema_of(*database), before);
      }
      Store store(path);
      EXPECT_EQ(store.database().version(), kSchemaVersion);
      if (version > 0) expect_content(store, version);
    }
  }
  EXPECT_GT(kills, 30);
}

// --- Several processes that bring one file up at once

TEST(Migration, AtOnceKeepsTheOldVersionBeside) {
  TemporaryFolder folder;
  for (int round = 0; round < 10; ++round) {
    const std::string path = folder / fmt::format("{}.db", round);
    load(1, path);
    std::vector<pid_t> children;
    for (int i = 0; i < 4; ++i) {
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        try {
          Store store(path);
          _exit(store.database().version() == kSchemaVersion ? 0 : 1);
        } catch (const Error& error) {
          fputs(error.what(), stderr);  // the parent knows only that it ended so
          _exit(2);
        }
      }
      children.push_back(child);
    }
    for (const pid_t child : children) {
      int status = 0;
      waitpid(child, &status, 0);
      EXPECT_EQ(status, 0);
    }
    const auto copy = open(path + ".v1.backup");
    EXPECT_EQ(copy->version(), 1);
  }
  for (const auto& file : std::filesystem::directory_iterator(folder.path()))
    EXPECT_EQ(file.path().string().find(".backup."), std::string::npos) << file.path() << " is left over";
}

/// The tracker has prepared statements of the schema that it knows.
TEST(Migration, WaitsForNobodyWhoServesTheDatabase) {
  TemporaryFolder folder;
  const std::string path = folder / "lathe.db";
  load(1, path);
  const auto served = open(path);
  auto tracker = served->locks();
  ASSERT_TRUE(tracker->lock_all());
  EXPECT_EQ(
      thrown_by([&] { Store store(path, {.busy_timeout = std::chrono::milliseconds(50)}); }),
      fmt::format(
          "{} is in use: a tracker serves it, or `tune` runs a job of it; stop that one before it is brought "
          "from schema version 1 to {}",
          path, kSchemaVersion));
  EXPECT_EQ(open(path)->version(), 1);
  EXPECT_FALSE(std::filesystem::exists(path + ".v1.backup"));
  tracker.reset();
  EXPECT_EQ(Store(path).database().version(), kSchemaVersion);
}

TEST(Migration, ACopyOfBeforeIsNotOverwritten) {
  TemporaryFolder folder;
  const std::string path = folder / "lathe.db";
  load(1, path);
  write_file(path + ".v1.backup", "precious");
  write_file(path + ".v1.backup-2", "precious too");
  { Store store(path); }
  EXPECT_EQ(read_file(path + ".v1.backup"), "precious");
  EXPECT_EQ(read_file(path + ".v1.backup-2"), "precious too");
  EXPECT_EQ(open(path + ".v1.backup-3")->version(), 1);
}

TEST(Migration, WhatAKilledOneLeftOfItsCopyIsRemoved) {
  TemporaryFolder folder;
  const std::string path = folder / "lathe.db";
  load(1, path);
  // Killed in VACUUM INTO; and one of a process that is still at work on its own.
  const std::string abandoned = path + ".v1.backup.4194303", other = path + ".v1.backup.1";
  write_file(abandoned, "half a copy");
  write_file(other, "");
  const int held = ::open(other.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  Store store(path);
  EXPECT_FALSE(std::filesystem::exists(abandoned));
  EXPECT_TRUE(std::filesystem::exists(other));
  EXPECT_EQ(open(path + ".v1.backup")->version(), 1);
  close(held);
}

}  // namespace
}  // namespace lathe::db
