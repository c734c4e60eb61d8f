#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>

#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"

namespace headroom::cli {
namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string without_end(std::string text) {
  text.erase(text.find_last_not_of(" \n") + 1);
  return text;
}

/// The last `count` lines, or with `from` those from line `count` on: `tail -COUNT`, `tail -n +COUNT`.
std::string tail(const std::string& text, std::size_t count, bool from) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  const std::size_t first = from ? count - 1 : lines.size() - std::min(count, lines.size());
  std::string out;
  for (std::size_t i = first; i < lines.size(); ++i) out += lines[i] + '\n';
  return out;
}

/// What a document's command prints: `./headroom WORDS`, of whose output `| tail …` may take a part.
std::string output_of(const std::string& command) {
  std::smatch match;
  const std::regex form(R"(\./headroom (.*?)(?: \| tail (-n \+|-)(\d+))?)");
  if (!std::regex_match(command, match, form)) return "not a command that is understood here: " + command;
  std::istringstream in(match[1].str());
  const std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
  const std::string out = run_words(words).out;
  return match[3].matched ? tail(out, std::stoul(match[3]), match[2] == "-n +") : out;
}

/// A fenced block that a comment `<!-- KIND: SUBJECT -->` stands before.
struct Block {
  std::string subject, text;
};

std::vector<Block> blocks(const std::string& text, const std::string& kind) {
  std::vector<Block> out;
  const std::string open = "<!-- " + kind + ": ", close = " -->\n```", fence = "\n```";
  for (std::size_t at = text.find(open); at != std::string::npos; at = text.find(open, at)) {
    at += open.size();
    const std::size_t subject = text.find(close, at), begin = text.find('\n', subject + close.size()) + 1;
    const std::size_t end = text.find(fence, begin - 1);
    out.push_back({text.substr(at, subject - at), text.substr(begin, end < begin ? 0 : end - begin)});
    at = end;
  }
  return out;
}

/// Documents of the source tree whose outputs docs/regenerate_readme.sh writes.
std::vector<std::string> documents() {
  std::vector<std::string> out{"README.md"};
  for (const auto& entry : std::filesystem::directory_iterator(test::source("docs/guide")))
    if (entry.path().extension() == ".md") out.push_back("docs/guide/" + entry.path().filename().string());
  return out;
}

class Documents : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { std::filesystem::current_path(test::source("")); }
  void TearDown() override { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_ = std::filesystem::current_path();
};

TEST_P(Documents, ShowWhatTheirCommandsPrint) {
  for (const Block& block : blocks(text_of(GetParam()), "output"))
    EXPECT_EQ(without_end(block.text), without_end(output_of(block.subject)))
        << GetParam() << ": " << block.subject << "\ndocs/regenerate_readme.sh writes it anew";
}

TEST_P(Documents, ShowTheirFilesAsTheyAre) {
  for (const Block& block : blocks(text_of(GetParam()), "file"))
    EXPECT_EQ(without_end(block.text), without_end(text_of(block.subject))) << GetParam() << ": " << block.subject;
}

TEST_P(Documents, LinkToFilesThatExist) {
  const std::string text = text_of(GetParam());
  const auto folder = std::filesystem::path(GetParam()).parent_path();
  const std::regex link(R"(\]\(([^)#:]+)\))");
  for (auto at = std::sregex_iterator(text.begin(), text.end(), link); at != std::sregex_iterator(); ++at)
    EXPECT_TRUE(std::filesystem::exists(folder / (*at)[1].str())) << GetParam() << ": " << (*at)[1];
}

INSTANTIATE_TEST_SUITE_P(Docs, Documents, ::testing::ValuesIn(documents()));

}  // namespace
}  // namespace headroom::cli
