// Files the store can't read, and migrations.
#include "db/schema.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <filesystem>

#include "core/support/file.h"
#include "tests/db/fixture.h"

namespace lathe::db {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

void run_sql(const std::string& path, const std::string& sql) {
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &handle), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(handle);
  ASSERT_EQ(sqlite3_close(handle), SQLITE_OK);
}

/// Two trackers would else serve one database, by two names of it.
TEST(FileLocks, AreOfTheFileWhateverItIsCalled) {
  const TemporaryFolder folder;
  {
    Store store(folder / "t.db");
    std::filesystem::create_symlink(folder / "t.db", folder / "link.db");
    Store linked(folder / "link.db");
    const auto first = store.database().locks();
    ASSERT_TRUE(first->lock_all());
    EXPECT_FALSE(linked.database().locks()->lock_all());
  }
  std::filesystem::create_hard_link(folder / "t.db", folder / "hard.db");
  Store other(folder / "hard.db");
  EXPECT_THAT(thrown_by([&] { other.database().locks(); }), HasSubstr(" has another name (a hard link)"));
}

/// By a person who thinks that it is not in use. What is acknowledged would be gone with the process.
TEST(Schema, AFileThatWasRemovedOrReplacedTakesNothing) {
  const TemporaryFolder folder;
  const std::string path = folder / "t.db";
  for (const bool replaced : {false, true}) {
    Store store(path);
    Transaction begun = store.begin();
    std::filesystem::rename(path, folder / "elsewhere.db");
    if (replaced) write_file(path, "");
    const std::string gone =
        "database " + path + " was removed or replaced while it is in use: nothing more is recorded in it";
    EXPECT_EQ(thrown_by([&] { begun.commit(); }), gone);
    std::filesystem::rename(folder / "elsewhere.db", path);
  }
  std::filesystem::remove(path);
  EXPECT_EQ(thrown_by([&] { Store store(path, {.made = true}); }),
            "database " + path + " is not there any more");
  EXPECT_FALSE(std::filesystem::exists(path));
}

/// Whoever may read the file could hold its locks, and nobody would ever work on the database again.
TEST(FileLocks, AreOfTheirUserAlone) {
  const TemporaryFolder folder;
  Store store(folder / "t.db");
  const std::string claims = folder / "t.db-claims";
  const auto mode = [&] { return std::filesystem::status(claims).permissions(); };
  constexpr auto kTheirs = std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;
  store.database().locks();
  EXPECT_EQ(mode(), kTheirs);
  // As an earlier release left it.
  std::filesystem::permissions(claims, kTheirs | std::filesystem::perms::others_read);
  const auto held = store.database().locks();
  EXPECT_EQ(mode(), kTheirs);
  held->require_held();
  std::filesystem::remove(claims);
  EXPECT_EQ(thrown_by([&] { held->require_held(); }),
            claims + " was removed while its locks are held: whoever comes now would not see that");
}

TEST(Schema, NewDatabaseIsAtTheLatestVersionAndOpensAgain) {
  TemporaryFolder folder;
  std::string path = folder / "deep/er/lathe.db";
  { Store store(path); }
  Store store(path);
  EXPECT_EQ(store.database().version(), kSchemaVersion);
  EXPECT_TRUE(store.problems().empty());
  Query mode = store.database().query("PRAGMA journal_mode");
  ASSERT_TRUE(mode.step());
  EXPECT_EQ(mode.text(), "wal");
  Query synchronous = store.database().query("PRAGMA synchronous");
  ASSERT_TRUE(synchronous.step());
  EXPECT_EQ(synchronous.integer(), 2);  // FULL
}

TEST(Schema, NewerDatabaseIsLeftUntouched) {
  TemporaryFolder folder;
  std::string path = folder / "lathe.db";
  { Store store(path); }
  run_sql(path, "PRAGMA user_version = 99");
  std::string before = read_file(path);
  std::string expected = fmt::format(
      "database {} has schema version 99, newer than version {} of this program; use a newer program or "
      "another database",
      path, kSchemaVersion);
  EXPECT_EQ(thrown_by([&] { Store store(path); }), expected);
  EXPECT_EQ(thrown_by([&] { Store store(path, {.read_only = true}); }), expected);
  EXPECT_EQ(read_file(path), before);
}

TEST(Schema, FileThatIsNoDatabase) {
  TemporaryFolder folder;
  std::string path = folder / "notes.txt";
  write_file(path, std::string(5000, 'x'));
  EXPECT_EQ(thrown_by([&] { Store store(path); }),
            fmt::format("{} is not a database of lathe; name another file", path));
  EXPECT_EQ(read_file(path), std::string(5000, 'x'));
  EXPECT_EQ(thrown_by([&] { Store store(folder / ""); }),
            fmt::format("cannot open database {}: it is a folder", folder / ""));
  EXPECT_EQ(thrown_by([&] { Store store(folder / "none.db", {.read_only = true}); }),
            fmt::format("there is no database {}; `tune` makes one", folder / "none.db"));
}

/// Who opened a pipe to read waited for ever.
TEST(Schema, WhatIsNoRegularFileIsNotOpened) {
  TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/full"), std::string("/dev/null")}) {
    const std::string expected = fmt::format("cannot open database {}: it is no regular file", path);
    EXPECT_EQ(thrown_by([&] { Store store(path, {.read_only = true}); }), expected);
    EXPECT_EQ(thrown_by([&] { Store store(path); }), expected);
  }
}

/// SQLite takes a file of one byte for an empty one, and writes over it.
TEST(Schema, AByteIsNoDatabase) {
  TemporaryFolder folder;
  const std::string path = folder / "x", expected = path + " is not a database of lathe; name another file";
  for (const size_t size : {1, 2, 15, 99, 511, 512, 513}) {
    const std::string before(size, 'x');
    write_file(path, before);
    EXPECT_EQ(thrown_by([&] { Store store(path); }), expected) << size;
    EXPECT_EQ(thrown_by([&] { Store store(path, {.read_only = true}); }), expected) << size;
    EXPECT_EQ(read_file(path), before) << size;
  }
}

TEST(Schema, DatabaseOfAnotherProgram) {
  TemporaryFolder folder;
  std::string path = folder / "songs.db";
  run_sql(path, "CREATE TABLE song(title)");
  std::string before = read_file(path);
  EXPECT_EQ(thrown_by([&] { Store store(path); }),
            fmt::format("{} is the database of another program; name another file", path));
  EXPECT_EQ(read_file(path), before);
}

/// Whoever gives away a database may have put programs into it: they would run here.
TEST(Schema, CodeOfOthersInADatabaseIsRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"CREATE TRIGGER spoil AFTER INSERT ON measurement BEGIN UPDATE measurement SET median = 1e-9; END",
       "trigger `spoil`"},
      {"DROP TABLE event; CREATE VIEW event AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM "
       "n) "
       "SELECT i FROM n",
       "view `event`"},
      {"DROP TRIGGER trial_is_final; CREATE TRIGGER trial_is_final AFTER DELETE ON trial BEGIN SELECT 1; END",
       "trigger `trial_is_final`"},
      {"CREATE VIRTUAL TABLE found USING fts5(text)", "table `found`"},
      // Spelt as SQLite would not, which reads it all the same.
      {"CREATE VIRTUAL TABLE found USING fts5(text); PRAGMA writable_schema = 1; UPDATE sqlite_schema SET "
       "sql = replace(sql, 'CREATE VIRTUAL', 'CREATE/**/VIRTUAL') WHERE name = 'found'",
       "table `found`"},
      // What runs when a row is read, or written.
      {"ALTER TABLE measurement ADD COLUMN evil BLOB AS (zeroblob(1000000000))", "table `measurement`"},
      {"CREATE INDEX spy ON trial(length(error) + 1)", "index `spy`"},
      {"DROP TABLE machine; CREATE TABLE machine(device INTEGER, target TEXT, numbers TEXT "
       "CHECK(abs(random()) > 0), "
       "measured_ms INTEGER) STRICT",
       "table `machine`"},
  };
  for (const auto& [sql, what] : cases) {
    TemporaryFolder folder;
    const std::string path = folder / "lathe.db";
    Store(path).database().run_script(sql);
    for (const bool read_only : {false, true})
      EXPECT_EQ(thrown_by([&] { Store store(path, {.read_only = read_only}); }),
                fmt::format("database {} holds a {} that no version of this program made; do not trust it",
                            path, what));
  }
}

/// A journal of a write that never ended may name a file, which whoever rolls it back removes: SQLite takes
/// it for the journal of several databases. A gift of two files could remove a third of the receiver's.
TEST(Schema, AJournalThatNamesAFileOfOursIsNotRolledBack) {
  TemporaryFolder folder;
  const std::string path = folder / "gift.db", file = folder / "thesis.txt", journal = path + "-journal";
  { Farm(path).measured("t", {1e-3f}); }
  write_file(file, "three years");
  const auto number = [](uint32_t value) {
    std::string bytes;
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(value >> shift & 0xff);
    return bytes;
  };
  // sqlite.org/fileformat2.html, the rollback journal: a header of one sector, no page, and the name.
  const std::string magic = "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7";
  std::string header = magic + number(0) + number(0) +
                       number(static_cast<uint32_t>(std::filesystem::file_size(path) / 4096)) + number(512) +
                       number(4096);
  header.resize(512, '\0');
  uint32_t sum = 0;
  for (char c : file) sum += static_cast<uint32_t>(c);
  write_file(journal, header + number((1u << 30) / 4096 + 1) + file +
                          number(static_cast<uint32_t>(file.size())) + number(sum) + magic);
  const std::string expected = fmt::format(
      "database {0} has a journal beside it, {0}-journal, which no version of this program leaves; do not "
      "trust it",
      path);
  EXPECT_EQ(thrown_by([&] { Store store(path, {.read_only = true}); }), expected);
  EXPECT_EQ(thrown_by([&] { Store store(path); }), expected);
  EXPECT_EQ(read_file(file), "three years");
  // It is a journal that SQLite believes.
  run_sql(path, "SELECT * FROM trial");
  EXPECT_FALSE(std::filesystem::exists(file));
}

/// Where none is left, SQLite says that the disk is full.
TEST(Schema, NumbersThatAreUsedUpAreSaidToBe) {
  for (const auto& [sql, table] :
       {std::pair{"INSERT INTO epoch VALUES(9223372036854775807, 0)", "epoch"},
        {"INSERT INTO epoch(begun_ms) VALUES(0); DELETE FROM epoch; UPDATE sqlite_sequence SET seq = "
         "9223372036854775807 WHERE name = 'epoch'",
         "epoch"}}) {
    TemporaryFolder folder;
    const std::string path = folder / "lathe.db";
    { Store store(path); }
    run_sql(path, sql);
    EXPECT_EQ(
        thrown_by([&] { Store store(path); }),
        fmt::format("database {} has used up the numbers of its table `{}`, which no version of this program "
                    "does; do not trust it",
                    path, table));
  }
}

/// Text is more than any number of threads, and read as 0, of which each is: the best was looked for until
/// the stack was full.
TEST(Schema, TextIsNoNumber) {
  TemporaryFolder folder;
  const std::string path = folder / "lathe.db";
  { Farm(path).measured("t", {1e-3f}); }
  run_sql(path,
          "PRAGMA writable_schema = ON; CREATE TEMP TABLE ours AS SELECT sql FROM sqlite_schema WHERE name = "
          "'measurement' AND type = 'table'; UPDATE sqlite_schema SET sql = replace(sql, 'STRICT', '') WHERE "
          "name = "
          "'measurement' AND type = 'table'; PRAGMA schema_version = 1000; PRAGMA writable_schema = RESET; "
          "UPDATE "
          "measurement SET threads = 'x'; PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = "
          "(SELECT sql FROM "
          "ours) WHERE name = 'measurement' AND type = 'table'; PRAGMA schema_version = 1001");
  EXPECT_EQ(thrown_by([&] { Farm(path).best(/*accept_unconfirmed=*/true); }),
            fmt::format(
                "database {} holds text where a number belongs, which no version of this program writes; do "
                "not trust it",
                path));
}

/// Read whole, one took 6 GB of memory and half a minute to be exported.
TEST(Schema, AValueHasABound) {
  TemporaryFolder folder;
  const std::string path = folder / "lathe.db";
  Farm farm(path);
  farm.measured("t", {1e-3f});
  run_sql(path, "UPDATE measurement SET samples = zeroblob(268435457)");
  EXPECT_EQ(
      thrown_by([&] { farm.store.history(farm.workload, farm.target); }),
      fmt::format("database {} holds a value of more than 256 MiB, which no version of this program made; do "
                  "not trust it",
                  path));
}

TEST(Schema, AnAnalyzedDatabaseIsStillOurs) {
  TemporaryFolder folder;
  const std::string path = folder / "lathe.db";
  {
    Farm farm(path);
    farm.measured("t", {1e-3f});
    farm.store.database().run_script("ANALYZE");
  }
  EXPECT_EQ(thrown_by([&] { Store store(path); }), "no error");
}

/// Pages of another size than ours, as other builds of SQLite or an attacker make them.
TEST(Schema, PagesOfAnySizeAreRead) {
  TemporaryFolder folder;
  for (const int bytes : {512, 65536}) {
    const std::string path = folder / fmt::format("{}.db", bytes);
    { Farm(path).measured("t", {1e-3f}); }
    run_sql(path, fmt::format("PRAGMA journal_mode = DELETE; PRAGMA page_size = {}; VACUUM", bytes));
    Farm farm(path);
    EXPECT_EQ(farm.store.history(farm.workload, farm.target).size(), 1u) << bytes;
    EXPECT_TRUE(farm.store.problems().empty()) << bytes;
  }
}

/// The log of one database beside another: its pages must not become the other's.
TEST(Schema, ALogOfAnotherDatabaseIsNotReplayed) {
  TemporaryFolder folder;
  const std::string victim = folder / "victim.db", other = folder / "other.db";
  { Farm(victim).measured("mine", {1e-3f}); }
  {
    Farm farm(other);
    for (int i = 0; i < 50; ++i) farm.measured(std::to_string(i), {1e-3f});
    std::filesystem::copy_file(other + "-wal", victim + "-wal",
                               std::filesystem::copy_options::overwrite_existing);
  }
  const std::string message = thrown_by([&] {
    Store store(victim);
    // Either it is as it was, or it is said to be damaged; never the other's rows as its own.
    if (!store.problems().empty()) fail("damaged");
    const auto history = store.history(1, 1);
    if (history.size() != 1 || history[0].trace != "mine") fail("damaged: {} rows", history.size());
  });
  EXPECT_TRUE(message == "no error" || message.find("damaged") != std::string::npos) << message;
}

TEST(Schema, DamagedFilesGiveAnErrorWhereverTheyAreDamaged) {
  TemporaryFolder folder;
  std::string path = folder / "lathe.db";
  {
    Farm farm(path);
    for (int i = 0; i < 200; ++i) farm.measured(std::to_string(i) + std::string(300, 't'), {1e-3f});
    farm.store.database().run("PRAGMA wal_checkpoint(TRUNCATE)");
  }
  std::string sound = read_file(path);
  ASSERT_GT(sound.size(), 40u * 4096);
  int refused = 0;
  for (size_t page = 0; page < sound.size() / 4096; ++page) {
    std::string damaged = sound;
    damaged.replace(page * 4096, 4096, std::string(4096, '\xa5'));
    std::string copy = folder / "copy.db";
    write_file(copy, damaged);
    std::string message = thrown_by([&] {
      Store store(copy);
      if (!store.problems().empty()) fail("database {} is damaged", copy);
    });
    refused += message != "no error";
    EXPECT_THAT(message, HasSubstr(copy)) << "page " << page;
    std::filesystem::remove(copy);
  }
  EXPECT_EQ(refused, static_cast<int>(sound.size() / 4096));
  write_file(folder / "cut.db", sound.substr(0, sound.size() / 2));
  EXPECT_THAT(thrown_by([&] {
                Store store(folder / "cut.db");
                if (!store.problems().empty()) fail("damaged");
              }),
              HasSubstr("damaged"));
}

TEST(Schema, MigrationKeepsDataAndACopy) {
  constexpr Migration kFirst[] = {{1, "a", "CREATE TABLE a(x INTEGER) STRICT;"}};
  constexpr Migration kBoth[] = {kFirst[0],
                                 {2, "b", "ALTER TABLE a ADD COLUMN y INTEGER NOT NULL DEFAULT 5;"}};
  TemporaryFolder folder;
  std::string path = folder / "lathe.db";
  {
    const auto database = open_database(path, Access::kReadWrite, std::chrono::seconds(1));
    migrate(*database, kFirst);
    database->run("INSERT INTO a VALUES(1)");
  }
  {
    const auto reader = open_database(path, Access::kReadOnly, std::chrono::seconds(1));
    EXPECT_EQ(reader->version(), 1);
    EXPECT_THAT(thrown_by([&] { require_version(*reader, Access::kReadOnly); }), HasSubstr("table `a`"));
  }
  const auto database = open_database(path, Access::kReadWrite, std::chrono::seconds(1));
  migrate(*database, kBoth);
  EXPECT_EQ(database->version(), 2);
  Query row = database->query("SELECT x, y FROM a");
  ASSERT_TRUE(row.step());
  EXPECT_EQ(row.integer(), 1);
  EXPECT_EQ(row.integer(), 5);
  const auto copy = open_database(path + ".v1.backup", Access::kReadOnly, std::chrono::seconds(1));
  EXPECT_EQ(copy->version(), 1);
}

TEST(Schema, FailedMigrationLeavesTheOldVersion) {
  constexpr Migration kSteps[] = {
      {1, "a", "CREATE TABLE a(x INTEGER) STRICT;"},
      {2, "bad", "CREATE TABLE b(x INTEGER) STRICT; CREATE TABLE a(x INTEGER) STRICT;"}};
  TemporaryFolder folder;
  const auto database = open_database(folder / "lathe.db", Access::kReadWrite, std::chrono::seconds(1));
  EXPECT_THAT(thrown_by([&] { migrate(*database, kSteps); }), HasSubstr("table a already exists"));
  EXPECT_EQ(database->version(), 1);
  EXPECT_THAT(thrown_by([&] { database->run("SELECT * FROM b"); }), HasSubstr("no such table: b"));
}

}  // namespace
}  // namespace lathe::db
