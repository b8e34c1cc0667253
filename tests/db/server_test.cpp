// What a server's database does otherwise than a file, and what else may be there. Run by with_postgres.py.
#include "db/backup.h"
#include "db/schema.h"
#include "tests/db/fixture.h"

namespace lathe::db {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::chrono::seconds kPatience(5);

class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(getenv("DATABASE_TEST_SERVER")) << "run it by with_postgres.py"; }
  std::unique_ptr<Database> open(Access access = Access::kReadWrite) {
    return open_database(url_, access, kPatience);
  }
  std::string opening(bool read_only = false) {
    return thrown_by([&] { Store store(url_, {.read_only = read_only}); });
  }

  TemporaryFolder folder_;
  const std::string url_ = database_in(folder_, "lathe.db");
};

TEST_F(ServerTest, AddressesThatAreNone) {
  EXPECT_EQ(
      thrown_by([&] { Store store("postgresql://user:secret@localhost/lathe"); }),
      "the database's address holds a password, which others can see; put it into ~/.pgpass, or a file that "
      "PGPASSFILE names");
  EXPECT_THAT(thrown_by([&] { Store store("postgresql://localhost/lathe?password=secret"); }),
              StartsWith("the database's address holds a password"));
  EXPECT_THAT(thrown_by([&] { Store store("postgresql://localhost/lathe?sslpassword=secret"); }),
              StartsWith("the database's address holds a password"))
      << "of the key of its certificate";
  for (const char* broken :
       {"postgresql://user:sec%zzret@localhost/lathe", "postgresql://user:secret@[localhost/lathe",
        "postgresql://localhost/lathe?password=sec%zzret&colour=red"})
    EXPECT_THAT(thrown_by([&] { Store store(broken); }),
                ::testing::AllOf(StartsWith("postgresql://...: "), ::testing::Not(HasSubstr("sec"))))
        << broken;
  EXPECT_THAT(thrown_by([&] { Store store("postgresql://localhost/lathe?colour=red"); }),
              HasSubstr("invalid URI query parameter: \"colour\""));
  EXPECT_THAT(thrown_by([&] { Store store("postgresql:///lathe?host=/nowhere"); }),
              StartsWith("cannot reach database postgresql:///lathe?host=/nowhere: "));
}

TEST_F(ServerTest, AnEmptySchemaIsMadeAndOpensAgain) {
  EXPECT_THAT(opening(/*read_only=*/true), HasSubstr("has schema version 0, older than"));
  { Store store(url_); }
  EXPECT_EQ(open()->version(), kSchemaVersion);
  EXPECT_EQ(opening(/*read_only=*/true), "no error");
  EXPECT_TRUE(problems_of(url_).empty());
  EXPECT_THAT(thrown_by([&] { back_up(url_, folder_ / "copy"); }), HasSubstr("pg_dump"));
}

TEST_F(ServerTest, AnothersAndNewerOnesStayAsTheyAre) {
  open()->run_script("CREATE TABLE song(title TEXT)");
  EXPECT_THAT(opening(), HasSubstr("is the database of another program"));
  open()->run_script("DROP TABLE song");
  { Store store(url_); }
  open()->run_script("UPDATE lathe_schema SET version = 99");
  EXPECT_THAT(opening(), HasSubstr("has schema version 99, newer than"));
  EXPECT_THAT(opening(/*read_only=*/true), HasSubstr("has schema version 99, newer than"));
}

/// Whoever shares the database may have put programs into it: they would run as its tracker.
TEST_F(ServerTest, CodeOfOthersIsRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"CREATE FUNCTION evil() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.seconds = 1e-9; RETURN NEW; "
       "END'; "
       "CREATE TRIGGER spoil BEFORE INSERT ON measurement FOR EACH ROW EXECUTE FUNCTION evil()",
       "`spoil`"},
      {"CREATE OR REPLACE FUNCTION trial_is_final() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; "
       "END'",
       "`trial_is_final`"},
      {"CREATE VIEW news AS SELECT 1", "view `news`"},
      {"CREATE RULE quiet AS ON INSERT TO event DO INSTEAD NOTHING", "rule `quiet`"},
      {"CREATE POLICY mine ON event USING (false)", "policy `mine`"},
      {"CREATE FUNCTION substr(text, bigint, bigint) RETURNS text LANGUAGE sql AS 'SELECT ''''::text'",
       "function `substr`"},
  };
  for (const auto& [sql, what] : cases) {
    const std::string url = database_in(folder_, what);
    { Store store(url); }
    open_database(url, Access::kReadWrite, kPatience)->run_script(sql);
    for (const bool read_only : {false, true})
      EXPECT_THAT(thrown_by([&] { Store store(url, {.read_only = read_only}); }), HasSubstr(what)) << sql;
  }
}

TEST_F(ServerTest, AStepThatFailsLeavesTheVersionBefore) {
  constexpr Migration kSteps[] = {{1, "a", "CREATE TABLE a(x BIGINT);"},
                                  {2, "bad", "CREATE TABLE b(x BIGINT); CREATE TABLE a(x BIGINT);"}};
  const auto database = open();
  EXPECT_THAT(thrown_by([&] { migrate(*database, kSteps); }), HasSubstr("relation \"a\" already exists"));
  EXPECT_EQ(database->version(), 1);
  EXPECT_THAT(thrown_by([&] { database->run("SELECT * FROM b"); }),
              HasSubstr("relation \"b\" does not exist"));
}

/// COMMIT of a transaction in which a statement has failed is no error to the server.
TEST_F(ServerTest, WhatHasFailedInATransactionIsNotCommittedUnnoticed) {
  Store store(url_);
  Transaction transaction = store.begin();
  store.add_target({.name = "t"});
  EXPECT_NE(thrown_by([&] { store.database().run("SELECT 1/0"); }), "no error");
  EXPECT_THAT(thrown_by([&] { transaction.commit(); }),
              HasSubstr("a statement of this transaction has failed before"));
}

/// Somebody looks at the rows by hand and keeps them: their trials are nobody's to lease, and nobody waits.
TEST_F(ServerTest, ATrialThatAnotherKeepsIsNotLeased) {
  Farm farm(url_);
  const NewTrial trial{.workload = farm.workload, .trace = "t"};
  const TrialId id = farm.store.add_trials(farm.job, std::span(&trial, 1)).at(0).trial;
  const auto other = open();
  other->run_script("BEGIN; SELECT * FROM trial FOR UPDATE");
  EXPECT_FALSE(farm.store.grant(id, "w", 1));
  other->run_script("ROLLBACK");
  EXPECT_TRUE(farm.store.grant(id, "w", 1));
}

/// As a restart of the server or a firewall would.
void cut_connection(Database& database, Database& by) {
  Query pid = database.query("SELECT pg_backend_pid()");
  ASSERT_TRUE(pid.step());
  const int64_t session = pid.integer();
  by.run("SELECT pg_terminate_backend(CAST(? AS integer))", {session});
  for (bool there = true; there;) {
    Query row = by.query("SELECT 1 FROM pg_stat_activity WHERE pid = ?", {session});
    there = row.step();
  }
}

TEST_F(ServerTest, ALostConnectionIsMadeAnew) {
  Store store(url_);
  const TargetId target = store.add_target({.name = "t"});
  cut_connection(store.database(), *open());
  EXPECT_EQ(store.target(target).name, "t");
  cut_connection(store.database(), *open());
  EXPECT_NE(store.add_target({.name = "u"}), target);
}

TEST_F(ServerTest, ATransactionEndsWithItsConnection) {
  Store store(url_);
  {
    Transaction transaction = store.begin();
    store.add_target({.name = "half"});
    cut_connection(store.database(), *open());
    EXPECT_THAT(thrown_by([&] { store.add_target({.name = "other half"}); }),
                StartsWith("lost the connection to database postgresql://"));
    EXPECT_NE(thrown_by([&] { transaction.commit(); }), "no error");
  }
  Query row = store.database().query("SELECT count(*) FROM target");
  ASSERT_TRUE(row.step());
  EXPECT_EQ(row.integer(), 0) << "and the next statement has a new one";
}

/// Another may have them by now.
TEST_F(ServerTest, WhoHasLostItsLocksHasNoNewConnection) {
  Store store(url_);
  const auto other = open();
  const auto locks = store.database().locks();
  ASSERT_TRUE(locks->lock_all());
  EXPECT_FALSE(other->locks()->lock_all());
  cut_connection(store.database(), *other);
  for (int i = 0; i < 3; ++i)
    EXPECT_THAT(thrown_by([&] { store.add_target({.name = "t"}); }),
                StartsWith("lost the connection to database postgresql://"));
  EXPECT_TRUE(other->locks()->lock_all());
}

}  // namespace
}  // namespace lathe::db
