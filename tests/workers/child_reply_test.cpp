#include "workers/child_reply.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "core/support/temporary_folder.h"

namespace lathe::worker {
namespace {

/// As while a package is replaced: each candidate would be one that cannot be built.
TEST(ChildReply, ABuildWithoutALinkerSaysNothingOfItsProgram) {
  const Reply failed{.outcome = Outcome::kBuildFailed, .message = "cannot run `ld`"};
  EXPECT_EQ(why_build_says_nothing(failed), "");
  const TemporaryFolder empty;
  const std::string path = std::getenv("PATH");
  setenv("PATH", empty.path().c_str(), 1);
  const std::string why = why_build_says_nothing(failed);
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(why, "there is no `ld`; install binutils");
}

}  // namespace
}  // namespace lathe::worker
