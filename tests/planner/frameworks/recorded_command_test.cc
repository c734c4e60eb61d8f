#include "planner/frameworks/recorded_command.h"

#include <gtest/gtest.h>

#include <array>

#include "planner/frameworks/registry.h"
#include "planner/frameworks/shell/launch.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

constexpr std::array kPrograms = {ProgramName{"step1", "training/step1/main.py"}};

JobInput input_of(const char* text) {
  JobInput input;
  input.files.push_back(
      {.path = "run.json", .document = parse_document(text, "run.json").value(), .text = text, .launch = {}});
  return input;
}

constexpr const char* kRecording = R"({"case": {"program": "step1", "words": ["--zero_stage", "2"],
  "model": {"model_type": "opt"}}, "ranks": 2, "device": "NVIDIA H200", "torch": "2.11.0+cu130", "deepspeed": "0.19.5",
  "phases": []})";

TEST(RecordedCommand, BecomesItsLaunch) {
  const JobInput input = input_of(kRecording);
  ASSERT_TRUE(has_recorded_command(input, kPrograms));
  const RecordedCommand run = recorded_command(input, {}, kPrograms);
  const shell::Launch& launch = *run.input.files.front().launch;
  EXPECT_EQ(launch.program, "training/step1/main.py");
  ASSERT_EQ(launch.words.size(), 2u);
  EXPECT_EQ(launch.words[1].text, "2");
  EXPECT_EQ(launch.runner_option({"--num_gpus"})->text, "2");
  EXPECT_EQ(launch.runner_option({"--nproc_per_node"})->text, "2");
  EXPECT_EQ(run.options.stated_model("MODEL").find("model_type")->text(), "opt");
  EXPECT_TRUE(run.options.stated_model("CRITIC").is_null());
}

/// What the user states goes before what was recorded.
TEST(RecordedCommand, FillsInCardAndReleases) {
  const RecordedCommand run = recorded_command(input_of(kRecording), {}, kPrograms);
  EXPECT_EQ(run.options.gpu, "NVIDIA H200");
  EXPECT_EQ(run.options.versions.torch, "2.11.0");
  EXPECT_EQ(run.options.versions.deepspeed, "0.19.5");
  JobOptions own;
  own.gpu = "a100_80gb";
  own.versions.torch = "2.6.0";
  const RecordedCommand other = recorded_command(input_of(kRecording), own, kPrograms);
  EXPECT_EQ(other.options.gpu, "a100_80gb");
  EXPECT_EQ(other.options.versions.torch, "2.6.0");
}

TEST(RecordedCommand, LeavesOtherFilesAlone) {
  EXPECT_FALSE(has_recorded_command(input_of(R"({"case": {"program": "step9", "words": [], "model": {}}})"), kPrograms));
  EXPECT_FALSE(has_recorded_command(input_of(R"({"case": {"program": "step1", "words": "x", "model": {}}})"), kPrograms));
  EXPECT_FALSE(has_recorded_command(input_of(R"({"case": {"program": "step1", "words": []}})"), kPrograms));
}

/// Both frameworks that record commands read theirs.
TEST(RecordedCommand, IsReadByItsFramework) {
  const std::string chat = test::data("deepspeed-chat-runs/ppo-opt13-z2-bf16.json");
  const ReadJob ppo = read_job(std::array{chat}, {}).value();
  EXPECT_EQ(ppo.job.framework, "deepspeed-chat");
  EXPECT_EQ(ppo.job.role("actor")->model->decoder.hidden, 2048);
  EXPECT_EQ(ppo.job.role("critic")->model->decoder.hidden, 1024);
  EXPECT_EQ(ppo.job.pools.front().gpus_per_node, 1);
  const std::string colossal = test::data("colossalchat-trainers/sft-q05-gemini.json");
  const ReadJob sft = read_job(std::array{colossal}, {}).value();
  EXPECT_EQ(sft.job.framework, "colossalchat");
  EXPECT_EQ(sft.job.role("actor")->model->decoder.hidden, 896);
  EXPECT_EQ(sft.job.gpu, "NVIDIA H200");
}

}  // namespace
}  // namespace headroom
