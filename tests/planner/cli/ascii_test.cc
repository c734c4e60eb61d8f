#include "planner/cli/ascii.h"

#include <gtest/gtest.h>

namespace headroom::cli {
namespace {

TEST(Ascii, SpellsSignsAndKeepsNames) {
  EXPECT_EQ(in_ascii("8 × H100 · fits … 3 µs → done"), "8 x H100 - fits ... 3 us -> done");
  EXPECT_EQ(in_ascii("██░ größe/データ.yaml"), "##. größe/データ.yaml");
  EXPECT_EQ(in_ascii("\xe2\x80"), "\xe2\x80");  // half a sign
}

}  // namespace
}  // namespace headroom::cli
