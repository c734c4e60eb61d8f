#include "planner/cli/study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"
#include "tests/support/json_schema.h"

namespace headroom::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

class StudyCommand : public ::testing::Test {
 protected:
  std::filesystem::path folder =
      test::scratch() / (std::string("study_cli_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());

  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string write(const std::string& strategies = "") const {
    std::ofstream(folder / "study.yaml") << "headroom: study/1\nname: small\nsteps: 2\nstrategies:\n  - {name: none}\n"
                                         << strategies << "jobs:\n  - {name: opt, file: "
                                         << test::data("deepspeed/opt13-z2.json").string() << "}\n";
    return folder / "study.yaml";
  }
  std::string text_of(const std::string& name) const {
    std::ifstream file(folder / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

TEST_F(StudyCommand, PrintsATable) {
  const Outcome outcome = run_words({"study", write()});
  EXPECT_EQ(outcome.code, kDone) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  // 28.61 GiB is what the recorded run reserves at most.
  EXPECT_THAT(outcome.out, StartsWith("small\n2 cells: 2 done; GiB\n\nopt · deepspeed-chat · 2 × NVIDIA H200\n"));
  EXPECT_THAT(outcome.out, HasSubstr("  none      never       28.61      20.50       8.11  2.42    20.50  train_actor 1"));
  EXPECT_THAT(outcome.out, HasSubstr("  none      phases      26.82      20.50       6.31  0.78    20.50  train_actor 1"));
}

TEST_F(StudyCommand, WritesEveryForm) {
  const auto at = [&](const char* name) { return (folder / name).string(); };
  const Outcome outcome = run_words({"study", write("  - {name: \"a|b, <c>\", change: {recompute: full}}\n"), "--quiet", "--json", at("a.json"),
                                     "--csv", at("a.csv"), "--markdown", at("a.md"), "--html", at("a.html")});
  EXPECT_EQ(outcome.code, kDone) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  const Json value = Json::parse(text_of("a.json"));
  EXPECT_EQ(test::schema_violation(Json::parse(run_words({"schema", "study"}).out), value), "");
  ASSERT_EQ(value["cells"].size(), 4u);
  for (const Json& cell : value["cells"]) {
    Bytes parts = 0;
    for (const Json& part : cell["parts"]) parts += part["bytes"].get<Bytes>();
    EXPECT_EQ(parts, cell["fragmentation"].get<Bytes>());
    EXPECT_EQ(cell["peak_reserved"]["bytes"].get<Bytes>() - parts, cell["without_fragmentation"].get<Bytes>());
    EXPECT_EQ(cell["phases"].size(), 9u);
  }
  EXPECT_GT(value["cells"][1]["saved"].get<double>(), 0.05);
  EXPECT_GT(value["cells"][1]["seconds_lost"].get<double>(), 0);
  EXPECT_THAT(text_of("a.csv"), HasSubstr("\nopt,deepspeed-chat,\"a|b, <c>\",never,done,NVIDIA H200,2,"));
  EXPECT_THAT(text_of("a.md"), AllOf(HasSubstr("## small\n"), HasSubstr("| a\\|b, \\<c\\> | never |")));
  const std::string page = text_of("a.html");
  EXPECT_THAT(page, Not(HasSubstr("a|b, <c>")));
  EXPECT_THAT(page, Not(HasSubstr("@DATA@")));
  EXPECT_LT(page.size(), 200'000u);
}

TEST_F(StudyCommand, TellsACellThatFailsInItsPlace) {
  const Outcome outcome = run_words({"study", write("  - {name: EMS, change: {ems: true}}\n"), "--json", (folder / "a.json").string()});
  EXPECT_EQ(outcome.code, kBadInput);
  EXPECT_THAT(outcome.err, StartsWith("headroom: opt · EMS · never: "));
  EXPECT_THAT(outcome.err, HasSubstr("study.yaml:6: EMS"));
  EXPECT_THAT(outcome.out, HasSubstr("4 cells: 2 done, 2 failed"));
  EXPECT_EQ(Json::parse(text_of("a.json"))["cells"][3]["status"], "failed");
}

TEST_F(StudyCommand, GoesOnWhereItWas) {
  const std::string cells = folder / "cells.jsonl";
  const Outcome first = run_words({"study", write(), "--resume", cells});
  const auto size = std::filesystem::file_size(cells);
  const Outcome second = run_words({"study", write(), "--resume", cells, "--threads", "1"});
  EXPECT_EQ(first.out, second.out);
  EXPECT_EQ(std::filesystem::file_size(cells), size);
  run_words({"study", write("  - {name: more, change: {recompute: full}}\n"), "--resume", cells, "--quiet"});
  EXPECT_GT(std::filesystem::file_size(cells), size);
}

TEST_F(StudyCommand, RefusesWhatIsNoStudy) {
  const std::string run = test::data("deepspeed/opt13-z2.json");
  const Outcome outcome = run_words({"study", run});
  EXPECT_EQ(outcome.code, kBadInput);
  EXPECT_THAT(outcome.err, StartsWith("headroom: " + run));
  EXPECT_EQ(run_words({"study", (folder / "none.yaml").string()}).code, kBadInput);
  EXPECT_EQ(run_words({"study", write(), "--threads", "0"}).code, kBadInput);
  EXPECT_EQ(run_words({"study", write(), "--resume", folder.string()}).code, kBadInput);
}

}  // namespace
}  // namespace headroom::cli
