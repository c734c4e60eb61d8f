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

TEST(Columns, NamesDoNotReachTheTerminalAsTheyAre) {
  Columns columns({Align::left, Align::left});
  columns.add({"\x1b[31mfits", "a\nb\xff\u202e"});
  EXPECT_EQ(columns.text(), "\\x1b[31mfits  a\\nb\\xff\\u202e\n");
  Columns own({Align::left});
  own.add_coloured({"\x1b[31mred\x1b[0m"});
  EXPECT_EQ(own.text(), "\x1b[31mred\x1b[0m\n");
}

TEST(Columns, LeaveOutWhatMattersLeast) {
  const auto made = [](int width) {
    Columns columns({Align::left, Align::right, Align::right, Align::left});
    columns.add({"phase", "least", "next", ""});
    columns.add({"train", "1", "2", "too much"});
    static constexpr std::string_view kOrder[] = {"least", "absent", "next"};
    columns.fit(width, "  ", kOrder);
    return columns.text("  ");
  };
  EXPECT_EQ(made(0), "  phase  least  next\n  train      1     2  too much\n");
  EXPECT_EQ(made(30), made(0));
  EXPECT_EQ(made(29), "  phase  next\n  train     2  too much\n");
  EXPECT_EQ(made(22), "  phase\n  train  too much\n");
  EXPECT_EQ(made(1), made(22));
}

TEST(Wrapped, BreaksBetweenWordsBehindTheMark) {
  EXPECT_EQ(wrapped("! one two three\n  - four five\n", 9), "! one two\n  three\n  - four\n    five\n");
  EXPECT_EQ(wrapped("overlongword x", 4), "overlongword\nx");
  EXPECT_EQ(wrapped("one two", 0), "one two");
  EXPECT_EQ(wrapped("", 9), "");
}

TEST(Bar, FillsAndClamps) {
  EXPECT_EQ(bar(0, 4), "░░░░");
  EXPECT_EQ(bar(0.5, 4), "██░░");
  EXPECT_EQ(bar(7, 4), "████");
  EXPECT_EQ(bar(-1, 4), "░░░░");
}

}  // namespace
}  // namespace headroom::writers
