#include "core/support/error.h"

#include <gtest/gtest.h>

#include <string>

namespace lathe {
namespace {

TEST(Error, CaretPointsAtTheColumn) {
  EXPECT_EQ(caret_message({"a.relay", 2, 5, 8}, "one\nlet %x = 1\n", "unexpected token"),
            "a.relay:2:5: error: unexpected token\n  let %x = 1\n      ^^^");
}

TEST(Error, NearestName) {
  EXPECT_EQ(nearest("resnet81", {"vgg16", "resnet18", "dqn"}), "resnet18");
  EXPECT_EQ(nearest("bnech", {"batch", "bench"}), "bench") << "neighbours exchanged are one mistake";
  EXPECT_EQ(nearest("zzz", {"vgg16"}), "");
  EXPECT_EQ(nearest("resnet", {"resnet50v2-quantized", "resnet"}), "resnet");
  // Nothing for what a file or a stranger makes up: the table has the product of both lengths.
  EXPECT_EQ(nearest(std::string(128, 'a'), {std::string(127, 'a')}), std::string(127, 'a'));
  EXPECT_EQ(nearest(std::string(129, 'a'), {std::string(128, 'a')}), "");
}

}  // namespace
}  // namespace lathe
