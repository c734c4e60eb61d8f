#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/data.h"

/// What the pages name in the tree is there: paths, and in ARCHITECTURE.md also types and functions.

namespace headroom {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ostringstream out;
  out << std::ifstream(file).rdbuf();
  return out.str();
}

/// Every page, by its path from the root.
std::vector<std::string> pages() {
  std::vector<std::string> out;
  for (const char* page : {"ARCHITECTURE.md", "README.md", "CHANGELOG.md"}) out.emplace_back(page);
  for (const char* folder : {"docs", "configs", "tests"})
    for (const auto& entry : fs::recursive_directory_iterator(test::source(folder)))
      if (entry.path().extension() == ".md") out.push_back(fs::relative(entry.path(), test::source("")).string());
  return out;
}

std::string without_fences(const std::string& page) {
  std::string out;
  std::istringstream lines(page);
  bool fenced = false;
  for (std::string line; std::getline(lines, line);) {
    const bool fence = line.starts_with("```");
    if (fence) fenced = !fenced;
    if (!fence && !fenced) out += line + '\n';
  }
  return out;
}

/// The first group of every match.
std::vector<std::string> found(const std::string& text, const std::string& expression) {
  const std::regex regex(expression);
  std::vector<std::string> out;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at) out.push_back((*at)[1]);
  return out;
}

/// Whether the tree has it; NAME stands for a framework.
bool exists(const std::string& path) {
  const std::size_t name = path.find("NAME");
  return fs::exists(test::source(name == std::string::npos ? path : std::string(path).replace(name, 4, "verl")));
}

TEST(Pages, NamePathsThatExist) {
  for (const std::string& page : pages()) {
    const std::string text = without_fences(text_of(test::source(page)));
    for (const std::string& path : found(text, "`((?:models|simulator|validator|planner|tests|configs|docs)/[^`\\s*]*)`"))
      EXPECT_TRUE(exists(path)) << page << " names " << path;
  }
}

/// Every word of the code.
std::set<std::string> words() {
  std::set<std::string> out;
  for (const char* floor : {"models", "simulator", "validator", "planner"})
    for (const auto& entry : fs::recursive_directory_iterator(test::source(floor))) {
      if (entry.path().extension() != ".h" && entry.path().extension() != ".cc") continue;
      std::string word;
      for (const char c : text_of(entry.path()) + ' ') {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
          word += c;
        } else if (!word.empty()) {
          out.insert(std::exchange(word, {}));
        }
      }
    }
  return out;
}

TEST(Pages, TheMapSaysWhatIsTrue) {
  const std::set<std::string> known = words();
  const std::string text = without_fences(text_of(test::source("ARCHITECTURE.md")));
  for (const std::string& name : found(text, "`([^`\\n]+)`")) {
    if (name.starts_with("headroom ")) continue;  // a command
    bool is = exists(name);
    for (const char* floor : {"models/", "simulator/", "simulator/job/", "simulator/trainer/", "planner/",
                              "planner/search/", "planner/frameworks/settings/", "simulator/closed_form/",
                              "planner/frameworks/", "tests/"})
      is = is || exists(floor + name);
    const std::size_t scope = name.rfind(':');
    if (!is && name.find('/') == std::string::npos && name.find('.') == std::string::npos)
      is = known.contains(scope == std::string::npos ? name : name.substr(scope + 1));
    EXPECT_TRUE(is) << "ARCHITECTURE.md names " << name;
  }
}

}  // namespace
}  // namespace headroom
