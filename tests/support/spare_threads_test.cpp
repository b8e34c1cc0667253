#include "core/support/spare_threads.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/support/unfit.h"

namespace lathe {
namespace {

TEST(SpareThreads, AreAskedForBeforeAnythingNeedsThem) {
  require_threads();
  const auto run = [] {
    // Root is under no limit; of nobody's processes there may be some, and more than one already with this.
    constexpr uid_t kNobody = 65534;
    if (getuid() == 0 && setuid(kNobody) != 0) _exit(1);
    const rlimit one{1, 1};
    if (setrlimit(RLIMIT_NPROC, &one) != 0) _exit(2);
    try {
      require_threads();
    } catch (const Unfit& error) {
      fputs(error.what(), stderr);
      _exit(0);
    }
    _exit(3);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0),
              "^this process may start 0 threads, and needs 8: Resource temporarily unavailable; see `ulimit "
              "-u`$");
}

}  // namespace
}  // namespace lathe
