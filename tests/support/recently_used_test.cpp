#include "core/support/recently_used.h"

#include <gtest/gtest.h>

#include <string>

namespace lathe {
namespace {

TEST(RecentlyUsed, WhatWasNotUsedForTheLongestGoes) {
  RecentlyUsed<int, std::string> texts(2);
  EXPECT_EQ(texts.find(1), nullptr);
  texts.put(1, "one");
  texts.put(2, "two");
  ASSERT_NE(texts.find(1), nullptr);
  texts.put(3, "three");
  EXPECT_EQ(texts.find(2), nullptr) << "1 was asked for since, though it is older";
  ASSERT_NE(texts.find(1), nullptr);
  EXPECT_EQ(*texts.find(1), "one");
  EXPECT_EQ(*texts.find(3), "three");
  EXPECT_EQ(texts.size(), 2u);
}

TEST(RecentlyUsed, AnEntryIsReplacedByItsLastValue) {
  RecentlyUsed<int, std::string> texts(2);
  texts.put(1, "one");
  texts.put(2, "two");
  texts.put(1, "eins");
  texts.put(3, "three");
  EXPECT_EQ(texts.find(2), nullptr);
  EXPECT_EQ(*texts.find(1), "eins");
  EXPECT_EQ(texts.size(), 2u);
}

}  // namespace
}  // namespace lathe
