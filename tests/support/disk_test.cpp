#include "core/support/disk.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "core/support/unfit.h"

namespace lathe {
namespace {

TEST(FailToWrite, AFullDiskIsTheMachines) {
  for (const int full : {ENOSPC, EDQUOT, EFBIG}) EXPECT_THROW(fail_to_write("x", full), Unfit);
  try {
    fail_to_write("x", EACCES);
  } catch (const Unfit&) {
    ADD_FAILURE() << "a mistake of the user";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "cannot write x: Permission denied");
  }
}

}  // namespace
}  // namespace lathe
