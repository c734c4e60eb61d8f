#include "planner/cli/wrap.h"

#include <gtest/gtest.h>

namespace headroom::cli {
namespace {

TEST(Wrap, LeavesWhatFits) {
  const std::string text = "a line\n\n  another  one\nlast";
  EXPECT_EQ(wrapped(text, 20), text);
  EXPECT_EQ(wrapped("", 20), "");
}

TEST(Wrap, GoesOnFurtherIn) {
  EXPECT_EQ(wrapped("  one two three four five\nsix\n", 16), "  one two three\n      four five\nsix\n");
}

TEST(Wrap, GoesOnUnderALabelsText) {
  EXPECT_EQ(wrapped("  model   one two three four", 18), "  model   one two\n          three\n          four");
  // Of a table, nothing belongs under its last column.
  EXPECT_EQ(wrapped("  a  b  c d", 9), "  a  b  c\n    d");
}

TEST(Wrap, NeverCutsAWord) {
  EXPECT_EQ(wrapped("see /a/very/long/path/indeed now", 12), "see /a/very/long/path/indeed\n    now");
}

TEST(Wrap, CountsCharactersNotBytesOrColours) {
  EXPECT_EQ(wrapped("\x1b[1mäöü äöü\x1b[0m × ×", 11), "\x1b[1mäöü äöü\x1b[0m × ×");
  EXPECT_EQ(wrapped("██████ ██", 6), "██████\n   ██");
}

}  // namespace
}  // namespace headroom::cli
