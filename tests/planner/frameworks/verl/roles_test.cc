#include <gmock/gmock.h>

#include <algorithm>

#include "tests/planner/frameworks/verl/run.h"

namespace headroom {
namespace {

using test::job_of;

const std::string kActor = "actor_rollout_ref.actor.";
const std::string kRollout = "actor_rollout_ref.rollout.";

TEST(VerlRoles, StoreShardsInModelDtype) {
  EXPECT_EQ(job_of("0.9.0").role("actor")->precision.weights, DType::fp32);
  EXPECT_EQ(job_of("0.9.0").role("ref")->precision.weights, DType::fp32);
  EXPECT_EQ(job_of("0.5.0").role("ref")->precision.weights, DType::bf16);
  EXPECT_EQ(job_of("0.5.0").role("actor")->precision.weights, DType::fp32);
  const Job half = job_of("0.9.0", {kActor + "fsdp_config.model_dtype=bfloat16",
                                    "+" + kActor + "fsdp_config.mixed_precision.reduce_dtype=bf16"});
  EXPECT_EQ(half.role("actor")->precision.gradients, DType::bf16);
  EXPECT_EQ(half.role("actor")->precision.reduce, DType::bf16);
  EXPECT_TRUE(
      job_of("0.9.0", {kActor + "fsdp_config.dtype=float16"}).role("actor")->precision.gradient_scaler);
}

TEST(VerlRoles, OffloadTheReferenceWhateverItsFlagSays) {
  const Job job = job_of("0.9.0", {"actor_rollout_ref.ref.fsdp_config.param_offload=false"});
  EXPECT_TRUE(job.role("ref")->sharding.cpu_offload);
  EXPECT_FALSE(job.role("actor")->sharding.cpu_offload);
}

TEST(VerlRoles, KeepTheRootWhenNoGroupSizeIsWritten) {
  EXPECT_TRUE(job_of("0.9.0").role("ref")->sharding.root_stays_gathered);
  EXPECT_FALSE(job_of("0.7.1").role("ref")->sharding.root_stays_gathered);
  const Job sized = job_of("0.9.0", {kActor + "fsdp_config.fsdp_size=8"});
  EXPECT_FALSE(sized.role("actor")->sharding.root_stays_gathered);
  EXPECT_TRUE(sized.role("ref")->sharding.root_stays_gathered);
  EXPECT_EQ(sized.role("actor")->sharding.group, 0);
  EXPECT_EQ(job_of("0.9.0", {kActor + "fsdp_config.fsdp_size=4"}).role("actor")->sharding.group, 4);
  EXPECT_FALSE(job_of("0.9.0", {kActor + "strategy=fsdp2"}).role("actor")->sharding.root_stays_gathered);
}

/// Megatron's groups are the first worker's in releases up to 0.7.
TEST(VerlRoles, ShareTheActorsGroupsInOldReleases) {
  const std::vector<std::string> sizes = {kActor + "strategy=megatron", kRollout + "log_prob_micro_batch_size_per_gpu=4",
                                          kActor + "megatron.tensor_model_parallel_size=2",
                                          "actor_rollout_ref.ref.megatron.tensor_model_parallel_size=1"};
  EXPECT_EQ(job_of("0.7.1", sizes).role("ref")->parallel.tensor, 2);
  EXPECT_EQ(job_of("0.8.0", sizes).role("ref")->parallel.tensor, 1);
  const ReadJob read = test::read_run("0.7.1", sizes).value();
  EXPECT_TRUE(std::any_of(read.warnings.begin(), read.warnings.end(), [](const Notice& notice) {
    return notice.key == "actor_rollout_ref.ref.megatron.tensor_model_parallel_size";
  }));
}

TEST(VerlRoles, PaddedLogitsGoThroughThePlainEntropy) {
  const std::vector<std::string> padded = {"actor_rollout_ref.model.use_remove_padding=false",
                                           kActor + "entropy_from_logits_with_chunking=true"};
  const LossSpec loss = job_of("0.9.0", padded).role("actor")->loss;
  EXPECT_FALSE(loss.entropy_compiled);
  EXPECT_EQ(loss.entropy_chunk, 0);
  EXPECT_EQ(loss.token_logprob, TokenLogprob::flash_cross_entropy);
  EXPECT_TRUE(job_of("0.9.0").role("actor")->loss.entropy_compiled);
}

/// Neither flash-attn's attention nor its packing: it is not there.
TEST(VerlRoles, TakeALaunchAroundFlashAttnForOneWithoutIt) {
  std::vector<std::string> around = {"actor_rollout_ref.model.use_remove_padding=false",
                                     "+actor_rollout_ref.model.override_config.attn_implementation=sdpa"};
  EXPECT_EQ(job_of("0.9.0", around).role("actor")->loss.token_logprob, TokenLogprob::selective_log_softmax);
  around.erase(around.begin());
  EXPECT_EQ(job_of("0.9.0", around).role("actor")->loss.token_logprob, TokenLogprob::flash_cross_entropy);
}

TEST(VerlRoles, DeferGradientsSince09) {
  EXPECT_TRUE(job_of("0.9.0").role("actor")->sharding.defer_gradient_sync);
  EXPECT_FALSE(job_of("0.8.0").role("actor")->sharding.defer_gradient_sync);
}

TEST(VerlRoles, FormLogProbsAsTheReleaseDoes) {
  const LossSpec now = job_of("0.9.0").role("actor")->loss, before = job_of("0.7.0").role("actor")->loss;
  EXPECT_TRUE(now.temperature_copy);
  EXPECT_FALSE(before.temperature_copy);
  EXPECT_EQ(now.token_logprob, TokenLogprob::flash_cross_entropy);
  EXPECT_EQ(now.logprob_entropy, Entropy::forward);
  EXPECT_EQ(now.train_entropy, Entropy::none);
  EXPECT_EQ(job_of("0.9.0").role("ref")->loss.logprob_entropy, Entropy::none);
  EXPECT_EQ(job_of("0.3.0").role("actor")->loss.train_entropy, Entropy::backward);  // entropy_coeff was 0.001
  EXPECT_TRUE(
      job_of("0.8.0", {"+" + kActor + "calculate_entropy=true"}).role("actor")->loss.keeps_unused_graph);
  const LossSpec fused =
      job_of("0.9.0", {"actor_rollout_ref.model.use_fused_kernels=true"}).role("actor")->loss;
  EXPECT_EQ(fused.token_logprob, TokenLogprob::fused_linear);
  EXPECT_EQ(fused.chunk, 512);
  EXPECT_EQ(job_of("0.9.0", {"actor_rollout_ref.model.use_fused_kernels=true",
                             "actor_rollout_ref.model.fused_kernel_options.impl_backend=triton"})
                .role("actor")
                ->loss.chunk,
            0);
}

TEST(VerlRoles, CountMiniBatchesInPromptsAndBudgetsAGpu) {
  const Job job =
      job_of("0.9.0", {kActor + "use_dynamic_bsz=true", kActor + "ppo_max_token_len_per_gpu=4096"});
  EXPECT_EQ(job.batch.mini_batch, 128);
  EXPECT_EQ(job.role("actor")->train.tokens, 4096);
  EXPECT_EQ(job.role("ref")->forward.tokens, 4096);  // follows by reference
  EXPECT_EQ(job.role("actor")->train.sequences, 0);
}

TEST(VerlRoles, DivideOldGlobalSizesOverTheRanks) {
  const std::vector<std::string> global = {kActor + "ppo_micro_batch_size_per_gpu=null",
                                           kActor + "ppo_micro_batch_size=32",
                                           kActor + "ulysses_sequence_parallel_size=2"};
  EXPECT_EQ(job_of("0.7.0", global).role("actor")->train.sequences, 8);
  EXPECT_THAT(test::complaint("0.8.0", global),
              testing::HasSubstr("ppo_micro_batch_size: is a global size that verl 0.8.0 no longer divides"));
}

TEST(VerlRoles, TheV1CriticHasABudgetOfItsOwn) {
  const std::vector<std::string> ppo = {"algorithm.adv_estimator=gae",
                                        "critic.ppo_micro_batch_size_per_gpu=2",
                                        "critic.ppo_max_token_len_per_gpu=8192"};
  const Result<ReadJob> read = test::read_run("0.9.0", ppo);
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->job.role("critic")->train.tokens, 32768);
  ASSERT_EQ(read->warnings.size(), 1U);
  EXPECT_THAT(read->warnings[0].text(),
              testing::HasSubstr("--set: critic.ppo_max_token_len_per_gpu: is not read by the V1 trainer"));
  std::vector<std::string> old = ppo;
  old.push_back("trainer.use_v1=false");
  EXPECT_EQ(job_of("0.9.0", old).role("critic")->train.sequences, 2);
  EXPECT_EQ(job_of("0.8.0", ppo).role("critic")->head, HeadKind::token_classification);
}

TEST(VerlEngines, CountLengthsAsTheReleaseDoes) {
  EXPECT_EQ(job_of("0.6.0").engine("rollout")->max_length, 1024);
  EXPECT_EQ(job_of("0.7.0", {kRollout + "max_model_len=2048"}).engine("rollout")->max_length, 0);
  EXPECT_EQ(job_of("0.7.1", {kRollout + "max_model_len=2048"}).engine("rollout")->max_length, 2048);
  EXPECT_EQ(job_of("0.9.0").engine("rollout")->max_length, 0);
}

TEST(VerlEngines, SleepAsTheReleaseDoes) {
  EXPECT_EQ(job_of("0.5.0").engine("rollout")->sleep_level, 1);
  EXPECT_EQ(job_of("0.6.0").engine("rollout")->sleep_level, 2);
  EXPECT_EQ(job_of("0.6.0", {"headroom.versions.vllm=0.8.4"}).engine("rollout")->sleep_level, 1);
  EXPECT_EQ(job_of("0.9.0", {"actor_rollout_ref.model.lora_rank=16", kRollout + "load_format=auto"})
                .engine("rollout")
                ->sleep_level,
            1);
  EXPECT_EQ(job_of("0.8.0", {kRollout + "name=sglang"}).engine("rollout")->sleep_level, 2);
  EXPECT_EQ(job_of("0.9.0", {kRollout + "name=sglang"}).engine("rollout")->sleep_level, 1);
  EXPECT_EQ(job_of("0.9.0", {kRollout + "free_cache_engine=false"}).engine("rollout")->sleep_level, 0);
}

TEST(VerlEngines, AccountAsTheirOwnReleaseDoes) {
  EXPECT_TRUE(job_of("0.9.0", {"headroom.versions.vllm=0.21.0"}).engine("rollout")->graphs_in_budget);
  EXPECT_FALSE(job_of("0.9.0", {"headroom.versions.vllm=0.20.2"}).engine("rollout")->graphs_in_budget);
  EXPECT_FALSE(job_of("0.9.0", {"headroom.versions.vllm=0.26.0"}).engine("rollout")->graphs_in_budget);
  EXPECT_EQ(job_of("0.9.0", {"headroom.versions.vllm=0.26.0"}).engine("rollout")->sampler_rows_factor, 3.5);
  EXPECT_TRUE(job_of("0.5.0", {"headroom.versions.vllm=0.9.1"}).engine("rollout")->counts_others);
  EXPECT_FALSE(job_of("0.5.0", {"headroom.versions.vllm=0.9.2"}).engine("rollout")->counts_others);
  EXPECT_TRUE(
      job_of("0.9.0",
             {"+ray_kwargs.ray_init.runtime_env.env_vars.VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS='1'",
              "headroom.versions.vllm=0.19.0"})
          .engine("rollout")
          ->graphs_in_budget);
}

TEST(VerlEngines, TakeTheirOwnArgumentsOverVerls) {
  const Job job = job_of("0.9.0", {"+" + kRollout + "engine_kwargs.vllm.gpu_memory_utilization=0.7",
                                   "+" + kRollout + "engine_kwargs.vllm.kv_cache_dtype=fp8_e4m3",
                                   "+" + kRollout + "engine_kwargs.vllm.block_size=32",
                                   "+" + kRollout + "engine_kwargs.vllm.swap_space=4"});
  const Engine& engine = *job.engine("rollout");
  EXPECT_EQ(engine.utilization, 0.7);
  EXPECT_EQ(engine.kv, DType::fp8);
  EXPECT_EQ(engine.block_size, 32);
  EXPECT_EQ(engine.host_swap, 4 * kGiB);
}

TEST(VerlEngines, ReceiveWeightsAsTheReleaseSends) {
  const WeightSync now = job_of("0.9.0").engine("rollout")->sync;
  EXPECT_EQ(now.kind, WeightExport::sharded_state_dict);
  EXPECT_EQ(now.dtype, DType::fp32);
  EXPECT_EQ(now.bucket, 2 * kGiB);
  EXPECT_EQ(job_of("0.8.0").engine("rollout")->sync.dtype, DType::bf16);
  EXPECT_EQ(job_of("0.7.0").engine("rollout")->sync.bucket, 512 * kMiB);
  EXPECT_EQ(job_of("0.9.0", {kActor + "strategy=fsdp2"}).engine("rollout")->sync.kind,
            WeightExport::per_tensor);
  const std::vector<std::string> lora = {"actor_rollout_ref.model.lora_rank=20",
                                         kRollout + "load_format=safetensors"};
  EXPECT_EQ(job_of("0.9.0", lora).engine("rollout")->sync.kind, WeightExport::full_parameters);
  EXPECT_EQ(job_of("0.9.0", lora).engine("rollout")->lora_rank, 32);  // the next that vLLM serves
}

TEST(VerlProcesses, LiveWhereTheReleasePutsThem) {
  EXPECT_EQ(job_of("0.6.0", {kRollout + "mode=sync"}).processes.size(), 1U);
  EXPECT_EQ(job_of("0.9.0").processes.size(), 2U);
  const Job apart = job_of("0.9.0", {kRollout + "nnodes=2", kRollout + "n_gpus_per_node=4"});
  ASSERT_EQ(apart.pools.size(), 2U);
  EXPECT_EQ(apart.pools[1].gpus(), 8);
  EXPECT_EQ(apart.process("rollout")->pool, "rollout");
  EXPECT_EQ(apart.engine("rollout")->sleep_level, 0);
}

TEST(VerlRoles, HoldLayersForMultiTokenPredictionWhereToldToAndTrainThemWhereToldTo) {
  const auto job = [](std::vector<std::string> more) {
    more.insert(more.end(), {"+model_engine=megatron", "actor_rollout_ref.model.path=XiaomiMiMo/MiMo-7B-RL"});
    return test::job_of("0.9.0", more);
  };
  const std::string mtp = "actor_rollout_ref.model.mtp.";
  EXPECT_EQ(job({}).role("actor")->megatron.mtp_layers, 0);
  EXPECT_EQ(job({mtp + "enable=true"}).role("actor")->megatron.mtp_layers, 1);
  EXPECT_FALSE(job({mtp + "enable=true"}).role("actor")->megatron.mtp_trained);
  EXPECT_TRUE(job({mtp + "enable=true", mtp + "enable_train=true"}).role("actor")->megatron.mtp_trained);
  EXPECT_THAT(job({mtp + "enable_rollout=true"}).not_modelled, testing::Not(testing::IsEmpty()));
  EXPECT_THAT(test::complaint("0.9.0", {"+model_engine=megatron", mtp + "enable=true"}),
              testing::HasSubstr("mtp.enable: expected a model with layers for multi-token prediction, found qwen2"));
}

/// 0.6.0 alone cut experts by no tensor ranks unless it was told; else they are cut as everything is.
TEST(VerlRoles, ExpertsFollowTheTensorRanksButInOneRelease) {
  for (const auto& [release, size] : {std::pair{"0.5.0", 0}, std::pair{"0.6.0", 1}, std::pair{"0.7.1", 0}}) {
    const Job job = test::job_of(release, {"actor_rollout_ref.model.path=Qwen/Qwen3-30B-A3B",
                                           "actor_rollout_ref.actor.strategy=megatron",
                                           "actor_rollout_ref.ref.strategy=megatron",
                                           "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2",
                                           "actor_rollout_ref.ref.megatron.tensor_model_parallel_size=2",
                                           "actor_rollout_ref.actor.megatron.expert_model_parallel_size=4",
                                           "actor_rollout_ref.ref.megatron.expert_model_parallel_size=4"});
    ASSERT_NE(job.role("actor"), nullptr);
    EXPECT_EQ(job.role("actor")->parallel.expert_tensor, size) << release;
  }
}

}  // namespace
}  // namespace headroom
