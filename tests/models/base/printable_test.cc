#include "models/base/printable.h"

#include <gtest/gtest.h>

#include "models/base/error.h"

namespace headroom {
namespace {

TEST(Printable, LeavesTextAlone) {
  for (const char* text : {"", "plain", "Größe 語 🙂", "a|b*c", "path/to file.yaml:3"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, EscapesWhatATerminalObeys) {
  EXPECT_EQ(printable("a\x1b[2Jb"), "a\\x1b[2Jb");
  EXPECT_EQ(printable("one\ntwo\tthree\r"), "one\\ntwo\\tthree\\x0d");
  EXPECT_EQ(printable(std::string_view("\0\x7f", 2)), "\\x00\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"), "\\u009b");  // a control sequence's start in one character
}

TEST(Printable, EscapesWhatTurnsOrHidesText) {
  EXPECT_EQ(printable("\u202espare\u2066"), "\\u202espare\\u2066");
  EXPECT_EQ(printable("a\u200bb\u2028\ufeff"), "a\\u200bb\\u2028\\ufeff");
  EXPECT_EQ(printable("\U000e0041"), "\\U000e0041");
}

TEST(Printable, EscapesBytesThatAreNoText) {
  EXPECT_EQ(printable("a\xff\xfe" "b"), "a\\xff\\xfe" "b");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");          // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // half of a pair
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");           // cut short
  EXPECT_EQ(printable("\xf5\x80\x80\x80"), "\\xf5\\x80\\x80\\x80");
}

TEST(Printable, ErrorsAreOneLine) {
  const Error error{.message = "found a\nheadroom: fits", .file = "f\x1b", .line = 3, .key = "k\u202e"};
  EXPECT_EQ(error.text(), "f\\x1b:3: k\\u202e: found a\\nheadroom: fits");
}

}  // namespace
}  // namespace headroom
