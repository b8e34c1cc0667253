#include "tracker/build_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lathe::tracker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Build build(const std::string& artifact, uint64_t bytes, const std::string& reference = "r") {
  return {.artifact = {artifact, bytes}, .reference = {reference, 1}};
}

TEST(BuildIndex, TheLeastRecentlyUsedGo) {
  BuildIndex index(31);
  EXPECT_THAT(index.add({1, "a"}, build("one", 10), "alice"), IsEmpty());
  EXPECT_THAT(index.add({2, "a"}, build("two", 10), "alice"), IsEmpty());
  EXPECT_THAT(index.add({3, "a"}, build("three", 10), "alice"), IsEmpty());
  EXPECT_TRUE(index.find({1, "a"}));
  EXPECT_THAT(index.add({4, "a"}, build("four", 10), "alice"), ElementsAre("two"));
  EXPECT_FALSE(index.find({2, "a"}));
  EXPECT_TRUE(index.holds("r")) << "others need it";
}

TEST(BuildIndex, AFloodOfOneUserCostsNobodyElse) {
  BuildIndex index(100);
  index.add({1, "a"}, build("bob's", 20), "bob");
  for (int i = 2; i < 1000; ++i) index.add({i, "a"}, build(std::to_string(i), 10), "mallory");
  EXPECT_TRUE(index.find({1, "a"}));
  EXPECT_LE(index.bytes_of("mallory"), 100u);
  EXPECT_TRUE(index.find({999, "a"}));
  // Nor does what is larger than a share keep another from having one.
  EXPECT_THAT(index.add({1000, "a"}, build("large", 90), "bob"), testing::Contains("bob's"));
  EXPECT_TRUE(index.find({1000, "a"})) << "the newest stays";
}

TEST(BuildIndex, WhatIsLargerThanTheStoreStaysAlone) {
  BuildIndex index(10);
  index.add({1, "a"}, build("small", 5), "alice");
  EXPECT_THAT(index.add({2, "a"}, build("large", 50), "bob"), ElementsAre("small"));
  EXPECT_TRUE(index.holds("large"));
  EXPECT_THAT(index.add({3, "a"}, build("next", 5), "alice"), testing::Contains("large"));
  EXPECT_EQ(index.bytes_of("bob"), 0u);
}

}  // namespace
}  // namespace lathe::tracker
