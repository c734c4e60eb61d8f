#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "tests/support/data.h"

/// The simulator knows no framework: what a framework's trainer does stands in planner/frameworks. Comments
/// may cite one as a source.

namespace headroom {
namespace {

/// The line without its comment.
std::string code_of(const std::string& line) {
  return line.substr(0, line.find("//"));
}

bool names_framework(const std::string& code) {
  static const std::regex names(
      R"((^|[^a-z])(verl|trl|nemo|openrlhf|chatlearn|colossal|colossalchat|deepspeed_?-?chat)([^a-z]|$))",
      std::regex::icase);
  return std::regex_search(code, names);
}

TEST(Simulator, NamesNoFramework) {
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(test::source("simulator"))) {
    const std::string name = entry.path().extension().string();
    if (name != ".h" && name != ".cc") continue;
    ++files;
    std::ifstream in(entry.path());
    int number = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      EXPECT_FALSE(names_framework(code_of(line))) << entry.path().string() << ":" << number << ": " << line;
    }
  }
  EXPECT_GT(files, 100);
}

TEST(Simulator, ANameIsFoundWhereverItStands) {
  for (const char* line : {"role.loop = &trl::kGrpoLoop;", "x(\"verl::entropy\")", "Kind::deepspeed_chat,"})
    EXPECT_TRUE(names_framework(line)) << line;
  for (const char* line : {"control", "overlap", "deepspeed::flat", "interlude"})
    EXPECT_FALSE(names_framework(line)) << line;
}

}  // namespace
}  // namespace headroom
