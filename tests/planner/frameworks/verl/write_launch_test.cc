#include "planner/frameworks/write_launch.h"

#include <gmock/gmock.h>

#include "planner/frameworks/registry.h"
#include "planner/frameworks/verl/read.h"
#include "planner/frameworks/verl/write.h"

namespace headroom {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kScript =
    "#!/bin/bash\n# a comment\nGMU=0.6\npython3 -m verl.trainer.main_ppo \\\n"
    "    algorithm.adv_estimator=grpo \\\n"
    "    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct \\\n"
    "    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 \\\n"
    "    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4 \\\n"
    "    actor_rollout_ref.rollout.name=vllm \\\n"
    "    actor_rollout_ref.rollout.gpu_memory_utilization=$GMU \\\n"
    "    trainer.n_gpus_per_node=8 $@  # the end\n";

const std::vector<Setting> kSettings = {{"actor_rollout_ref.rollout.gpu_memory_utilization", "0.5"},
                                        {"actor_rollout_ref.actor.fsdp_config.param_offload", "true"}};

ReadJob read() {
  Result<ReadJob> out = read_job_text(kScript, "run.sh", {});
  EXPECT_TRUE(out) << out.error().text();
  return std::move(*out);
}

TEST(WriteLaunch, ChangesOnlyTheWordsOfAScript) {
  const auto text = verl::write_launch_script(read(), kSettings, {.lines = {"Written by a test."}});
  ASSERT_TRUE(text) << text.error().text();
  std::string expected = kScript;
  const std::string old = "actor_rollout_ref.rollout.gpu_memory_utilization=$GMU";
  expected.replace(expected.find(old), old.size(), "actor_rollout_ref.rollout.gpu_memory_utilization=0.5");
  expected.insert(expected.find(" $@"), " \\\n    actor_rollout_ref.actor.fsdp_config.param_offload=true");
  expected.insert(expected.find("# a comment"), "# Written by a test.\n");
  // The new word stands behind the last word that stands in the command.
  EXPECT_EQ(*text, expected);
  const auto again = read_job_text(*text, "run.sh", {});
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(verl::settings_of(*again).rollout.gpu_memory_utilization, 0.5);
  EXPECT_TRUE(verl::settings_of(*again).actor.fsdp.param_offload);
}

TEST(WriteLaunch, AddsWhatTheReleaseLacksWithPlus) {
  JobOptions options;
  options.overrides = {"+headroom.versions.verl=0.5.0"};
  const auto old = read_job_text(kScript, "run.sh", options);
  ASSERT_TRUE(old) << old.error().text();
  const std::vector<Setting> settings = {{"actor_rollout_ref.rollout.enable_sleep_mode", "false"},
                                         {"actor_rollout_ref.rollout.free_cache_engine", "true"}};
  const auto text = verl::write_override_list(*old, settings, {});
  ASSERT_TRUE(text);
  EXPECT_EQ(*text,
            "+actor_rollout_ref.rollout.enable_sleep_mode=false\nactor_rollout_ref.rollout.free_cache_engine="
            "true\n");
}

TEST(WriteLaunch, AYamlStandsOverWhatTheLaunchStartedFrom) {
  const auto text = verl::write_yaml_file(read(), kSettings, {});
  ASSERT_TRUE(text) << text.error().text();
  EXPECT_THAT(*text, HasSubstr("pkg://verl.trainer.config"));
  EXPECT_THAT(*text, HasSubstr("ppo_trainer"));
  const auto again = read_job_text(*text, "run.yaml", {});
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(verl::settings_of(*again).rollout.gpu_memory_utilization, 0.5);
  EXPECT_EQ(again->job.roles.size(), read().job.roles.size());
}

TEST(WriteLaunch, ACommandIsWrittenAsOne) {
  JobOptions options;
  options.words = {
      "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo "
      "actor_rollout_ref.model.path=Qwen/Qwen3-8B"
      " actor_rollout_ref.actor.use_dynamic_bsz=true actor_rollout_ref.rollout.name=vllm"};
  const std::vector<std::string> paths{"--"};
  const auto command = read_job(paths, options);
  ASSERT_TRUE(command) << command.error().text();
  const auto text = verl::write_launch_script(*command, kSettings, {});
  ASSERT_TRUE(text) << text.error().text();
  EXPECT_THAT(*text, HasSubstr("python3 -m verl.trainer.main_ppo \\\n    algorithm.adv_estimator=grpo"));
  EXPECT_TRUE(read_job_text(*text, "run.sh", {}));
}

TEST(WriteLaunch, QuotesForAShell) {
  EXPECT_EQ(shell_quoted("a.b=0.5"), "a.b=0.5");
  EXPECT_EQ(shell_quoted("a=[1,2]"), "'a=[1,2]'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted(""), "''");
}

}  // namespace
}  // namespace headroom
