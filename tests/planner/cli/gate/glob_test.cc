#include "planner/cli/gate/glob.h"

#include <gtest/gtest.h>

namespace headroom::cli {
namespace {

TEST(Glob, StarStopsAtSlashes) {
  EXPECT_TRUE(matches("*.yaml", "a.yaml"));
  EXPECT_FALSE(matches("*.yaml", "a/b.yaml"));
  EXPECT_TRUE(matches("a/*/c.yaml", "a/b/c.yaml"));
  EXPECT_FALSE(matches("a/*/c.yaml", "a/b/b/c.yaml"));
  EXPECT_TRUE(matches("a*", "a"));
}

TEST(Glob, TwoStarsDoNot) {
  EXPECT_TRUE(matches("**/*.yaml", "a.yaml"));
  EXPECT_TRUE(matches("**/*.yaml", "a/b/c.yaml"));
  EXPECT_TRUE(matches("configs/**", "configs/a/b.json"));
  EXPECT_TRUE(matches("a/**/b", "a/b"));
  EXPECT_TRUE(matches("a/**/b", "a/x/y/b"));
  EXPECT_FALSE(matches("a/**/b", "a/xb"));
  EXPECT_FALSE(matches("configs/**", "other/a"));
}

TEST(Glob, SetsAndSingleCharacters) {
  EXPECT_TRUE(matches("run[0-9].y?ml", "run7.yaml"));
  EXPECT_FALSE(matches("run[!0-9].yaml", "run7.yaml"));
  EXPECT_TRUE(matches("run[!0-9].yaml", "runx.yaml"));
  EXPECT_FALSE(matches("a?b", "a/b"));
  EXPECT_TRUE(matches("a[b", "a[b"));  // no set is opened
  EXPECT_FALSE(matches("a", "ab"));
}

TEST(Glob, ManyStarsAreCheap) {
  EXPECT_FALSE(matches(std::string(500, '*') + "b", std::string(2000, 'a')));
}

}  // namespace
}  // namespace headroom::cli
