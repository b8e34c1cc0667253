#include "tracker/needs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/support/error.h"

namespace lathe::tracker {
namespace {

using testing::HasSubstr;

std::string refusal(const std::map<std::string, std::string>& needs) {
  try {
    parse_needs(needs);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Needs, AreAmountsOfKnownProperties) {  // F11
  const Properties needs = parse_needs({{"memory", "1536 MiB"}, {"driver", "550.54.14"}});
  EXPECT_EQ(needs.at("memory"), std::vector<int64_t>{1536 << 20});
  EXPECT_EQ(needs.at("driver"), (std::vector<int64_t>{550, 54, 14}));
  EXPECT_EQ(describe_needs(needs), "driver 550.54.14 or newer and memory of 1536 MiB or more");
  EXPECT_EQ(describe_needs({}), "");
  EXPECT_EQ(refusal({{"memroy", "16GiB"}}),
            "devices have no property `memroy` (there are memory, cores, driver); did you mean `memory`?");
  EXPECT_THAT(refusal({{"colour", "red"}}), HasSubstr("no property `colour`"));
  for (const char* amount :
       {"", "16", "16GB", "-1GiB", "1.5GiB", "GiB", "99999999999GiB", "16GiB\n", "1e3GiB"})
    EXPECT_THAT(refusal({{"memory", amount}}), HasSubstr("is no amount of memory")) << amount;
  for (const char* version :
       {"", ".", "6.", ".1", "6..1", "v6", "6.1-13", "1.2.3.4.5", "99999999999999999999"})
    EXPECT_THAT(refusal({{"driver", version}}), HasSubstr("is no amount of driver")) << version;
}

TEST(Needs, AreOnceEach) {
  EXPECT_EQ(split_needs({"memory=1GiB", "driver=6"}),
            (std::map<std::string, std::string>{{"memory", "1GiB"}, {"driver", "6"}}));
  EXPECT_THROW(split_needs({"memory"}), Error);
  EXPECT_THROW(split_needs({"memory=1GiB", "memory=2GiB"}), Error);
}

TEST(Needs, AreMetByAsMuchOrMore) {
  const Properties device =
      properties_of(R"({"memory_bytes": 8589934592, "kernel": "Linux 6.1.0-13-amd64"})");
  EXPECT_TRUE(has_at_least(device, {}));
  EXPECT_TRUE(has_at_least(device, parse_needs({{"memory", "8GiB"}, {"driver", "6.1"}})));
  EXPECT_TRUE(has_at_least(device, parse_needs({{"driver", "5.19.2"}})));
  EXPECT_TRUE(has_at_least(device, parse_needs({{"driver", "6.1.0.0"}})));
  EXPECT_FALSE(has_at_least(device, parse_needs({{"driver", "6.1.1"}})));
  EXPECT_FALSE(has_at_least(device, parse_needs({{"driver", "6.10"}})));
  EXPECT_FALSE(has_at_least(device, parse_needs({{"memory", "8193MiB"}})));
  // A device with a driver of its own is known by that.
  const Properties gpu = properties_of(R"({"driver": "NVIDIA 550.54.14", "kernel": "Linux 6.1.0"})");
  EXPECT_TRUE(has_at_least(gpu, parse_needs({{"driver", "550.54"}})));
  EXPECT_FALSE(has_at_least(gpu, parse_needs({{"driver", "551"}})));
}

/// A worker's word may be anything; what it does not say it has not.
TEST(Needs, OfADeviceThatSaysNonsense) {
  for (const char* device : {"", "[]", "7", "{", R"({"memory_bytes": "much", "kernel": 6})",
                             R"({"memory_bytes": null, "kernel": "Linux"})"}) {
    EXPECT_TRUE(properties_of(device).empty()) << device;
    EXPECT_FALSE(has_at_least(properties_of(device), parse_needs({{"memory", "0GiB"}}))) << device;
  }
}

}  // namespace
}  // namespace lathe::tracker
