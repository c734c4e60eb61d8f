#include "planner/configuration/version.h"

#include <gtest/gtest.h>

namespace headroom {
namespace {

TEST(Version, DropsWhatFollowsTheNumbers) {
  EXPECT_EQ(parse_version("v0.10.0.dev0"), (Version{0, 10, 0}));
  EXPECT_EQ(parse_version("4.10.post2"), (Version{4, 10, 0}));
  EXPECT_EQ(parse_version("main"), std::nullopt);
}

TEST(Version, LeavesABuildTagOutAndKeepsTheLine) {
  const Document tagged = without_build_tag(Document::scalar("2.11.0+cu130", 7, true));
  EXPECT_EQ(tagged.text(), "2.11.0");
  EXPECT_EQ(tagged.line(), 7);
  EXPECT_EQ(without_build_tag(Document::scalar("0.5.0", 1, true)).text(), "0.5.0");
}

}  // namespace
}  // namespace headroom
