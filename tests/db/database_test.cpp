// What the store counts on, of any backend.
#include "db/database.h"

#include <cmath>
#include <limits>

#include "db/database_error.h"
#include "tests/db/fixture.h"

namespace lathe::db {
namespace {
using namespace std::string_literals;

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DatabaseTest : public ::testing::Test {
 protected:
  std::unique_ptr<Database> open(std::chrono::milliseconds busy_timeout = std::chrono::seconds(5)) {
    return open_database(database_in(folder_, "lathe.db"), Access::kReadWrite, busy_timeout);
  }
  void add(Database& database, const std::string& name) {
    database.run("INSERT INTO target(name, architecture, features) VALUES(?, '', '')", {name});
  }
  std::vector<std::string> names(Database& database) {
    std::vector<std::string> names;
    for (Query row = database.query("SELECT name FROM target ORDER BY name"); row.step();)
      names.push_back(row.text());
    return names;
  }

  TemporaryFolder folder_;
  Store store_{database_in(folder_, "lathe.db")};
  Database& database_ = store_.database();
};

TEST_F(DatabaseTest, ValuesComeBackAsTheyWere) {
  const int64_t integers[] = {0, -1, std::numeric_limits<int64_t>::max(),
                              std::numeric_limits<int64_t>::min()};
  const double reals[] = {0.1,
                          -0.0,
                          5e-324,
                          std::numeric_limits<double>::max(),
                          std::numeric_limits<double>::infinity(),
                          -std::numeric_limits<double>::infinity()};
  for (const int64_t value : integers) {
    Query row = database_.query("SELECT coalesce(?, 0)", {value});
    ASSERT_TRUE(row.step());
    EXPECT_EQ(row.integer(), value);
    EXPECT_FALSE(row.step());
  }
  for (const double value : reals) {
    Query row = database_.query("SELECT coalesce(?, 0.5)", {value});
    ASSERT_TRUE(row.step());
    EXPECT_EQ(row.real(), value);
  }
  for (const std::string& text :
       {std::string(), std::string("it's \"q\" \\x \xc3\xa9 ?1 $1\n\x01"), std::string(100'000, 'x')}) {
    Query row = database_.query("SELECT coalesce(?, 'y')", {text});
    ASSERT_TRUE(row.step());
    EXPECT_EQ(row.text(), text);
  }
}

/// Which whoever gave it is to hear of, and nobody is to try again.
TEST_F(DatabaseTest, TellsWhatBreaksARuleFromATroubleThatMayPass) {
  add(database_, "x");
  EXPECT_THROW(add(database_, "x"), RefusedValueError) << "a name is one";
  const auto record = [&](int64_t n, TargetId target) {
    store_.add_model_latency(
        {.model_digest = "m", .target = target, .threads = 1, .seconds = 1, .low = 1, .high = 1, .n = n});
  };
  const TargetId target = store_.add_target({.name = "t"});
  EXPECT_THROW(record(0, target), RefusedValueError);
  EXPECT_THROW(record(1, target + 100), RefusedValueError);
  record(1, target);
}

TEST_F(DatabaseTest, BytesOfAnyKind) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  const TargetId target = store_.add_target({.name = "t"});
  store_.add_cost_model({.target = target, .model = bytes});
  EXPECT_EQ(store_.latest_cost_model(target)->model, bytes);
  store_.add_cost_model({.target = target, .model = ""});
  EXPECT_EQ(store_.latest_cost_model(target)->model, "");
}

TEST_F(DatabaseTest, NullsAndWhatIsNoNumber) {
  Query row = database_.query(
      "SELECT machine.device, numbers, measured_ms FROM target "
      "LEFT JOIN machine ON machine.target = target.name WHERE target.name = ?",
      {"none"});
  EXPECT_FALSE(row.step());
  add(database_, "some");
  Query nulls = database_.query(
      "SELECT machine.device, numbers, measured_ms FROM target "
      "LEFT JOIN machine ON machine.target = target.name WHERE target.name = ?",
      {"some"});
  ASSERT_TRUE(nulls.step());
  EXPECT_EQ(nulls.maybe_integer(), std::nullopt);
  EXPECT_EQ(nulls.text(), "");
  EXPECT_EQ(nulls.integer(), 0);
  // A number that is none is nothing: no row is ever ranked by it.
  Query nan = database_.query("SELECT coalesce(?, 0.5)", {std::nan("")});
  ASSERT_TRUE(nan.step());
  EXPECT_EQ(nan.real(), 0.5);
}

TEST_F(DatabaseTest, StatementsOfOneTextWithinEachOther) {
  for (const char* name : {"a", "b", "c"}) add(database_, name);
  std::string seen;
  for (Query outer = database_.query("SELECT name FROM target ORDER BY name"); outer.step();) {
    seen += outer.text() + ":";
    for (Query inner = database_.query("SELECT name FROM target ORDER BY name"); inner.step();)
      seen += inner.text();
  }
  EXPECT_EQ(seen, "a:abcb:abcc:abc");
}

TEST_F(DatabaseTest, RowsWithoutNumberComeInOrder) {
  {
    Transaction transaction = database_.transaction();
    for (int i = 0; i < 3000; ++i) add(database_, fmt::format("{:04}", i));
    transaction.commit();
  }
  const Transaction snapshot = database_.snapshot();
  int count = 0;
  for (Query row = database_.stream("SELECT name FROM target WHERE name >= ? ORDER BY name", {"0100"});
       row.step();) {
    ASSERT_EQ(row.text(), fmt::format("{:04}", 100 + count++));
    if (count % 1000 != 0) continue;
    // Another within it, and a question beside both.
    Query other = database_.stream("SELECT count(*) FROM target WHERE name < ?", {"0100"});
    ASSERT_TRUE(other.step());
    EXPECT_EQ(other.integer(), 100);
    EXPECT_EQ(names(database_).size(), 3000u);
  }
  EXPECT_EQ(count, 2900);
}

TEST_F(DatabaseTest, AnInsertTellsItsIdOrThatThereIsNone) {
  constexpr const char* kInsert =
      "INSERT INTO target(name, architecture, features) VALUES(?, '', '') ON CONFLICT(name) DO NOTHING "
      "RETURNING id";
  const auto first = database_.insert(kInsert, {"a"});
  ASSERT_TRUE(first);
  EXPECT_EQ(database_.insert(kInsert, {"a"}), std::nullopt);
  EXPECT_EQ(database_.run("UPDATE target SET features = 'f' WHERE id = ?", {*first}), 1);
  EXPECT_EQ(database_.run("UPDATE target SET features = 'f' WHERE id = ?", {*first + 7}), 0);
}

TEST_F(DatabaseTest, WhatIsNotCommittedIsNotThere) {
  {
    Transaction outer = database_.transaction();
    add(database_, "kept");
    {
      Transaction inner = database_.transaction();
      add(database_, "undone");
    }
    {
      Transaction inner = database_.transaction();
      add(database_, "inner");
      inner.commit();
    }
    outer.commit();
  }
  {
    Transaction outer = database_.transaction();
    Transaction inner = database_.transaction();
    add(database_, "lost");
    inner.commit();
  }
  EXPECT_THAT(names(*open()), ElementsAre("inner", "kept"));
}

TEST_F(DatabaseTest, AStatementThatFailsTakesItsSavepointWithItAndNoMore) {
  {
    Transaction outer = database_.transaction();
    add(database_, "kept");
    EXPECT_NE(thrown_by([&] {
                Transaction inner = database_.transaction();
                add(database_, "undone");
                add(database_, "kept");  // its name is taken
              }),
              "no error");
    add(database_, "after");
    outer.commit();
  }
  EXPECT_THAT(names(database_), ElementsAre("after", "kept"));
  // By itself, without a transaction.
  EXPECT_NE(thrown_by([&] { add(database_, "kept"); }), "no error");
  add(database_, "last");
  EXPECT_THAT(names(database_), ElementsAre("after", "kept", "last"));
}

TEST_F(DatabaseTest, ASnapshotIsOfOneMoment) {
  const auto reader = open();
  add(database_, "before");
  {
    const Transaction snapshot = reader->snapshot();
    EXPECT_THAT(names(*reader), ElementsAre("before"));
    add(database_, "after");
    EXPECT_THAT(names(*reader), ElementsAre("before"));
  }
  EXPECT_THAT(names(*reader), ElementsAre("after", "before"));
}

TEST_F(DatabaseTest, WritersExcludeEachOtherAndSayWhoWaited) {
  const auto other = open(std::chrono::milliseconds(50));
  const Transaction writing = database_.transaction();
  EXPECT_THAT(thrown_by([&] { other->transaction(); }),
              HasSubstr("is being written by another process (waited 50 ms); try again when it is done"));
}

TEST_F(DatabaseTest, ReadersWriteNothing) {
  Store reader(database_in(folder_, "lathe.db"), {.read_only = true});
  EXPECT_NE(thrown_by([&] { reader.add_target({.name = "t"}); }), "no error");
  EXPECT_THAT(names(database_), ElementsAre());
}

TEST_F(DatabaseTest, NamesAreInTheOrderOfTheirBytes) {
  for (const char* name : {"b", "B", "a", "_", "\xc3\xa9", "Z"}) add(database_, name);
  EXPECT_THAT(names(database_), ElementsAre("B", "Z", "_", "a", "b", "\xc3\xa9"));
}

TEST_F(DatabaseTest, ATrackersLockLeavesNobodyElseAJob) {
  const auto other = open(), third = open();
  {
    const auto first = database_.locks(), second = other->locks();
    EXPECT_TRUE(first->lock_new());
    EXPECT_TRUE(second->lock_new());
    EXPECT_TRUE(first->lock_job(1));
    EXPECT_TRUE(second->lock_job(2));
    EXPECT_FALSE(second->lock_job(1));
    EXPECT_FALSE(third->locks()->lock_all());
  }
  const auto tracker = third->locks(), job = other->locks();
  EXPECT_TRUE(tracker->lock_all()) << "the others' ended with them";
  EXPECT_FALSE(job->lock_new());
  EXPECT_FALSE(job->lock_job(3));
  EXPECT_FALSE(database_.locks()->lock_all());
}

TEST_F(DatabaseTest, WhoMayBeAtWorkOnAJobIsToldByLocks) {
  const auto other = open();
  EXPECT_FALSE(database_.may_be_worked_on(1)) << "nobody has ever locked anything";
  {
    const auto job = other->locks();
    ASSERT_TRUE(job->lock_job(1));
    EXPECT_TRUE(database_.may_be_worked_on(1));
  }
  EXPECT_FALSE(database_.may_be_worked_on(1)) << "it ended with its process";
  {
    const auto maker = other->locks();
    ASSERT_TRUE(maker->lock_new());
    EXPECT_TRUE(database_.may_be_worked_on(1)) << "it may have made that, and not begun";
  }
  const auto tracker = other->locks();
  ASSERT_TRUE(tracker->lock_all());
  EXPECT_TRUE(database_.may_be_worked_on(7));
}

TEST_F(DatabaseTest, TextsOfStrangersAreKept) {
  const TargetId target = store_.add_target({.name = "cpu:x", .architecture = "a"});
  const WorkloadId workload = store_.add_workload({.digest = "d", .text = "t"});
  const JobId job = store_.create_job({.target = target, .tasks = {{.workload = workload}}});
  const NewTrial trial{.workload = workload, .trace = "t"};
  const TrialId id = store_.add_trials(job, std::span(&trial, 1)).at(0).trial;
  const TrialResult result{
      .lease = store_.grant(id, "w", 1)->id,
      .outcome = Outcome::kCrashed,
      .error = "zero \0, half \xc3, none \xff\xc0\x80, \xed\xa0\x80 \xf5 end \xf0\x9f\x98\x80"s};
  EXPECT_EQ(store_.record(std::span(&result, 1)).at(0), Recorded::kRecorded);
  const std::string kept = store_.trial(id).error;
  EXPECT_THAT(kept, ::testing::StartsWith("zero "));
  EXPECT_THAT(kept, HasSubstr(" end "));
}

}  // namespace
}  // namespace lathe::db
