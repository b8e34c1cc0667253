// Tests of attacks with one of the mends taken away: see mended_attacks_test.py. The binary is also the
// supervisor of its sandboxes, as that of the workers' tests is.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "core/support/file.h"
#include "tests/tracker/seeded_bug.h"
#include "tests/workers/roles.h"

namespace {

/// A supervisor has no variable but what the system's libraries read: its worker's says it.
const char* bug_of_the_worker() {
  static const std::string variables = lathe::read_file("/proc/" + std::to_string(getppid()) + "/environ");
  constexpr std::string_view kBug = "LATHE_SEEDED_BUG=";
  const size_t at = variables.find(kBug);
  return at == std::string::npos ? nullptr : &variables[at + kBug.size()];
}

}  // namespace

int main(int argc, char** argv) {
  const bool supervises = argc > 1 && strcmp(argv[1], "internal-sandbox") == 0;
  if (const char* bug = supervises ? bug_of_the_worker() : getenv("LATHE_SEEDED_BUG"))
    lathe::tracker::testing::seeded_bug = atoi(bug);
  if (supervises) return lathe::worker::supervise(lathe::worker::test_roles(), {argv, argv + argc});
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
