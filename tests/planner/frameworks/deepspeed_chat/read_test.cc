#include "planner/frameworks/deepspeed_chat/read.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "simulator/phases/simulate.h"
#include "tests/planner/frameworks/case_reading.h"

namespace headroom {
namespace {

constexpr const char* kCase = R"({
  "actor": {"model_type": "opt", "vocab_size": 512, "hidden_size": 64, "ffn_dim": 128,
            "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 128,
            "word_embed_proj_dim": 64},
  "batch": 2, "prompt": 16, "response": 8, "dtype": "fp16", "steps": 2, "zero_stage": 2,
  "fp16_extra": {"initial_scale_power": 4}, "name": "small"})";

Job job_of(std::vector<std::string> overrides = {}) {
  const Result<ReadJob> read = test::read_case(kCase, std::move(overrides));
  EXPECT_TRUE(read) << read.error().text();
  return read->job;
}

Bytes peak(const Report& report, const std::string& phase, int step) {
  for (const PhaseReport& row : report.devices[0].phases)
    if (row.phase == phase && row.step == step) return row.processes[0].peak_allocated;
  ADD_FAILURE() << "no phase " << phase << " in step " << step;
  return 0;
}

Report simulated(const Job& job) {
  const Result<Report> report = simulate(job, {});
  EXPECT_TRUE(report) << report.error().text();
  return *report;
}

TEST(DeepSpeedChat, IsDetectedByItsStage) {
  const Job job = job_of();
  EXPECT_EQ(job.framework, "deepspeed-chat");
  ASSERT_EQ(job.roles.size(), 4u);
  EXPECT_EQ(job.role("actor")->sharding.kind, ShardingKind::zero2);
  // Below stage 3 reference and reward hold whole weights.
  EXPECT_EQ(job.role("ref")->sharding.kind, ShardingKind::zero0);
  EXPECT_EQ(job.batch.prompts, 4);
}

TEST(DeepSpeedChat, ReadsOnlyTheCaseOfARecording) {
  test::expect_only_the_case_is_read(kCase, R"("phases": "rubbish", "engines": 7)");
}

TEST(DeepSpeedChat, ErrorsNameTheKey) {
  test::expect_refused(kCase, {{"zero_stage=4", "zero_stage"},
                               {"dtype=fp8", "dtype"},
                               {"batch=0", "batch"},
                               {"response=many", "response"},
                               {"prompt=127", "response"},
                               {"empty_cache=often", "empty_cache"},
                               {"sub_group_size=1", "sub_group_size"},
                               {"gradient_accumulation_steps=2", "gradient_accumulation_steps"},
                               {"enable_hybrid_engine=true", "enable_hybrid_engine"},
                               {"actor_lora_dim=-1", "actor_lora_dim"},
                               {"zero_extra.reduce_bucket_size=0", "zero_extra.reduce_bucket_size"},
                               {"actor.model_type=none", "actor.model_type"}});
}

/// Adapters freeze the weights beside them; the rest trains unless the script is told otherwise.
TEST(DeepSpeedChat, AdaptersLeaveFewerStates) {
  const auto states = [](std::vector<std::string> changes) {
    changes.push_back("zero_stage=2");
    const Report report = simulated(job_of(std::move(changes)));
    Bytes most = 0;
    for (const PhaseReport& phase : report.devices.front().phases)
      if (phase.phase == "train_critic")
        most = std::max(most, phase.processes.front().at_peak_allocated[Component::master_weights]);
    return most;
  };
  const Bytes whole = states({}), rest = states({"actor_lora_dim=8", "critic_lora_dim=8"}),
              adapters = states({"actor_lora_dim=8", "critic_lora_dim=8", "only_optimize_lora=true"});
  EXPECT_LT(rest, whole);
  EXPECT_LT(adapters, rest);
  EXPECT_GT(adapters, 0);
}

TEST(DeepSpeedChat, OffloadNeedsSharding) {
  const Result<ReadJob> read = test::read_case(kCase, {"offload=true", "zero_stage=0"});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().key, "offload");
}

TEST(DeepSpeedChat, BucketsAreOfTheirSizeWhateverTheModel) {
  const Report report = simulated(job_of());
  EXPECT_GE(peak(report, "train_actor", 0), 2 * 2 * Bytes{500'000'000});
  const Report whole = simulated(job_of({"zero_stage=0"}));
  EXPECT_LT(peak(whole, "train_actor", 0), 2 * Bytes{500'000'000});
}

TEST(DeepSpeedChat, ZeroKeysHaveTheirEffects) {
  const auto peak_of = [](std::vector<std::string> changes) {
    return peak(simulated(job_of(std::move(changes))), "train_actor", 0);
  };
  const Bytes usual = peak_of({});
  EXPECT_LT(peak_of({"reduce_bucket_size=1000000"}), usual);
  EXPECT_EQ(peak_of({"zero_extra.reduce_bucket_size=1000000"}), peak_of({"reduce_bucket_size=1000000"}));
  // One bucket instead of two; none.
  EXPECT_LT(peak_of({"overlap_comm=false"}), usual);
  EXPECT_LT(peak_of({"contiguous_gradients=false"}), peak_of({"overlap_comm=false"}));
  const Job job = job_of({"zero_stage=3", "stage3_max_live_parameters=7", "stage3_prefetch_bucket_size=8",
                          "stage3_param_persistence_threshold=9", "stage3_max_reuse_distance=10",
                          "offload_reference_model=true"});
  const Sharding& actor = job.role("actor")->sharding;
  EXPECT_EQ(actor.max_live_parameters, 7);
  EXPECT_EQ(actor.prefetch_bucket, 8);
  EXPECT_EQ(actor.persistence_threshold, 9);
  EXPECT_EQ(actor.max_reuse_distance, 10);
  EXPECT_TRUE(job.role("ref")->sharding.offload_parameters);
  EXPECT_FALSE(job.role("reward")->sharding.offload_parameters);
  EXPECT_EQ(job_of({"fp16_extra.initial_scale_power=16", "fp16_extra.loss_scale=128"})
                .role("actor")
                ->precision.skipped_steps,
            0);
}

TEST(DeepSpeedChat, SkippedStepsLeaveGradientsBehindOnce) {
  const Report skipping = simulated(job_of({"fp16_extra.initial_scale_power=16", "steps=4"}));
  const Bytes second = peak(skipping, "train_critic", 1), third = peak(skipping, "train_critic", 2);
  EXPECT_GT(second, peak(skipping, "train_critic", 0));
  EXPECT_EQ(second, third);
}

TEST(DeepSpeedChat, OffloadTakesStatesOffTheDevice) {
  const Report report = simulated(job_of({"offload=true"}));
  const PhaseReport& last = report.devices[0].phases.back();
  EXPECT_EQ(last.processes[0].at_peak_allocated[Component::optimizer], 0);
  EXPECT_EQ(last.processes[0].at_peak_allocated[Component::master_weights], 0);
  EXPECT_GT(last.at_peak_host[Component::master_weights], 0);
  EXPECT_GT(last.at_peak_host[Component::optimizer], 0);
}

TEST(DeepSpeedChat, EveryStageAndPrecisionRuns) {
  for (const char* dtype : {"fp16", "bf16"})
    for (const char* stage : {"0", "1", "2", "3"}) {
      std::vector<std::string> changes = {std::string("dtype=") + dtype, std::string("zero_stage=") + stage};
      const Report report = simulated(job_of(changes));
      EXPECT_FALSE(report.devices[0].phases.empty()) << dtype << " " << stage;
    }
}

const PhaseReport& phase_of(const Report& report, const std::string& name, int step) {
  for (const PhaseReport& row : report.devices[0].phases)
    if (row.phase == name && row.step == step) return row;
  ADD_FAILURE() << "no phase " << name << " in step " << step;
  return report.devices[0].phases.front();
}

Bytes rise(const Report& report, const std::string& name, int step) {
  const PhaseReport& row = phase_of(report, name, step);
  return row.processes[0].peak_allocated - row.processes[0].allocated_start;
}

TEST(DeepSpeedChat, StageThreeSpreadsAllEngines) {
  const Job job = job_of({"zero_stage=3"});
  for (const char* role : {"actor", "ref", "critic", "reward"})
    EXPECT_EQ(job.role(role)->sharding.kind, ShardingKind::zero3) << role;
  // Only trained engines are told to keep little gathered.
  EXPECT_LT(job.role("actor")->sharding.max_live_parameters, job.role("ref")->sharding.max_live_parameters);
  EXPECT_FALSE(job_of({"zero_stage=2", "offload=true"}).role("actor")->sharding.offload_parameters);
  EXPECT_TRUE(job_of({"zero_stage=3", "offload=true"}).role("actor")->sharding.offload_parameters);
  EXPECT_FALSE(job_of({"zero_stage=3", "offload=true"}).role("ref")->sharding.offload_parameters);
}

TEST(DeepSpeedChat, StageThreeFetchesAheadOnceAForwardWasSeen) {
  // A wide model: what is fetched ahead stands out against activations.
  const std::vector<std::string> wide = {"zero_stage=3", "actor.hidden_size=1024", "actor.ffn_dim=4096",
                                         "actor.word_embed_proj_dim=1024", "steps=3"};
  const Report report = simulated(job_of(wide));
  const Bytes layer = 2 * 12 * 1024 * 1024;
  // The reference's first forward gathers module by module, later ones the whole model ahead.
  EXPECT_LT(rise(report, "ref_logprob", 0), layer);
  EXPECT_GT(rise(report, "ref_logprob", 1), layer);
  // Reward models are called around their root's hooks: they never fetch ahead.
  EXPECT_EQ(rise(report, "reward", 1), rise(report, "reward", 0));
}

TEST(DeepSpeedChat, StageThreeKeepsLinearWeightsUntilTheirBackward) {
  const std::vector<std::string> changes = {"zero_stage=3", "actor.num_hidden_layers=3"};
  std::vector<std::string> deeper = changes;
  deeper.back() = "actor.num_hidden_layers=4";
  const Report three = simulated(job_of(changes)), four = simulated(job_of(deeper));
  const PhaseReport &a = phase_of(three, "train_actor", 1), &b = phase_of(four, "train_actor", 1);
  const Bytes linear_weights = 2 * 12 * 64 * 64 * 2;  // q, k, v, out and two of twice the width: 8 h^2
  EXPECT_GE(b.processes[0].at_peak_allocated[Component::gathered_parameters] -
                a.processes[0].at_peak_allocated[Component::gathered_parameters],
            linear_weights * 8 / 24);
}

/// Gathered parameters at the highest moment of each phase after the start.
std::vector<Bytes> gathered(const Report& report) {
  std::vector<Bytes> out;
  for (const PhaseReport& row : report.devices[0].phases)
    if (row.step >= 0) out.push_back(row.processes[0].at_peak_allocated[Component::gathered_parameters]);
  return out;
}

TEST(DeepSpeedChat, StageThreeGathersNothingWithOneRank) {
  const std::vector<Bytes> device = gathered(simulated(job_of({"zero_stage=3", "world=1"})));
  EXPECT_EQ(*std::max_element(device.begin(), device.end()), 0);
  // From the host comes a copy of each weight, and nothing that joins several.
  const std::vector<Bytes> alone = gathered(simulated(job_of({"zero_stage=3", "offload=true", "world=1"}))),
                           two = gathered(simulated(job_of({"zero_stage=3", "offload=true"})));
  const Bytes most = *std::max_element(alone.begin(), alone.end());
  EXPECT_GT(most, 0);
  EXPECT_LT(most, *std::max_element(two.begin(), two.end()));
}

TEST(DeepSpeedChat, StageThreeOffloadsWeightsToo) {
  const Report report = simulated(job_of({"zero_stage=3", "offload=true"}));
  const PhaseReport& last = report.devices[0].phases.back();
  EXPECT_EQ(last.processes[0].at_peak_allocated[Component::optimizer], 0);
  EXPECT_EQ(last.processes[0].at_peak_allocated[Component::master_weights], 0);
  EXPECT_GT(last.at_peak_host[Component::weights], 0);
  const Report device = simulated(job_of({"zero_stage=3"}));
  EXPECT_GT(device.devices[0].phases.back().processes[0].at_peak_allocated[Component::weights],
            last.processes[0].at_peak_allocated[Component::weights]);
}

}  // namespace
}  // namespace headroom
