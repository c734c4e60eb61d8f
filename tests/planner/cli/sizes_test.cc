#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "models/document/document.h"
#include "planner/cli/prediction.h"
#include "tests/planner/cli/outcome.h"
#include "tests/planner/frameworks/examples.h"
#include "tests/support/data.h"

namespace headroom::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

const std::string kVerl = test::source("configs/examples/verl/qwen2.5-0.5b-grpo-1x4090.yaml");

Result<Run> loaded(const std::string& path) {
  std::istringstream in;
  std::ostringstream out, err;
  Streams streams{in, out, err};
  Common common;
  common.gpu = "h100";
  return load_run(path, common, streams);
}

std::vector<std::string> all_examples() {
  std::vector<std::string> out;
  for (const Framework& framework : frameworks()) {
    if (framework.name == "torch" || framework.name == "openrlhf") continue;  // they have none there
    for (std::string& path : test::examples(std::string(framework.name))) out.push_back(std::move(path));
  }
  for (const char* name : {"qwen2.5-7b-grpo-8xh100.sh", "qwen2.5-1.5b-sft-2xa100.sh"})
    out.push_back(test::source(std::string("tests/data/openrlhf/") + name));
  return out;
}

/// A run that is read again with a number as it is stays as it is; with another it becomes another.
TEST(Sizes, EveryFrameworksNumbersAreSetByTheirKeys) {
  for (const std::string& path : all_examples()) {
    const Result<cli::Run> run = loaded(path);
    ASSERT_TRUE(run) << path << ": " << run.error().text();
    const std::vector<std::string> names = size_names(run->read, run->framework->sizes);
    EXPECT_THAT(names, Contains("batch")) << path;
    EXPECT_THAT(names, Contains(::testing::EndsWith("_length"))) << path;
    for (const std::string& name : names) {
      const std::optional<Size> size = find_size(run->read, run->framework->sizes, name);
      ASSERT_TRUE(size.has_value()) << path << name;
      if (size->current == "null" || size->current.empty()) continue;
      const Result<ReadJob> same = with_size(*run, *size, size->current);
      ASSERT_TRUE(same) << path << ": " << name << ": " << same.error().text();
      EXPECT_EQ(same->job.batch.prompts, run->read.job.batch.prompts) << path << name;
      EXPECT_EQ(same->job.batch.response_length, run->read.job.batch.response_length) << path << name;
      EXPECT_EQ(same->job.pools.front().gpus(), run->read.job.pools.front().gpus()) << path << name;
    }
  }
}

TEST(Sizes, AJobThatIsReadWithAnotherLengthHasIt) {
  for (const std::string& path : all_examples()) {
    const Result<cli::Run> run = loaded(path);
    ASSERT_TRUE(run);
    for (const char* name : {"response_length", "sequence_length"}) {
      const std::optional<Size> size = find_size(run->read, run->framework->sizes, name);
      if (!size) continue;
      const Result<ReadJob> other = with_size(*run, *size, std::to_string(std::stoll(size->current) - 64));
      if (!other) continue;  // refused: it holds less than a prompt
      EXPECT_LE(other->job.batch.sequence_length(), run->read.job.batch.sequence_length()) << path << name;
      break;
    }
  }
}

TEST(Sizes, AreSolvedForByNameAndByKey) {
  for (const char* name : {"response_length", "data.max_response_length", "max_response_length"}) {
    const Outcome outcome = run_words({"solve", name, kVerl, "--steps", "1", "--json", "-"});
    ASSERT_EQ(outcome.code, kDone) << name << outcome.err;
    const Document json = parse_document(outcome.out, "solve").value();
    const Document& solved = *json.find("solved");
    EXPECT_GT(std::stoll(solved.find("value")->text()), 1) << name;
    ASSERT_NE(solved.find("beyond"), nullptr) << name;
    EXPECT_EQ(std::stoll(solved.find_path("beyond.value")->text()), std::stoll(solved.find("value")->text()) + 1);
  }
  EXPECT_THAT(run_words({"solve", "gpus", test::source("configs/examples/verl/qwen2.5-7b-grpo-8xh100.yaml"), "--steps",
                         "1"})
                  .out,
              AllOf(HasSubstr("gpus = "), HasSubstr(" does not fit")));
}

TEST(Sizes, WithNoFitItSaysWhatBlocks) {
  const Outcome outcome =
      run_words({"solve", "response_length", kVerl, "--steps", "1", "--budget", "2GiB", "--json", "-"});
  EXPECT_EQ(outcome.code, kOver);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("response_length: no value of it fits"), HasSubstr("that phase blocks")));
  EXPECT_THAT(outcome.out, HasSubstr("\"value\": null"));
}

/// The seconds are those of the usual sequences, in every command; memory is that of the longest.
TEST(Sizes, LengthsCountInAllThatSearches) {
  const auto seconds = [](std::vector<std::string> words, const char* lengths) {
    words.insert(words.end(), {"--steps", "1", "--json", "-"});
    if (lengths != nullptr) words.insert(words.end(), {"--lengths", lengths});
    const Document json = parse_document(run_words(words).out, "report").value();
    double sum = 0;
    for (const Document& phase : json.find("devices")->items()[0].find("phases")->items())
      sum += phase.find("seconds")->as_double().value();
    return sum;
  };
  constexpr const char* kShort = "prompt=100,response=100,max=200";
  const double usual = seconds({"simulate", kVerl}, kShort);
  EXPECT_LT(usual, 0.7 * seconds({"simulate", kVerl}, nullptr));
  EXPECT_DOUBLE_EQ(seconds({"plan", kVerl, "--vary", "gpu_memory_utilization=0.6"}, kShort),
                   seconds({"simulate", kVerl, "--set", "actor_rollout_ref.rollout.gpu_memory_utilization=0.6"}, kShort));
  EXPECT_DOUBLE_EQ(seconds({"explain", kVerl}, kShort), usual);
  EXPECT_LT(seconds({"solve", "gpu_memory_utilization", kVerl}, kShort),
            0.7 * seconds({"solve", "gpu_memory_utilization", kVerl}, nullptr));
}

}  // namespace
}  // namespace headroom::cli
