#include <gmock/gmock.h>

#include "tests/planner/frameworks/verl/run.h"

namespace headroom {
namespace {

using test::complaint;
using testing::HasSubstr;

const std::string kActor = "actor_rollout_ref.actor.";
const std::string kRollout = "actor_rollout_ref.rollout.";

TEST(VerlProblems, GroupsMustDivideTheGpus) {
  EXPECT_THAT(complaint("0.9.0", {kRollout + "tensor_model_parallel_size=3"}),
              HasSubstr("--set: " + kRollout +
                        "tensor_model_parallel_size: expected an engine (tensor x data x pipeline) whose "
                        "size divides the 8 GPUs, found 3"));
  EXPECT_THAT(complaint("0.9.0", {kRollout + "tensor_model_parallel_size=8"}),
              HasSubstr("a divisor of the model's 28 attention heads, found 8"));
  EXPECT_THAT(complaint("0.9.0", {kActor + "ulysses_sequence_parallel_size=8"}),
              HasSubstr("ulysses_sequence_parallel_size: expected a divisor of the model's 28"));
  EXPECT_THAT(complaint("0.9.0", {kActor + "ulysses_sequence_parallel_size=3"}),
              HasSubstr("divides the 8 GPUs, found 3"));
  EXPECT_THAT(complaint("0.9.0", {kActor + "fsdp_config.fsdp_size=3"}),
              HasSubstr("fsdp_size: expected a divisor of the 8 GPUs"));
  EXPECT_THAT(complaint("0.9.0", {kRollout + "expert_parallel_size=4"}),
              HasSubstr("expert_parallel_size: expected tensor x data parallel size (2)"));
  EXPECT_THAT(complaint("0.9.0", {"trainer.n_gpus_per_node=0"}),
              HasSubstr("trainer.n_gpus_per_node: expected an integer from 1"));
  EXPECT_THAT(complaint("0.9.0", {"trainer.nnodes=-1"}),
              HasSubstr("trainer.nnodes: expected an integer from 1"));
}

TEST(VerlProblems, OldReleasesTellTheEngineTheWholeLength) {
  EXPECT_THAT(complaint("0.5.0", {"data.max_response_length=40000"}),
              HasSubstr("data.max_response_length: expected prompt and response within the model's 32768"));
  EXPECT_EQ(complaint("0.9.0", {"data.max_response_length=40000"}), "");  // responses are cut: a warning
}

TEST(VerlProblems, OldReleasesServeTheLongestSequenceInOneBatch) {
  EXPECT_THAT(complaint("0.5.0", {kRollout + "max_num_batched_tokens=1023"}),
              HasSubstr("max_num_batched_tokens: expected at least the longest sequence's"));
  EXPECT_EQ(complaint("0.9.0", {kRollout + "max_num_batched_tokens=1023"}), "");
}

TEST(VerlProblems, BatchesMustDivide) {
  EXPECT_THAT(complaint("0.9.0", {"data.train_batch_size=16"}),
              HasSubstr("run.yaml:5: " + kActor +
                        "ppo_mini_batch_size: expected at most data.train_batch_size (16 prompts)"));
  EXPECT_THAT(complaint("0.9.0", {kActor + "ppo_mini_batch_size=3"}), HasSubstr("12 sequences"));
  EXPECT_THAT(complaint("0.9.0", {kActor + "ppo_micro_batch_size_per_gpu=5"}),
              HasSubstr("expected a divisor of the 16 sequences that a rank has of a mini-batch, found 5"));
  EXPECT_THAT(complaint("0.9.0", {"data.train_batch_size=65", kRollout + "n=1"}),
              HasSubstr("divide over the 8 GPUs, found 65"));
  EXPECT_EQ(complaint("0.8.0", {"data.train_batch_size=66"}), "");
}

TEST(VerlProblems, PassesWithoutGradientsTakeWholeMicroBatchesSince09) {
  EXPECT_THAT(complaint("0.9.0", {"data.train_batch_size=66"}),
              HasSubstr("log_prob_micro_batch_size_per_gpu: expected a divisor of the 33 sequences that a rank "
                        "has of a step, found 4"));
  EXPECT_THAT(complaint("0.9.0", {"actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=5"}),
              HasSubstr("ref.log_prob_micro_batch_size_per_gpu: expected a divisor of the "));
}

TEST(VerlProblems, SizesMustBeGiven) {
  EXPECT_THAT(
      complaint("0.9.0", {kActor + "ppo_micro_batch_size_per_gpu=null"}),
      HasSubstr("ppo_micro_batch_size_per_gpu: expected a size (use_dynamic_bsz is false), found null"));
  EXPECT_THAT(complaint("0.9.0", {"actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=null"}),
              HasSubstr("ref.log_prob_micro_batch_size_per_gpu"));
  EXPECT_THAT(complaint("0.9.0", {"~" + kRollout + "name"}),
              HasSubstr("rollout.name: is mandatory and not set"));
  EXPECT_EQ(complaint("0.5.0", {"~" + kRollout + "name"}), "");
}

TEST(VerlProblems, BudgetsMustHoldTheLongestSequence) {
  EXPECT_THAT(
      complaint("0.9.0", {kActor + "use_dynamic_bsz=true", kActor + "ppo_max_token_len_per_gpu=1000"}),
      HasSubstr("expected a budget that holds the longest sequence (1024 tokens = prompt 512 + response "
                "512), found 1000"));
  EXPECT_EQ(complaint("0.9.0", {kActor + "use_dynamic_bsz=true", kActor + "ppo_max_token_len_per_gpu=512",
                                kActor + "ulysses_sequence_parallel_size=2"}),
            "");
}

TEST(VerlProblems, FlagsMustAgree) {
  EXPECT_THAT(complaint("0.9.0", {kRollout + "log_prob_use_dynamic_bsz=true"}),
              HasSubstr("expected the same value as actor.use_dynamic_bsz"));
  EXPECT_EQ(complaint("0.8.0", {kRollout + "log_prob_use_dynamic_bsz=true"}), "");
  EXPECT_THAT(complaint("0.9.0", {kActor + "ulysses_sequence_parallel_size=2",
                                  "actor_rollout_ref.model.use_remove_padding=false"}),
              HasSubstr("needs use_remove_padding=true"));
  EXPECT_THAT(complaint("0.9.0", {"actor_rollout_ref.model.lora_rank=8", kRollout + "layered_summon=true"}),
              HasSubstr("layered_summon needs weights from disk"));
  EXPECT_THAT(complaint("0.9.0", {kRollout + "max_model_len=1000000"}),
              HasSubstr("max_model_len: expected at most the model's 32768 positions"));
  EXPECT_THAT(complaint("0.9.0", {"trainer.v1.trainer_mode=separate_async"}), HasSubstr("rollout.nnodes"));
  EXPECT_THAT(complaint("0.9.0", {"actor_rollout_ref.hybrid_engine=false"}),
              HasSubstr("hybrid_engine: expected GPUs for the rollout"));
}

TEST(VerlProblems, TheAllocatorIsPyTorchsOwn) {
  const std::string variables = "+ray_kwargs.ray_init.runtime_env.env_vars.";
  EXPECT_THAT(complaint("0.9.0", {variables + "PYTORCH_CUDA_ALLOC_CONF='backend:cudaMallocAsync'"}),
              HasSubstr("PYTORCH_CUDA_ALLOC_CONF: backend: expected native, found cudaMallocAsync"));
  EXPECT_THAT(complaint("0.9.0", {variables + "PYTORCH_ALLOC_CONF='max_split_size_mb:few'"}),
              HasSubstr("PYTORCH_ALLOC_CONF: max_split_size_mb"));
}

TEST(VerlProblems, WrongTypesAreErrorsAtTheirPlace) {
  EXPECT_THAT(
      complaint("0.9.0", {"data.train_batch_size=many"}),
      HasSubstr("--set: data.train_batch_size: expected an integer from 0 to 1073741824, found many"));
  EXPECT_THAT(complaint("0.9.0", {"data.train_batch_size=99999999999999999999999"}),
              HasSubstr("found 99999999999999999999999"));
  EXPECT_THAT(complaint("0.9.0", {"data.train_batch_size=1e30"}), HasSubstr("expected an integer"));
  EXPECT_THAT(complaint("0.9.0", {"data.max_response_length=-1"}),
              HasSubstr("data.max_response_length: expected an integer from 1"));
  EXPECT_THAT(complaint("0.9.0", {kRollout + "gpu_memory_utilization=1.2"}),
              HasSubstr("expected a number from 0 to 1, found 1.2"));
  EXPECT_THAT(complaint("0.9.0", {kRollout + "gpu_memory_utilization=0"}), HasSubstr("above 0"));
  EXPECT_THAT(complaint("0.9.0", {kActor + "use_kl_loss=[1]"}),
              HasSubstr("use_kl_loss: expected true or false, found a list"));
  EXPECT_THAT(complaint("0.9.0", {kActor + "fsdp_config.model_dtype=fp33"}),
              HasSubstr("expected a dtype such as"));
  EXPECT_THAT(complaint("0.9.0", {kActor + "strategy=ddp"}),
              HasSubstr("expected fsdp, fsdp2 or megatron, found ddp"));
  EXPECT_THAT(complaint("0.9.0", {kRollout + "name=tgi"}),
              HasSubstr("expected one of vllm, sglang, trtllm, hf, dynamo, found tgi"));
  EXPECT_THAT(complaint("0.9.0", {"critic.ppo_max_token_len_per_gpu=[1]"}),
              HasSubstr("critic.ppo_max_token_len_per_gpu: expected an integer"));  // though no critic runs
  EXPECT_THAT(complaint("0.9.0", {"actor_rollout_ref.model.path=Qwen/Qwen2.5-77B"}),
              HasSubstr("actor_rollout_ref.model.path: Qwen/Qwen2.5-77B: there is no directory"));
}

/// The rollout in the trainer's process refuses fewer batched tokens than its longest sequence; a server does
/// only where a prompt can't come in pieces.
TEST(VerlProblems, BatchedTokensMatterWhereSomebodyRefuses) {
  const std::string rollout = "actor_rollout_ref.rollout.";
  const std::string few = rollout + "max_num_batched_tokens=512";
  EXPECT_THAT(test::complaint("0.5.0", {few, rollout + "mode=sync"}), testing::HasSubstr("rollout refuses less"));
  EXPECT_EQ(test::complaint("0.5.0", {few, rollout + "mode=async"}), "");
  EXPECT_EQ(test::complaint("0.9.0", {few}), "");
  EXPECT_THAT(test::complaint("0.9.0", {few, rollout + "enable_chunked_prefill=false"}),
              testing::HasSubstr("enable_chunked_prefill is false"));
}

/// Workers of releases before 0.8 round a rank's share of a mini-batch down; later ones refuse.
TEST(VerlProblems, AMiniBatchNeedNotDivideOverTheRanksOfOldWorkers) {
  const std::vector<std::string> odd = {"trainer.n_gpus_per_node=6", "data.train_batch_size=96",
                                        "actor_rollout_ref.actor.ppo_mini_batch_size=20",
                                        "actor_rollout_ref.actor.use_dynamic_bsz=true",
                                        "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=true"};
  EXPECT_EQ(test::complaint("0.7.1", odd), "");
  EXPECT_THAT(test::complaint("0.8.0", odd), testing::HasSubstr("divide over 6"));
}

}  // namespace
}  // namespace headroom
