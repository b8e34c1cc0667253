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
  Claims tracker(path), job(path);
  tracker.claim_all();
  EXPECT_EQ(thrown_by([&] { Claims(path).claim_all(); }),
            path + " is in use: a tracker serves it, or `tune` runs a job of it");
  EXPECT_EQ(thrown_by([&] { job.claim_new(); }),
            path + " is served by a tracker: stop that one, or tune with another --db");
  EXPECT_EQ(thrown_by([&] { job.claim_job(3); }), "another process works on job 3 of " + path);
}

TEST(Claims, JobsRunBesideEachOther) {
  TemporaryFolder folder;
  const std::string path = folder / "db";
  Claims first(path);
  {
    Claims second(path);
    for (Claims* claims : {&first, &second}) claims->claim_new();
    first.claim_job(1);
    second.claim_job(2);
    EXPECT_EQ(thrown_by([&] { second.claim_job(1); }), "another process works on job 1 of " + path);
    EXPECT_NE(thrown_by([&] { Claims(path).claim_all(); }), "no error");
  }
  EXPECT_EQ(thrown_by([&] { first.claim_job(2); }), "no error") << "it ended";
}

}  // namespace
}  // namespace lathe::tracker
