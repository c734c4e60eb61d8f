#include "planner/cli/output_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"

namespace headroom::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class OutputNames : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = test::scratch() / "output-names";
    fs::create_directories(folder_);
    std::ofstream(config()) << kCase;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string config() const { return (folder_ / "case.yaml").string(); }
  std::string file(const char* name) const { return (folder_ / name).string(); }
  std::string text(const std::string& path) const {
    std::ostringstream out;
    out << std::ifstream(path).rdbuf();
    return out.str();
  }

  static constexpr const char* kCase =
      "actor: {model_type: llama, vocab_size: 512, hidden_size: 64, intermediate_size: 128,\n"
      "        num_hidden_layers: 2, num_attention_heads: 4}\n"
      "batch: 2\nprompt: 8\nresponse: 4\ndevice: NVIDIA H100 80GB HBM3\n";

 private:
  fs::path folder_;
};

TEST_F(OutputNames, AnInputIsNeverOverwritten) {
  for (const char* flag : {"--events", "--pickle", "--json", "--csv", "--markdown"}) {
    const Outcome outcome = run_words({"simulate", config(), flag, config()});
    EXPECT_EQ(outcome.code, kBadInput) << flag;
    EXPECT_THAT(outcome.err, HasSubstr(std::string(flag) + ": expected another file than CONFIG"));
    EXPECT_EQ(text(config()), kCase) << flag;
  }
}

TEST_F(OutputNames, AnInputUnderAnotherNameIsFound) {
  fs::create_symlink(config(), file("link.yaml"));
  EXPECT_EQ(run_words({"simulate", config(), "--json", file("link.yaml")}).code, kBadInput);
  EXPECT_EQ(run_words({"plan", file("./link.yaml"), "--yaml", config()}).code, kBadInput);
  EXPECT_EQ(text(config()), kCase);
}

TEST_F(OutputNames, OutputsHaveFilesOfTheirOwn) {
  const Outcome outcome =
      run_words({"simulate", config(), "--events", file("out"), "--json",
                 file("../") + "/" + fs::path(file("")).parent_path().filename().string() + "/out"});
  EXPECT_EQ(outcome.code, kBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("--json: expected a file of its own, found that of --events"));
  EXPECT_FALSE(fs::exists(file("out")));
}

TEST_F(OutputNames, OneOutputTakesStandardOutput) {
  const Outcome outcome = run_words({"simulate", config(), "--events", "-", "--json", "-"});
  EXPECT_EQ(outcome.code, kBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("expected one output on standard output, found two"));
  EXPECT_EQ(outcome.out, "");
}

TEST_F(OutputNames, ANameIsNotEmpty) {
  const Outcome outcome = run_words({"simulate", config(), "--pickle", ""});
  EXPECT_EQ(outcome.code, kBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("--pickle: expected a file name or '-', found nothing"));
}

TEST_F(OutputNames, WhatIsNoRegularFileMayBeShared) {
  EXPECT_EQ(run_words({"simulate", config(), "--quiet", "--events", "/dev/null", "--json", "/dev/null"}).code,
            kDone);
}

}  // namespace
}  // namespace headroom::cli
