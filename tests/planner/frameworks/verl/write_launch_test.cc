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
  expected.insert(expected.find("# a comment"), "# Written by a test.\n# For verl==" + read().job.versions.framework + "\n");
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
            "# For verl==0.5.0\n+actor_rollout_ref.rollout.enable_sleep_mode=false\nactor_rollout_ref.rollout.free_cache_engine="
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

/// What was known from around the files, or from keys that go, is stated: all three forms are read back as the
/// release that the run was read as.
TEST(WriteLaunch, StatesTheReleaseInEveryForm) {
  for (const char* release : {"0.4.1", "0.5.0", "0.7.1", "0.9.0"}) {
    JobOptions options;
    options.versions.framework = release;
    const auto old = read_job_text(kScript, "run.sh", options);
    ASSERT_TRUE(old) << old.error().text();
    const std::vector<Setting> settings = {{"actor_rollout_ref.rollout.gpu_memory_utilization", "0.5"}};
    const auto yaml = verl::write_yaml_file(*old, settings, {});
    const auto script = verl::write_launch_script(*old, settings, {});
    ASSERT_TRUE(yaml && script);
    const auto from_yaml = read_job_text(*yaml, "run.yaml", {}), from_script = read_job_text(*script, "run.sh", {});
    ASSERT_TRUE(from_yaml) << from_yaml.error().text();
    ASSERT_TRUE(from_script) << from_script.error().text();
    for (const auto* read : {&*from_yaml, &*from_script}) {
      EXPECT_EQ(read->job.versions.framework, release);
      EXPECT_EQ(read->job.versions.vllm, old->job.versions.vllm);
      EXPECT_TRUE(read->job.roles == old->job.roles) << release;
      EXPECT_TRUE(read->job.step == old->job.step) << release;
    }
    EXPECT_EQ(from_yaml->job.engines.front().utilization, 0.5);
    EXPECT_EQ(from_script->job.engines.front().utilization, 0.5);
  }
}

/// Settings alone are no configuration that verl's trainer can start from.
TEST(WriteLaunch, AFileOfSettingsStandsOverVerlsOwn) {
  const std::string text =
      "actor_rollout_ref:\n  model: {path: Qwen/Qwen2.5-7B-Instruct}\n"
      "  actor: {ppo_micro_batch_size_per_gpu: 4}\n"
      "  rollout: {name: vllm, log_prob_micro_batch_size_per_gpu: 4}\nalgorithm: {adv_estimator: grpo}\n";
  const auto old = read_job_text(text, "run.yaml", {});
  ASSERT_TRUE(old) << old.error().text();
  const auto written = verl::write_yaml_file(*old, {}, {});
  ASSERT_TRUE(written) << written.error().text();
  EXPECT_THAT(*written, HasSubstr("defaults"));
  EXPECT_THAT(*written, HasSubstr("ppo_trainer, _self_"));
  EXPECT_THAT(*written, HasSubstr("pkg://verl.trainer.config"));
  const auto again = read_job_text(*written, "run.yaml", {});
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_TRUE(again->job.roles == old->job.roles);
}

TEST(WriteLaunch, QuotesForAShell) {
  EXPECT_EQ(shell_quoted("a.b=0.5"), "a.b=0.5");
  EXPECT_EQ(shell_quoted("a=[1,2]"), "'a=[1,2]'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted(""), "''");
}

}  // namespace
}  // namespace headroom
