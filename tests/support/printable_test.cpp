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
  EXPECT_EQ(printable("lab\u200b, \u202eyranac\ufeff"),
            "lab\\xe2\\x80\\x8b, \\xe2\\x80\\xaeyranac\\xef\\xbb\\xbf")
      << "nobody would see them";
  EXPECT_EQ(printable("\x9b"
                      "2J \xe9t\xe9 \xe2\x80"),
            "\\x9b2J \xe9t\xe9 \xe2\\x80")
      << "where no UTF-8 is read the byte alone is CSI";
  EXPECT_EQ(printable("\xe4\xbd\x9b \xc3\x9b"), "\xe4\xbd\x9b \xc3\x9b") << "a part of a letter is none";
  EXPECT_TRUE(has_control_characters("a\nb"));
  EXPECT_TRUE(has_control_characters("a\x9b"));
  EXPECT_FALSE(has_control_characters("caf\xc3\xa9 \xc3\x9b \xe9 4711"));
}

TEST(Printable, LongNamesAreTheirBeginning) {
  const std::string name(5000, 'n'), start = std::string(80, 'n') + "... (5000 bytes)";
  EXPECT_EQ(shortened("node `" + name + "` (`Add`): `" + name + "` is `", 4096),
            "node `" + start + "` (`Add`): `" + start + "` is `");
  EXPECT_EQ(shortened(name, 10), "nnnnnnnnnn... (5000 bytes)");
  EXPECT_EQ(shortened(std::string(9, 'n') + "\xe2\x82\xac" + name, 11), "nnnnnnnnn... (5012 bytes)")
      << "no half characters";
  EXPECT_EQ(shortened("`" + std::string(4000, 'n') + "`", 10), "`" + std::string(4000, 'n') + "`");
}

TEST(Printable, WhatIsNoUtf8IsReplaced) {
  for (const char* good :
       {"", "plain", "caf\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"})
    EXPECT_EQ(as_utf8(good), good);
  const std::string none = "\xef\xbf\xbd";
  EXPECT_EQ(as_utf8("a\xff"
                    "b"),
            "a" + none + "b");
  EXPECT_EQ(as_utf8("\xc3"), none);             // half a letter
  EXPECT_EQ(as_utf8("\xc0\x80"), none + none);  // longer than need be
  EXPECT_EQ(as_utf8("\xe0\x80\xaf"), none + none + none);
  EXPECT_EQ(as_utf8("\xed\xa0\x80"), none + none + none);             // half a pair
  EXPECT_EQ(as_utf8("\xf4\x90\x80\x80"), none + none + none + none);  // beyond the last
  EXPECT_EQ(as_utf8(std::string_view("a\0b", 3)), std::string_view("a\0b", 3));
}

}  // namespace
}  // namespace lathe
