#include "tracker/claims.h"

#include <gtest/gtest.h>

#include "core/support/error.h"
#include "core/support/temporary_folder.h"
#include "tests/thrown_by.h"

namespace lathe::tracker {
namespace {

TEST(Claims, ATrackerHasTheDatabaseForItself) {
  TemporaryFolder folder;
  const std::string path = folder / "db";
  const auto database = [&] {
    return db::open_database(path, db::Access::kReadWrite, std::chrono::seconds(1));
  };
  const auto one = database(), two = database(), three = database();
  Claims tracker(*one), job(*two);
  tracker.claim_all();
  EXPECT_EQ(thrown_by([&] { Claims(*three).claim_all(); }),
            path + " is in use: a tracker serves it, or `tune` runs a job of it");
  EXPECT_EQ(thrown_by([&] { job.claim_new(); }),
            path + " is served by a tracker: stop that one, or tune with another --db");
  EXPECT_EQ(thrown_by([&] { job.claim_job(3); }), "another process works on job 3 of " + path);
}

TEST(Claims, JobsRunBesideEachOther) {
  TemporaryFolder folder;
  const std::string path = folder / "db";
  const auto database = [&] {
    return db::open_database(path, db::Access::kReadWrite, std::chrono::seconds(1));
  };
  const auto one = database(), two = database(), three = database();
  Claims first(*one);
  {
    Claims second(*two);
    for (Claims* claims : {&first, &second}) claims->claim_new();
    first.claim_job(1);
    second.claim_job(2);
    EXPECT_EQ(thrown_by([&] { second.claim_job(1); }), "another process works on job 1 of " + path);
    EXPECT_NE(thrown_by([&] { Claims(*three).claim_all(); }), "no error");
  }
  EXPECT_EQ(thrown_by([&] { first.claim_job(2); }), "no error") << "it ended";
}

}  // namespace
}  // namespace lathe::tracker
