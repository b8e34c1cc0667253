// Tests of attacks with one of the mends taken away: see mended_attacks_test.py.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/tracker/seeded_bug.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (const char* bug = getenv("LATHE_SEEDED_BUG")) lathe::tracker::testing::seeded_bug = atoi(bug);
  return RUN_ALL_TESTS();
}
