#include "tracker/claims.h"

#include <gtest/gtest.h>

#include <functional>

#include "core/support/error.h"
#include "core/support/temporary_folder.h"

namespace lathe::tracker {
namespace {

std::string message_of(const std::function<void()>& claim) {
  try {
    claim();
  } catch (const Error& error) {
    return error.what();
  }
  return "claimed";
}

TEST(Claims, ATrackerHasTheDatabaseForItself) {
  TemporaryFolder folder;
  const std::string path = folder / "db";
  Claims tracker(path), job(path);
  tracker.claim_all();
  EXPECT_EQ(message_of([&] { Claims(path).claim_all(); }),
            path + " is in use: a tracker serves it, or `tune` runs a job of it");
  EXPECT_EQ(message_of([&] { job.claim_new(); }),
            path + " is served by a tracker: stop that one, or tune with another --db");
  EXPECT_EQ(message_of([&] { job.claim_job(3); }), "another process works on job 3 of " + path);
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
    EXPECT_EQ(message_of([&] { second.claim_job(1); }), "another process works on job 1 of " + path);
    EXPECT_NE(message_of([&] { Claims(path).claim_all(); }), "claimed");
  }
  EXPECT_EQ(message_of([&] { first.claim_job(2); }), "claimed") << "it ended";
}

}  // namespace
}  // namespace lathe::tracker
