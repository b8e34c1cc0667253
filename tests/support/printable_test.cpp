#include "core/support/printable.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(Printable, WhatATerminalWouldObeyIsShown) {
  EXPECT_EQ(printable("plain, caf\xc3\xa9\n\ttwo lines"), "plain, caf\xc3\xa9\n\ttwo lines");
  EXPECT_EQ(printable("\x1b]0;owned\x07\r"), "\\x1b]0;owned\\x07\\x0d");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J \x7f"),
            "\\xc2\\x9b2J \\x7f")
      << "U+009B is CSI in one character";
  EXPECT_EQ(printable(std::string_view("\0\xc2", 2)), "\\x00\xc2");
  EXPECT_TRUE(has_control_characters("a\nb"));
  EXPECT_FALSE(has_control_characters("caf\xc3\xa9 4711"));
}

}  // namespace
}  // namespace lathe
