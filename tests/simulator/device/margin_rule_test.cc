#include "tests/support/margin_rule.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/support/data.h"

namespace headroom::test {
namespace {

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(source(path)).rdbuf();
  return text.str();
}

/// A row as docs/ACCURACY.md has it.
std::string row(const std::string& phase, const std::string& predicted, const std::string& measured) {
  return "| 0 | " + phase + " | 1 | 1 | 0 | " + predicted + " | " + measured + " | 0 | 0 |\n";
}

TEST(MarginRule, GivesTheCommittedFile) {
  const auto margins = margins_yaml(text_of("docs/ACCURACY.md"));
  ASSERT_TRUE(margins) << margins.error().text();
  EXPECT_EQ(*margins, text_of("configs/margins.yaml")) << "docs/regenerate_margins.sh writes it";
}

TEST(MarginRule, TakesTwiceTheWorstThatWasTooLow) {
  const std::string harmless = row("init_actor", "1", "1000") + row("generate", "2000", "1000");
  const auto floor = margins_yaml(harmless);
  ASSERT_TRUE(floor);
  EXPECT_NE(
      floor->find("default: {fraction: 0.025, bytes: 256MiB}\nengine: {fraction: 0.035, bytes: 768MiB}"),
      std::string::npos)
      << *floor;
  const auto grown = margins_yaml(harmless + row("train_actor", "14800000000", "15000000000"));
  ASSERT_TRUE(grown);
  EXPECT_NE(grown->find("default: {fraction: 0.03, bytes: 512MiB}\nengine: {fraction: 0.04, bytes: 1024MiB}"),
            std::string::npos)
      << *grown;
  EXPECT_FALSE(margins_yaml(harmless + row("train_actor", "900", "1000")));
  EXPECT_FALSE(margins_yaml("no table"));
}

}  // namespace
}  // namespace headroom::test
