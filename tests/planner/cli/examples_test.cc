#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"

namespace headroom::cli {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Words = std::vector<std::string>;

/// Every file under configs/examples but those that another one includes.
Words examples() {
  Words out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(test::source("configs/examples")))
    if (entry.is_regular_file() && entry.path().parent_path().filename() != "included") out.push_back(entry.path());
  EXPECT_GE(out.size(), 10u);
  return out;
}

/// A script says nothing of the card, and TRL's parser takes no keys but its own.
void with_card(Words& command, const std::string& path) {
  if (path.ends_with(".sh") || path.find("examples/trl/") != std::string::npos) command.insert(command.end(), {"--gpu", "h100"});
}

TEST(Examples, EveryCommandReadsEveryShippedConfiguration) {
  for (const std::string& path : examples())
    for (const Words& words :
         {Words{"check", path}, {"estimate", path}, {"simulate", path}, {"explain", path, "--keys"}}) {
      Words command = words;
      command.insert(command.end(), {"--steps", "1"});
      with_card(command, path);
      const Outcome outcome = run_words(command);
      EXPECT_THAT(outcome.code, AnyOf(kDone, kOver, kUndetermined)) << words[0] << " " << path << outcome.err;
      // Only the gate puts warnings there: host memory that is left unchecked, settings that are not modelled.
      if (words[0] == "check")
        EXPECT_THAT(outcome.err, AnyOf("", StartsWith("headroom: warning: " + path + ": host memory"),
                                       StartsWith("headroom: warning: " + path + ": rollout: the KV cache"),
                                       StartsWith("headroom: warning: " + path + ": roles."),
                                       StartsWith("headroom: warning: " + path + ": step.")));
      else
        EXPECT_EQ(outcome.err, "") << words[0] << " " << path;
      EXPECT_NE(outcome.out, "") << words[0] << " " << path;
    }
}

TEST(Examples, ExplainNamesTheReasonAndWhatHelps) {
  const Outcome outcome = run_words(
      {"explain", test::source("configs/examples/verl/qwen2.5-0.5b-grpo-1x4090.yaml"), "--steps", "1"});
  EXPECT_EQ(outcome.code, kDone) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("Why "));
  EXPECT_THAT(outcome.out, HasSubstr("Single changes that still fit"));
}

/// A knob that every run of the framework has.
std::string knob_of(const std::string& path) {
  const std::pair<const char*, const char*> knobs[] = {{"examples/job/", "actor_recompute"},
                                                       {"examples/nemo-rl/", "activation_checkpointing"},
                                                       {"examples/openrlhf/", "gradient_checkpointing"},
                                                       {"deepspeed-chat/llama-2-7b-ppo", "actor_gradient_checkpointing"},
                                                       {"deepspeed-chat/opt-1.3b-ppo-ema", "actor_gradient_checkpointing"},
                                                       {"deepspeed-chat/opt-13b-ppo", "actor_gradient_checkpointing"},
                                                       {"examples/deepspeed-chat/", "gradient_checkpointing"},
                                                       {"colossalchat/bloom-", "strategy"},
                                                       {"colossalchat/gpt2-", "strategy"},
                                                       {"colossalchat/opt-", "strategy"},
                                                       {"examples/colossalchat/", "plugin"},
                                                       {"chatlearn/llama-2-7b-ppo", "free_memory_reward"},
                                                       {"examples/trl/", "micro_batch"}};
  for (const auto& [folder, knob] : knobs)
    if (path.find(folder) != std::string::npos) return knob;
  return "gpu_memory_utilization";
}

/// One knob of each, so that it is quick; whole searches are measured in benchmarks. A map of
/// DeepSpeed-Chat's third step has none.
TEST(Examples, EveryShippedConfigurationCanBePlanned) {
  for (const std::string& path : examples()) {
    Words command = {"plan", path, "--steps", "1", "--top", "1", "--vary", knob_of(path)};
    with_card(command, path);
    const Outcome outcome = run_words(command);
    if (path.find("examples/deepspeed-chat/") != std::string::npos && path.ends_with(".yaml")) {
      EXPECT_EQ(outcome.code, kBadInput) << path;
      EXPECT_THAT(outcome.err, HasSubstr("unknown knob 'gradient_checkpointing'")) << path;
      continue;
    }
    EXPECT_THAT(outcome.code, AnyOf(kDone, kOver, kUndetermined)) << path << outcome.err;
    EXPECT_EQ(outcome.err, "") << path;
    EXPECT_THAT(outcome.out, HasSubstr("configurations ")) << path;
  }
}

/// What `plan` writes is judged as it was promised, and says so in its first lines.
void expect_gate_passes(const std::string& example, const std::string& budget,
                        const std::vector<std::string>& vary) {
  const std::string before = test::source("configs/examples/verl/" + example);
  const std::string after = test::scratch() / ("planned-" + example);
  std::vector<std::string> words = {"plan", before, "--budget", budget, "--top", "3", "--yaml", after};
  for (const std::string& knob : vary) words.insert(words.end(), {"--vary", knob});
  const Outcome planned = run_words(words);
  ASSERT_EQ(planned.code, kDone) << planned.err;
  const Outcome checked = run_words({"check", after, "--budget", budget});
  EXPECT_EQ(checked.code, kDone) << checked.err;
  EXPECT_THAT(checked.out, HasSubstr(": fits: "));
  std::ifstream file(after);
  std::string head(600, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  for (const char* told :
       {"# Written by Headroom.\n# Version ", " GiB a GPU.", "# Predicted peak ", ", margin ", "# Changed: "})
    EXPECT_THAT(head, HasSubstr(told));
  std::filesystem::remove(after);
}

TEST(Examples, WhatAPlanWritesPassesTheGate) {
  const std::string example = "qwen2.5-7b-grpo-8xh100.yaml";
  ASSERT_EQ(run_words({"check", test::source("configs/examples/verl/" + example), "--budget", "56GiB"}).code,
            kOver);
  expect_gate_passes(example, "64GiB", {"token_budget", "gpu_memory_utilization"});
}

TEST(Examples, WhatAPlanOfAPipelineWritesPassesTheGate) {
  expect_gate_passes("qwen2.5-7b-grpo-megatron-8xh100.yaml", "76GiB",
                     {"tensor_parallel", "pipeline_parallel", "recompute", "micro_batch"});
}

}  // namespace
}  // namespace headroom::cli
