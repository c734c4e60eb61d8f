#include "planner/frameworks/openrlhf/read.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>

#include "tests/planner/frameworks/openrlhf/run.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

using test::read_launch;
using testing::Contains;
using testing::HasSubstr;

const std::string kDotted = R"(#!/bin/bash
STAGE=3
python3 -m openrlhf.cli.train_ppo_ray \
  --actor.model_name_or_path Qwen/Qwen2.5-7B \
  --actor.num_gpus_per_node 8 \
  --reward.remote_url /reward.py \
  --train.colocate_all --vllm.enable_sleep --ds.enable_sleep \
  --vllm.num_engines 8 --vllm.gpu_memory_utilization=0.6 \
  --ds.zero_stage $STAGE \
  --algo.advantage.estimator group_norm --rollout.n_samples_per_prompt 8 \
  --algo.kl.init_coef 0.001 --algo.kl.use_loss \
  --train.batch_size 128 --rollout.batch_size 128 --data.max_len 2048
)";

const std::string kClassic = R"(ray job submit --address="http://127.0.0.1:8265" -- python3 -m openrlhf.cli.train_ppo_ray \
  --pretrain meta-llama/Llama-3.1-8B --reward_pretrain meta-llama/Llama-3.1-8B \
  --actor_num_gpus_per_node 4 --critic_num_gpus_per_node 4 --ref_num_gpus_per_node 4 --reward_num_gpus_per_node 4 \
  --colocate_actor_ref --vllm_num_engines 2 --vllm_tensor_parallel_size 2 \
  --zero_stage 2 --bf16 --adam_offload --packing_samples --gradient_checkpointing \
  --micro_train_batch_size 2 --train_batch_size 64 --micro_rollout_batch_size 4 --rollout_batch_size 128 \
  --prompt_max_len 1024 --generate_max_len 1024
)";

Job job_of(const std::string& text, std::vector<std::string> overrides = {}) {
  const Result<ReadJob> read = read_launch(text, std::move(overrides));
  EXPECT_TRUE(read) << (read ? "" : read.error().text());
  return read ? read->job : Job{};
}

std::string complaint(const std::string& text, std::vector<std::string> overrides = {}) {
  const Result<ReadJob> read = read_launch(text, std::move(overrides));
  return read ? "" : read.error().text();
}

TEST(OpenRlhfRead, DottedFlagsOfAScript) {
  const Job job = job_of(kDotted);
  EXPECT_EQ(job.framework, "openrlhf");
  EXPECT_EQ(job.versions.framework, "0.11.0");
  const Role& actor = *job.role("actor");
  EXPECT_EQ(actor.sharding.kind, ShardingKind::zero3);
  EXPECT_EQ(actor.precision.weights, DType::bf16);
  EXPECT_EQ(actor.train.sequences, 1);  // since 0.10
  EXPECT_EQ(job.role("ref")->sharding.kind, ShardingKind::zero3);
  EXPECT_EQ(job.role("critic"), nullptr);
  EXPECT_EQ(job.role("reward"), nullptr);
  ASSERT_EQ(job.engines.size(), 1u);
  EXPECT_EQ(job.engines.front().utilization, 0.6);
  EXPECT_EQ(job.engines.front().sleep_level, 1);
  EXPECT_EQ(job.pools.size(), 1u);
  EXPECT_EQ(job.processes.size(), 3u);  // actor, reference, engine
  EXPECT_EQ(job.batch.sequence_length(), 2048);
}

TEST(OpenRlhfRead, ClassicFlagsUnderRay) {
  const Job job = job_of(kClassic);
  EXPECT_EQ(job.versions.framework, "0.9.1");
  EXPECT_EQ(job.role("actor")->sharding.kind, ShardingKind::zero2);
  EXPECT_TRUE(job.role("actor")->sharding.offload_optimizer);
  EXPECT_TRUE(job.role("actor")->packed);
  EXPECT_EQ(job.role("ref")->sharding.kind, ShardingKind::zero0);  // whole on every GPU below stage 3
  EXPECT_NE(job.role("critic"), nullptr);
  EXPECT_NE(job.role("reward"), nullptr);
  std::vector<std::string> pools;
  for (const Pool& pool : job.pools) pools.push_back(pool.name);
  EXPECT_THAT(pools, testing::UnorderedElementsAre("main", "reward", "critic", "rollout"));
  EXPECT_EQ(job.process("ref")->pool, "main");
  EXPECT_EQ(job.batch.sequence_length(), 2048);
  EXPECT_EQ(job.engines.front().sleep_level, 0);
}

TEST(OpenRlhfRead, ARewardModelNeedsGpusOfItsOwn) {
  const Result<ReadJob> none = read_launch(kClassic, {"reward_num_nodes=0"});
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().text(), HasSubstr("reward_num_nodes: expected GPUs for the reward model"));
  EXPECT_TRUE(read_launch(kClassic, {"reward_num_nodes=0", "remote_rm_url=http://reward"}));
}

TEST(OpenRlhfRead, SleepMovesStatesAroundUpdatesOnly) {
  const Job job = job_of(kDotted);
  int loads = 0, offloads = 0;
  for (const PhaseSpec& phase : job.step)
    for (const Action& action : phase.actions) {
      loads += action.verb == Verb::load;
      offloads += action.verb == Verb::offload;
      const bool updates = phase.kind == PhaseKind::train_actor;
      EXPECT_TRUE(updates || action.verb != Verb::load);
    }
  EXPECT_EQ(loads, 1);
  EXPECT_EQ(offloads, 1);
  const Job awake = job_of(kDotted, {"ds.enable_sleep=false"});
  for (const PhaseSpec& phase : awake.step)
    for (const Action& action : phase.actions) EXPECT_NE(action.verb, Verb::offload);
}

TEST(OpenRlhfRead, DynamicBatchesAreCutToANumber) {
  // 1024 sequences of 2048 in budgets of 16384: 8 at once, 128 micro-batches, 16 a rank.
  const Job job = job_of(kDotted, {"train.dynamic_batch_enable=true", "train.max_tokens_per_gpu=16384"});
  EXPECT_EQ(job.role("actor")->forward.sequences, 8);
  EXPECT_EQ(job.role("actor")->train.sequences, 8);
  // 1016 in budgets of 3: the count is rounded down to a multiple of the ranks.
  const Job odd = job_of(kDotted, {"train.dynamic_batch_enable=true", "train.max_tokens_per_gpu=6200",
                                   "rollout.batch_size=127"});
  EXPECT_EQ(odd.role("actor")->forward.sequences, 4);
}

TEST(OpenRlhfRead, ARingSharesSequences) {
  const Job job = job_of(kDotted, {"ds.ring_attn_size=2"});
  EXPECT_EQ(job.role("actor")->parallel.context, 2);
  EXPECT_TRUE(job.role("actor")->packed);
}

TEST(OpenRlhfRead, ProgramsUnderDeepSpeed) {
  const std::string sft = "deepspeed --num_gpus 4 --module openrlhf.cli.train_sft --model.model_name_or_path "
                          "Qwen/Qwen2.5-1.5B --train.micro_batch_size 2 --train.batch_size 32\n";
  const Job job = job_of(sft);
  EXPECT_EQ(job.algorithm, Algorithm::sft);
  EXPECT_EQ(job.pools.front().gpus(), 4);
  EXPECT_EQ(job.batch.sequences(), 32);
  EXPECT_EQ(job.batch.sequence_length(), 2048);
  EXPECT_THAT(complaint("deepspeed --module openrlhf.cli.train_kto --pretrain Qwen/Qwen2.5-1.5B\n"),
              HasSubstr("run.sh:1: OpenRLHF: train_kto is not read"));
}

TEST(OpenRlhfRead, WhatNobodyKnowsIsAskedFor) {
  std::string open = kDotted;
  open.replace(open.find("STAGE=3\n"), 8, "");
  EXPECT_THAT(complaint(open), HasSubstr("run.sh:8: ds.zero_stage: expected a value, found none"));
  EXPECT_EQ(complaint(open, {"ds.zero_stage=2"}), "");
  EXPECT_THAT(complaint(kDotted, {"ds.zero_stage=4"}), HasSubstr("expected an integer from 0 to 3"));
}

TEST(OpenRlhfRead, RefusesWhatOpenRlhfRefuses) {
  EXPECT_THAT(complaint(kDotted, {"vllm.num_engines=4"}), HasSubstr("to be the actor's 8 GPUs"));
  EXPECT_THAT(complaint(kDotted, {"rollout.n_samples_per_prompt=1"}), HasSubstr("more than one answer a prompt"));
  EXPECT_THAT(complaint(kClassic, {"train_batch_size=63"}), HasSubstr("expected a multiple of the 4"));
}

TEST(OpenRlhfRead, FlagsThatDoNothingAreTold) {
  const Result<ReadJob> read = read_launch(kClassic, {"vllm_enable_sleep=true", "ref_reward_offload=true"});
  ASSERT_TRUE(read) << read.error().text();
  std::string said;
  for (const Notice& notice : read->warnings) said += notice.text() + "\n";
  EXPECT_THAT(said, HasSubstr("engines sleep only with colocate_all_models"));
  EXPECT_THAT(said, HasSubstr("models are offloaded at ZeRO stage 3 only"));
  const Result<ReadJob> open = read_launch(kDotted, {"ds.zpg=8"});
  EXPECT_THAT(open->job.not_modelled, Contains(HasSubstr("ds.zpg=8")));
}

/// A script is changed where its flags stand, and reads as what was asked for.
TEST(OpenRlhfRead, WritesIntoTheScript) {
  const Result<ReadJob> read = read_launch(kDotted);
  ASSERT_TRUE(read);
  const Framework& framework = *find_framework("openrlhf");
  for (const Knob& knob : framework.knobs(*read))
    for (const std::string& value : knob.values) {
      const std::vector<Choice> choices{{knob.name, value}};
      const std::string what = knob.name + "=" + value;
      const auto settings = framework.settings_of(*read, choices);
      ASSERT_TRUE(settings) << what;
      const Result<std::string> text = framework.write(*read, *settings, {.lines = {"tried"}});
      ASSERT_TRUE(text) << what << text.error().text();
      EXPECT_TRUE(text->starts_with("#!/bin/bash\n# Written by Headroom.\n# tried\n\n")) << *text;
      const Result<ReadJob> again = read_launch(*text);
      ASSERT_TRUE(again) << what << again.error().text();
      const Result<std::string> twice = framework.write(*again, {}, {.lines = {"tried"}});
      EXPECT_EQ(twice.value(), *text) << what;  // one header, however often
      const Result<Job> edited = framework.with(*read, choices);
      ASSERT_EQ(edited.has_value(), again.has_value()) << what << (again ? "" : again.error().text()) << *text;
      if (!edited) continue;
      Job found = again->job;
      found.name = edited->name;
      EXPECT_TRUE(found == *edited) << what << "\n" << *text;
    }
}

/// Scripts of every program, with arrays, wrappers, here-documents and defaults.
TEST(OpenRlhfRead, WholeScripts) {
  const std::map<std::string, Algorithm> scripts = {{"qwen2.5-7b-grpo-8xh100.sh", Algorithm::grpo},
                                                    {"llama-3.1-8b-ppo-ray-16xh100.sh", Algorithm::ppo},
                                                    {"qwen2.5-1.5b-sft-2xa100.sh", Algorithm::sft},
                                                    {"llama-3.2-3b-dpo-4xh100.sh", Algorithm::dpo}};
  for (const auto& [name, algorithm] : scripts) {
    const std::string path = test::data("openrlhf/" + name);
    const Result<std::string> text = read_text(path);
    ASSERT_TRUE(text) << text.error().text();
    const Result<ReadJob> read = read_launch(*text, {}, path);
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(read->job.algorithm, algorithm) << name;
    EXPECT_TRUE(read->job.not_modelled.empty()) << name;
    for (const Notice& notice : read->warnings) ADD_FAILURE() << notice.text();
  }
}

/// OpenRLHF's own scripts, where a folder of them is named.
TEST(OpenRlhfRead, ItsOwnScripts) {
  const char* root = std::getenv("HEADROOM_OPENRLHF_SCRIPTS");
  if (root == nullptr) GTEST_SKIP() << "HEADROOM_OPENRLHF_SCRIPTS is not set";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".sh") continue;
    std::ifstream in(entry.path());
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    const Result<ReadJob> read = read_launch(text, {}, entry.path());
    std::cout << (read ? "read " : "refused ") << entry.path().string() << ": "
              << (read ? read->job.versions.framework : read.error().text().substr(0, 300)) << "\n";
    if (!read) continue;
    for (const std::string& open : read->job.not_modelled) std::cout << "  open: " << open << "\n";
    for (const Notice& notice : read->warnings) std::cout << "  says: " << notice.text() << "\n";
  }
}

/// A cluster's variables need no value where the command line gives the machines.
TEST(OpenRlhfRead, TakesMachinesFromTheCommandLine) {
  std::string text = kDotted;
  const std::string key = "--actor.num_gpus_per_node ";
  text.replace(text.find(key) + key.size(), 1, "$GPUS");
  EXPECT_FALSE(read_launch(text));
  JobOptions options;
  options.gpu = "h100";
  options.gpus_per_node = 8;
  const Result<ReadJob> read = read_job(*test::launch_of(text, "run.sh"), options);
  ASSERT_TRUE(read) << read.error().text();
}

}  // namespace
}  // namespace headroom
