#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "planner/study/study.h"
#include "tests/support/data.h"

namespace headroom::study {
namespace {

using ::testing::HasSubstr;

class ReadStudy : public ::testing::Test {
 protected:
  std::filesystem::path folder =
      test::scratch() / (std::string("study_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());

  void SetUp() override {
    std::filesystem::create_directories(folder);
    std::filesystem::copy_file(test::data("deepspeed/opt13-z0.json"), folder / "opt.json");
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  Result<Study> read(const std::string& text) {
    const std::filesystem::path path = folder / "study.yaml";
    std::ofstream(path) << text;
    return read_study(path);
  }

  void refused(const std::string& text, int line, const std::string& key, const std::string& says) {
    SCOPED_TRACE(text);
    const auto made = read(text);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().file, (folder / "study.yaml").string());
    EXPECT_EQ(made.error().line, line);
    EXPECT_EQ(made.error().key, key);
    EXPECT_THAT(made.error().message, HasSubstr(says));
  }
};

TEST_F(ReadStudy, ReadsEveryKey) {
  const auto made = read(R"(headroom: study/1
name: everything
steps: 2
gpu: h200
empty_cache: [own, never, micro_batches]
strategies:
  - {name: none}
  - name: both
    set: {deepspeed-chat: {zero_stage: 2, offload: true}, verl: ["a.b=[1, 2]"]}
    change: {allocator: "expandable_segments:True", lora: 8}
jobs:
  - {name: one, file: opt.json}
  - name: two
    file: opt.json
    framework: deepspeed-chat
    gpu: h100
    model: facebook/opt-1.3b
    nodes: 2
    gpus_per_node: 4
    words: [a, b]
    environment: {X: y}
    set: {world: 8}
    strategies: [both]
    empty_cache: phases
)");
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_EQ(made->name, "everything");
  EXPECT_EQ(made->steps, 2);
  EXPECT_EQ(made->strategies[1].set.at("deepspeed-chat"), (std::vector<std::string>{"zero_stage=2", "offload=true"}));
  EXPECT_EQ(made->strategies[1].set.at("verl"), std::vector<std::string>{"a.b=[1, 2]"});
  ASSERT_EQ(made->strategies[1].changes.size(), 2u);
  const StudyJob& two = made->jobs[1];
  EXPECT_EQ(two.file, (folder / "opt.json").string());
  EXPECT_EQ(two.options.framework, "deepspeed-chat");
  EXPECT_EQ(made->jobs[0].options.gpu, "h200");
  EXPECT_EQ(two.options.gpu, "h100");
  EXPECT_EQ(two.options.overrides, std::vector<std::string>{"world=8"});
  EXPECT_EQ(*two.options.nodes, 2);
  EXPECT_EQ(two.options.words.size(), 2u);
  EXPECT_EQ(two.options.environment.at("X"), "y");
  EXPECT_EQ(places(*made).size(), 2 * 3 + 1u);
}

TEST_F(ReadStudy, HasDefaults) {
  const auto made = read("headroom: study/1\njobs: [{name: one, file: opt.json}]\n");
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_EQ(made->name, "study");
  ASSERT_EQ(places(*made).size(), 2u);
  EXPECT_EQ(places(*made)[1].empty_cache, Emptying::phases);
}

TEST_F(ReadStudy, RefusesWithThePlace) {
  const std::string head = "headroom: study/1\n", jobs = "jobs: [{name: one, file: opt.json}]\n";
  refused("", 0, "", "");
  refused("headroom: job/1\n" + jobs, 1, "headroom", "study/1");
  refused(head + "job: 3\n" + jobs, 2, "job", "nearest is jobs");
  refused(head + "steps: 0\n" + jobs, 2, "steps", "from 1 to 100");
  refused(head + "gpu: h1000\n" + jobs, 2, "gpu", "");
  refused(head + "empty_cache: [nevr]\n" + jobs, 2, "empty_cache", "did you mean 'never'");
  refused(head + "empty_cache: [never, never]\n" + jobs, 2, "empty_cache", "twice");
  refused(head, 1, "jobs", "a list of jobs");
  refused(head + "jobs:\n  - {name: one, file: none.yaml}\n", 3, "jobs.file", "there is no");
  refused(head + "jobs:\n  - {name: one}\n", 3, "jobs.file", "a configuration's file");
  refused(head + "jobs:\n  - {file: opt.json}\n", 3, "jobs.name", "expected a name");
  refused(head + "jobs:\n  - {name: a, file: opt.json}\n  - {name: a, file: opt.json}\n", 4, "jobs.name", "taken");
  refused(head + "jobs:\n  - {name: a, file: opt.json, fil: x}\n", 3, "jobs.fil", "nearest is file");
  refused(head + "jobs:\n  - {name: a, file: opt.json, framework: verlx}\n", 3, "jobs.framework", "did you mean 'verl'");
  refused(head + "jobs:\n  - {name: a, file: opt.json, set: [zero_stage]}\n", 3, "jobs.set", "KEY=VALUE");
  refused(head + "strategies:\n  - {name: a, change: {lorra: 3}}\n" + jobs, 3, "strategies.change.lorra", "nearest is lora");
  refused(head + "strategies:\n  - {name: a, change: {zero: 5}}\n" + jobs, 3, "strategies.change.zero", "0 to 3");
  refused(head + "strategies:\n  - {name: a, set: {deepspeed: {x: 1}}}\n" + jobs, 3, "strategies.set", "a framework");
  refused(head + "strategies:\n  - {name: a}\n" + "jobs:\n  - {name: one, file: opt.json, strategies: [b]}\n", 5,
          "jobs.strategies", "no strategy is named 'b'");
}

}  // namespace
}  // namespace headroom::study
