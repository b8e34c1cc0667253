#include "core/support/loopback.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(Loopback, IsWhatNoOtherMachineCanAnswerTo) {
  for (const char* host : {"localhost", "127.0.0.1", "127.1", "127.255.3.4", "::1", "[::1]"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host :
       {"", "127", "127.0.0.1.example.com", "127.example.com", "127.0.0.1:80", "localhost.", "128.0.0.1",
        "0.0.0.0", "::", "[::1", "::ffff:8.8.8.8", "evil.com", " 127.0.0.1"})
    EXPECT_FALSE(is_loopback(host)) << host;
}

}  // namespace
}  // namespace lathe
