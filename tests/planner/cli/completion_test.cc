#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>

#include "planner/cli/run.h"
#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"

namespace headroom::cli {
namespace {

using ::testing::HasSubstr;

TEST(Completion, KnowsEveryCommandAndFlag) {
  for (const char* shell : {"bash", "zsh", "fish", "man"}) {
    const Outcome outcome = run_words({"completion", shell});
    EXPECT_EQ(outcome.code, kDone);
    for (const Command& command : commands()) EXPECT_THAT(outcome.out, HasSubstr(command.name)) << shell;
    EXPECT_TRUE(std::regex_search(outcome.out, std::regex("max.{1,2}growth"))) << shell;
  }
  EXPECT_EQ(run_words({"completion", "csh"}).code, kBadInput);
}

TEST(Help, IsAskedForInEitherOrder) {
  EXPECT_EQ(run_words({"help", "check"}).out, run_words({"check", "--help"}).out);
  EXPECT_EQ(run_words({"help", "chekc"}).code, kBadInput);
  const std::string all = run_words({"help"}).out;
  for (const Command& command : commands()) EXPECT_THAT(all, HasSubstr("\n  " + command.name + " "));
}

TEST(Version, IsTheProjects) {
  std::ifstream file(test::source("CMakeLists.txt"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(text, HasSubstr(std::string("project(headroom VERSION ") + kVersion + " "));
}

}  // namespace
}  // namespace headroom::cli
