#include "planner/writers/columns.h"

#include <gtest/gtest.h>

namespace headroom::writers {
namespace {

using Align = Columns::Align;

TEST(Columns, EmptyIsEmpty) {
  EXPECT_EQ(Columns({Align::left}).text(), "");
}

TEST(Columns, AlignsByCharactersNotBytes) {
  Columns columns({Align::left, Align::right, Align::left});
  columns.add({"é█", "1", "x"});
  columns.add({"abc", "1000", ""});
  columns.add({"a"});
  EXPECT_EQ(columns.text("> "),
            "> é█      1  x\n"
            "> abc  1000\n"
            "> a\n");
}

TEST(Columns, ColourTakesNoRoom) {
  EXPECT_EQ(shown_width("\x1b[31mred\x1b[0m"), 3u);
  EXPECT_EQ(shown_width("\x1b"), 0u);
}

TEST(Bar, FillsAndClamps) {
  EXPECT_EQ(bar(0, 4), "░░░░");
  EXPECT_EQ(bar(0.5, 4), "██░░");
  EXPECT_EQ(bar(7, 4), "████");
  EXPECT_EQ(bar(-1, 4), "░░░░");
}

}  // namespace
}  // namespace headroom::writers
