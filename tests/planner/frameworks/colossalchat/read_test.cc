#include "planner/frameworks/colossalchat/read.h"

#include "simulator/hardware/library.h"
#include "simulator/phases/simulate.h"
#include "tests/planner/frameworks/openrlhf/run.h"

namespace headroom {
namespace {

using test::read_launch;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kCoati =
    "torchrun --standalone --nproc_per_node=4 train_prompts.py --prompt_dataset p --pretrain_dataset t \\\n"
    "  --model opt --pretrain facebook/opt-1.3b --rm_model opt --rm_pretrain facebook/opt-350m \\\n"
    "  --num_collect_steps 2 --num_update_steps 1 --strategy ";
const std::string kBoosted =
    "colossalai run --nproc_per_node 8 train_ppo.py --pretrain meta-llama/Llama-2-7b-hf \\\n"
    "  --rm_pretrain meta-llama/Llama-2-7b-hf --prompt_dataset a b --mixed_precision bf16 --plugin ";

Job job_of(const std::string& text, std::vector<std::string> overrides = {}) {
  const Result<ReadJob> read = read_launch(text, std::move(overrides));
  EXPECT_TRUE(read) << (read ? "" : read.error().text());
  return read ? read->job : Job{};
}

std::string complaint(const std::string& text, std::vector<std::string> overrides = {}) {
  const Result<ReadJob> read = read_launch(text, std::move(overrides));
  return read ? "" : read.error().text();
}

std::string warnings(const std::string& text) {
  const Result<ReadJob> read = read_launch(text);
  std::string out;
  if (read)
    for (const Notice& notice : read->warnings) out += notice.text() + "\n";
  return out;
}

TEST(ColossalChatRead, CoatisStrategies) {
  const Job zero = job_of(kCoati + "colossalai_zero2");
  EXPECT_EQ(zero.framework, "colossalchat");
  EXPECT_EQ(zero.versions.framework, "0.3.6");
  EXPECT_EQ(zero.pools.front().gpus(), 4);
  ASSERT_EQ(zero.roles.size(), 4u);
  const Role& actor = *zero.role("actor");
  EXPECT_EQ(actor.sharding.kind, ShardingKind::low_level_zero2);
  EXPECT_TRUE(actor.sharding.joins_lists);
  EXPECT_EQ(actor.precision.weights, DType::fp16);
  EXPECT_EQ(actor.attention, AttentionImplementation::eager);
  EXPECT_EQ(actor.loss.text_sequences, 1);
  EXPECT_EQ(actor.loss.text_tokens, 96);
  EXPECT_EQ(zero.batch.prompts, 2 * 8 * 4);  // two collects of eight on four GPUs
  EXPECT_EQ(zero.batch.mini_batch, 8 * 4);
  EXPECT_EQ(zero.batch.prompt_length, 96);
  EXPECT_EQ(zero.batch.response_length, 32);

  const Job gemini = job_of(kCoati + "colossalai_gemini");
  EXPECT_EQ(gemini.role("ref")->sharding.kind, ShardingKind::gemini);
  EXPECT_EQ(gemini.role("ref")->sharding.placement, GeminiPlacement::fixed);
  EXPECT_TRUE(gemini.role("ref")->sharding.pin_memory);
  // Up to 0.3.3 gathered chunks stay.
  const Job older = job_of(kCoati + "colossalai_gemini", {"headroom.versions.colossalai=0.3.1"});
  EXPECT_EQ(older.role("ref")->sharding.placement, GeminiPlacement::resident);
  EXPECT_EQ(job_of(kCoati + "ddp").role("actor")->sharding.kind, ShardingKind::data_parallel);
}

/// Version 0.2 misspelt a flag, and tells itself by it.
TEST(ColossalChatRead, OldSpellings) {
  const Job sft = job_of("torchrun --nproc_per_node=4 train_sft.py --pretrain huggyllama/llama-7b --model llama "
                         "--strategy colossalai_zero2 --batch_size 2 --accimulation_steps 4");
  EXPECT_EQ(sft.versions.framework, "0.2.8");
  EXPECT_EQ(sft.role("actor")->mini_batch, 4 * 2 * 4);
  EXPECT_THAT(sft.not_modelled, IsEmpty());
}

/// DistributedDataParallel looks for unused parameters as each script has it.
TEST(ColossalChatRead, ScriptsLookForUnusedParameters) {
  const auto looks = [](const std::string& more) {
    return job_of("colossalai run --nproc_per_node 2 train_" + more + " --plugin ddp --pretrain facebook/opt-1.3b").role("actor")->sharding.finds_unused;
  };
  EXPECT_TRUE(looks("sft.py --max_len 256"));
  EXPECT_FALSE(looks("sft.py --max_len 256 --grad_checkpoint"));
  EXPECT_FALSE(looks("dpo.py --grad_checkpoint"));
  EXPECT_TRUE(looks("rm.py --grad_checkpoint"));
  EXPECT_FALSE(job_of(kCoati + "ddp").role("actor")->sharding.finds_unused);
}

/// Models that are only evaluated go to the host for the updates, but Gemini's.
TEST(ColossalChatRead, EvaluatedModelsWaitOnTheHost) {
  const auto moves = [](const Job& job) {
    int out = 0;
    for (const PhaseSpec& phase : job.step)
      for (const Action& action : phase.actions) out += action.verb == Verb::offload;
    return out;
  };
  EXPECT_EQ(moves(job_of(kCoati + "colossalai_zero2")), 2);
  EXPECT_EQ(moves(job_of(kCoati + "colossalai_gemini")), 0);
  EXPECT_EQ(moves(job_of(kCoati + "colossalai_zero2", {"headroom.versions.colossalai=0.2.8"})), 0);
  EXPECT_EQ(moves(job_of(kBoosted + "zero2")), 2);
}

TEST(ColossalChatRead, Plugins) {
  const Job zero = job_of(kBoosted + "zero2_cpu --grad_checkpoint");
  EXPECT_EQ(zero.versions.framework, "0.5.1");
  const Role& actor = *zero.role("actor");
  EXPECT_EQ(actor.sharding.kind, ShardingKind::low_level_zero2);
  EXPECT_FALSE(actor.sharding.joins_lists);
  EXPECT_TRUE(actor.sharding.offload_optimizer);
  EXPECT_EQ(actor.sharding.reduce_bucket, 12 << 20);
  EXPECT_EQ(actor.precision.weights, DType::bf16);
  EXPECT_EQ(actor.recompute.kind, RecomputeKind::full);
  EXPECT_EQ(actor.loss.score_sequences, 2);
  EXPECT_EQ(zero.batch.prompt_length, 2048 - 256);
  const Job gemini = job_of(kBoosted + "gemini");
  EXPECT_TRUE(gemini.role("critic")->sharding.gradient_chunks);
  EXPECT_FALSE(gemini.role("critic")->sharding.pin_memory);
  const Job threed = job_of(kBoosted + "3d --tp 4 --zero_stage 1 --zero_cpu_offload");
  EXPECT_EQ(threed.role("actor")->sharding.kind, ShardingKind::low_level_zero1);
  EXPECT_EQ(threed.role("actor")->parallel.tensor, 4);
  EXPECT_TRUE(threed.role("actor")->sharding.offload_optimizer);
}

TEST(ColossalChatRead, OtherPrograms) {
  const std::string common = " --pretrain facebook/opt-350m --batch_size 2 --plugin zero2";
  const Job sft = job_of("torchrun --nproc_per_node 2 train_sft.py --max_len 256" + common);
  EXPECT_EQ(sft.algorithm, Algorithm::sft);
  EXPECT_EQ(sft.batch.prompts, 2 * 8 * 2);  // eight micro-batches
  EXPECT_EQ(sft.role("actor")->precision.weights, DType::bf16);
  const Job rm = job_of("torchrun --nproc_per_node 2 train_rm.py" + common);
  EXPECT_EQ(rm.role("actor")->head, HeadKind::scalar);
  EXPECT_EQ(rm.role("actor")->train.sequences, 4);  // chosen and rejected
  EXPECT_EQ(job_of("torchrun train_dpo.py" + common).roles.size(), 2u);
  EXPECT_EQ(job_of("torchrun train_dpo.py --disable_reference_model" + common).roles.size(), 1u);
  EXPECT_EQ(job_of("torchrun train_kto.py" + common).algorithm, Algorithm::dpo);
  const Job grpo = job_of("torchrun train_grpo.py --pretrain facebook/opt-350m --plugin zero2 --reward_functions gsm8k_reward_fn "
                          "--experience_batch_size 2 --num_collect_steps 1 --inference_batch_size 4");
  EXPECT_EQ(grpo.algorithm, Algorithm::grpo);
  EXPECT_EQ(grpo.roles.size(), 2u);
  EXPECT_EQ(grpo.batch.prompts, 2 * 8);
  EXPECT_EQ(grpo.role("actor")->forward.sequences, 4);
  const Job benchmark = job_of("torchrun --nproc_per_node 4 benchmark_opt_lora_dummy.py --model 1.3b --critic_model 350m "
                               "--strategy colossalai_gemini_cpu");
  EXPECT_EQ(benchmark.batch.prompt_length, 256);
  EXPECT_EQ(benchmark.role("actor")->sharding.placement, GeminiPlacement::host);
  EXPECT_EQ(benchmark.batch.sequence_length(), 512);
}

TEST(ColossalChatRead, WhatTheProgramsRefuseIsSaidAtItsPlace) {
  EXPECT_THAT(complaint(kBoosted + "gemini_auto"), HasSubstr("accumulation_steps: expected 1 under gemini_auto"));
  EXPECT_THAT(complaint(kBoosted + "gemini_auto --accumulation_steps 1"), HasSubstr("plugin: expected gemini"));
  EXPECT_THAT(complaint(kBoosted + "zero4"), HasSubstr("run.sh:2: plugin: expected one of gemini"));
  EXPECT_THAT(complaint(kBoosted + "zero2 --max_seq_len 2048"), HasSubstr("max_seq_len: expected less than"));
  EXPECT_THAT(complaint(kBoosted + "zero2 --train_batch_size 64"), HasSubstr("train_batch_size: expected at most the 32"));
  EXPECT_THAT(complaint(kBoosted + "3d --tp 3"), HasSubstr("tp: expected sizes that divide the 8 GPUs"));
  EXPECT_THAT(complaint(kBoosted + "zero2 --pretrain no/such"), HasSubstr("pretrain"));
  EXPECT_THAT(complaint(kBoosted + "zero2 --lora_config none.json"), HasSubstr("lora_config: expected the adapters' JSON"));
  EXPECT_THAT(complaint("torchrun train_sft.py --strategy colossalai_gemini --model opt --pretrain facebook/opt-125m"),
              HasSubstr("accumulation_steps: expected 1"));
  EXPECT_THAT(complaint("python rl_example.py -t 2 -i 2"), HasSubstr("distributed reinforcement learning"));
}

TEST(ColossalChatRead, WhatHasNoProgramLeavesTheVerdictOpen) {
  EXPECT_THAT(job_of(kBoosted + "3d --pp 2").not_modelled, Contains(HasSubstr("pp: a pipeline")));
  EXPECT_THAT(warnings(kBoosted + "zero2 --tp 2"), HasSubstr("only --plugin 3d reads it"));
  EXPECT_THAT(job_of("torchrun train_sft.py --plugin gemini_auto --accumulation_steps 1 --pretrain facebook/opt-125m").not_modelled,
              Contains(HasSubstr("automatic placement")));
}

/// The published memory of a rank: OPT-1.3B and -350M on four GPUs (see docs).
Bytes component_of(const Report& report, const std::string& phase, Component component) {
  Bytes most = 0;
  for (const PhaseReport& row : report.devices.front().phases)
    if (row.phase == phase) most = std::max(most, row.processes.front().at_peak_allocated[component]);
  return most;
}

const PhaseReport& row_of(const Report& report, const std::string& phase) {
  const PhaseReport* found = nullptr;
  for (const PhaseReport& row : report.devices.front().phases)
    if (row.phase == phase) found = &row;
  EXPECT_NE(found, nullptr) << phase;
  return *found;
}

constexpr double kActor = 1'315'758'080, kCritic = 331'196'929;

TEST(ColossalChatRun, ZeroTwosGradientsTakeThreeTimesTheModelAtTheEndOfItsBackward) {
  const Result<Report> report = simulate(job_of(kCoati + "colossalai_zero2"), *load_hardware("rtx_3090"));
  ASSERT_TRUE(report) << report.error().text();
  // Static while models learn: weights, masters and states of actor and critic.
  const double resting = (kActor + kCritic) * (2 + 4 / 4.0 + 8 / 4.0);
  const auto peak = static_cast<double>(row_of(*report, "train_actor").processes.front().peak_allocated);
  EXPECT_GT(peak, resting + 6 * kActor);
  EXPECT_LT(peak, resting + 6 * kActor + 2e9);
  const auto critic = static_cast<double>(row_of(*report, "train_critic").processes.front().peak_allocated);
  EXPECT_GT(critic, resting + 6 * kCritic);
  EXPECT_NEAR(static_cast<double>(component_of(*report, "train_critic", Component::optimizer)), 2 * (kActor + kCritic), 1e7);
}

/// A public report (hpcaitech/ColossalAI issue 4899): out of memory on four GPUs of 80 GB with one sequence each, where
/// sixteen bytes a parameter, spread, would have been 55 GB.
TEST(ColossalChatRun, FineTuningSevenBillionParametersFailsAsReported) {
  Job job = job_of("torchrun --standalone --nproc_per_node=4 train_sft.py --model llama --pretrain huggyllama/llama-7b "
                   "--strategy colossalai_zero2 --batch_size 1");
  job.steps = 1;
  const Result<Report> report = simulate(job, *load_hardware("b200"));
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_GT(row_of(*report, "train_actor").peak_device, 80 * kGiB);
}

TEST(ColossalChatRun, GeminiGivesEveryModelFp32Copies) {
  for (const char* release : {"0.3.1", "0.3.6"}) {
    const Result<Report> report = simulate(
        job_of(kCoati + "colossalai_gemini", {std::string("headroom.versions.colossalai=") + release}),
        *load_hardware("rtx_3090"));
    ASSERT_TRUE(report) << report.error().text();
    // Padded to chunks of 33.6 and 44.1 million elements.
    const double padded = 2 * 1'345'228'800.0 + 2 * 352'706'560.0;
    EXPECT_NEAR(static_cast<double>(component_of(*report, "generate", Component::master_weights)), padded, 2e7) << release;
    // The first rank's parts are full: what chunks waste lies on the last one's.
    const auto states = static_cast<double>(component_of(*report, "train_critic", Component::optimizer));
    EXPECT_GT(states, 2 * (kActor + kCritic));
    EXPECT_LT(states, padded + 2e7);
  }
}

}  // namespace
}  // namespace headroom
