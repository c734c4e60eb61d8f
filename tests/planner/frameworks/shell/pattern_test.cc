#include "planner/frameworks/shell/pattern.h"

#include <gtest/gtest.h>

#include <string>

namespace headroom::shell {
namespace {

TEST(ShellPattern, MatchesAsCaseDoes) {
  EXPECT_TRUE(matches_pattern("Qwen3-8B", "Qwen3*"));
  EXPECT_TRUE(matches_pattern("Qwen3-8B", "*-?B"));
  EXPECT_TRUE(matches_pattern("Qwen3-8B", "Qwen[23]-*"));
  EXPECT_TRUE(matches_pattern("", "*"));
  EXPECT_TRUE(matches_pattern("a*b", "a\\*b"));
  EXPECT_TRUE(matches_pattern("]", "[]]"));
  EXPECT_FALSE(matches_pattern("axb", "a\\*b"));
  EXPECT_FALSE(matches_pattern("Qwen3-8B", "Qwen[!3]*"));
  EXPECT_FALSE(matches_pattern("Qwen3", "Qwen"));
  EXPECT_TRUE(matches_pattern("[a", "[a"));
}

TEST(ShellPattern, EndsWithHostilePatterns) {
  std::string stars;
  for (int i = 0; i < 200; ++i) stars += "*a";
  EXPECT_FALSE(matches_pattern(std::string(2000, 'a'), stars + "b"));
}

}  // namespace
}  // namespace headroom::shell
