#include "models/base/pattern.h"

#include <gtest/gtest.h>

#include <string>

namespace headroom {
namespace {

struct Case {
  const char *pattern, *text;
  bool as_text, as_path;
};

constexpr Case kCases[] = {
    // Plain characters, and the whole text.
    {"a", "ab", false, false},
    {"a*", "a", true, true},
    {"*", "", true, true},
    {"Qwen3", "Qwen", false, false},
    // Stars and `?` stop at a path's slashes.
    {"*.yaml", "a.yaml", true, true},
    {"*.yaml", "a/b.yaml", true, false},
    {"a/*/c.yaml", "a/b/b/c.yaml", true, false},
    {"a?b", "a/b", true, false},
    {"*-?B", "Qwen3-8B", true, true},
    // Two stars do not, and with their slash may be nothing.
    {"**/*.yaml", "a.yaml", false, true},
    {"**/*.yaml", "a/b/c.yaml", true, true},
    {"configs/**", "configs/a/b.json", true, true},
    {"configs/**", "other/a", false, false},
    {"a/**/b", "a/b", false, true},
    {"a/**/b", "a/x/y/b", true, true},
    {"a/**/b", "a/xb", false, false},
    // Sets.
    {"run[0-9].y?ml", "run7.yaml", true, true},
    {"run[!0-9].yaml", "run7.yaml", false, false},
    {"run[^0-9].yaml", "runx.yaml", true, true},
    {"[]]", "]", true, true},
    {"[!]]", "a", true, true},
    {"a[b", "a[b", true, true},
    {"[a", "[a", true, true},
    {"a[!b]c", "a/c", true, false},
    // Escapes.
    {"a\\*b", "a*b", true, true},
    {"a\\*b", "axb", false, false},
};

TEST(Pattern, MatchesTextsAndPaths) {
  for (const Case& c : kCases) {
    EXPECT_EQ(matches(c.pattern, c.text, PatternOf::text), c.as_text) << c.pattern << " ~ " << c.text;
    EXPECT_EQ(matches(c.pattern, c.text, PatternOf::path), c.as_path) << c.pattern << " ~ " << c.text;
  }
}

TEST(Pattern, EndsWithHostilePatterns) {
  std::string stars;
  for (int i = 0; i < 200; ++i) stars += "*a";
  for (const PatternOf of : {PatternOf::text, PatternOf::path}) {
    EXPECT_FALSE(matches(stars + "b", std::string(2000, 'a'), of));
    EXPECT_FALSE(matches(std::string(500, '*') + "b", std::string(2000, 'a'), of));
  }
}

}  // namespace
}  // namespace headroom
