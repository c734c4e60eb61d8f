#include "planner/frameworks/chatlearn/read.h"

#include <gmock/gmock.h>

#include "planner/frameworks/registry.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

using testing::HasSubstr;

const std::string kRun = R"(runtime_args:
  train_backend: fsdp
  colocation: [policy, policy_trainer, ref_policy]
  sample_per_episode: 64
  train_micro_batch_size: 2
  train_global_batch_size: 64
  num_inference_per_prompt: 8
models:
  policy_trainer:
    num_gpu: 4
    load: Qwen/Qwen2.5-3B
    free_gpu_memory: {offload_weights: True, offload_optimizer_states: True, free_grad_buffers: True}
    generation_batch_size: 4
  ref_policy: {num_gpu: 4, load: "${models.policy_trainer.load}", free_gpu_memory: {offload_weights: True}, generation_batch_size: 4}
  policy: {num_gpu: 4, load: "${models.policy_trainer.load}", free_gpu_memory: {offload_weights: True}, generation_batch_size: 64}
)";

Result<ReadJob> read(std::vector<std::string> overrides = {}, const std::string& text = kRun) {
  JobOptions options;
  for (const std::string& change : overrides) options.overrides.push_back("++" + change);
  JobInput input;
  HEADROOM_ASSIGN(Document document, parse_document(text, "run.yaml"));
  input.files.push_back({.path = "run.yaml", .document = std::move(document), .text = text});
  return read_job(input, options);
}

std::string complaint(std::vector<std::string> overrides, const std::string& text = kRun) {
  const Result<ReadJob> made = read(std::move(overrides), text);
  return made ? "" : made.error().text();
}

TEST(ChatLearnRead, ModelsAreProcessesThatTakeTurns) {
  const Result<ReadJob> made = read();
  ASSERT_TRUE(made) << made.error().text();
  const Job& job = made->job;
  EXPECT_EQ(job.framework, "chatlearn");
  EXPECT_EQ(job.processes.size(), 3u);
  EXPECT_EQ(job.pools.size(), 1u);
  const Role& actor = *job.role("actor");
  EXPECT_EQ(actor.sharding.kind, ShardingKind::fsdp2);
  EXPECT_EQ(actor.precision.weights, DType::fp32);
  EXPECT_EQ(actor.recompute.kind, RecomputeKind::full);  // whatever gradient_checkpointing says
  EXPECT_EQ(job.engines.front().max_sequences, 64);
  EXPECT_EQ(job.engines.front().sleep_level, 1);
  EXPECT_EQ(job.batch.prompts, 8);
  EXPECT_EQ(job.batch.sequence_length(), 3072);
}

TEST(ChatLearnRead, AModelAloneFreesNothing) {
  const Result<ReadJob> made = read({"runtime_args.colocation=[]"});
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_EQ(made->job.pools.size(), 3u);
  for (const PhaseSpec& phase : made->job.step)
    for (const Action& action : phase.actions) EXPECT_NE(action.verb, Verb::offload);
  std::string said;
  for (const Notice& notice : made->warnings) said += notice.text();
  EXPECT_THAT(said, HasSubstr("shares its GPUs with none frees nothing"));
}

TEST(ChatLearnRead, MegatronComesBackWholeForLogProbs) {
  const Result<ReadJob> made = read({"runtime_args.train_backend=megatron",
                                     "models.policy_trainer.use_distributed_optimizer=true"});
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_EQ(made->job.role("actor")->sharding.kind, ShardingKind::megatron);
  for (const PhaseSpec& phase : made->job.step) {
    if (phase.kind != PhaseKind::actor_logprob) continue;
    unsigned loaded = 0;
    for (const Action& action : phase.actions)
      if (action.verb == Verb::load) loaded |= action.parts;
    EXPECT_EQ(loaded, unsigned{kWeights | kGradients | kOptimizer | kMasterWeights});
  }
}

/// Megatron's checkpoint has no configuration of its own: the engine's is asked.
TEST(ChatLearnRead, MegatronsModelIsTheEngines) {
  const Result<ReadJob> made =
      read({"runtime_args.train_backend=megatron", "models.policy_trainer.load=/checkpoints/of-megatron",
            "models.ref_policy.load=/checkpoints/of-megatron", "models.policy.load=Qwen/Qwen2.5-1.5B-Instruct"});
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_EQ(made->job.role("actor")->model_name, "Qwen/Qwen2.5-1.5B-Instruct");
  EXPECT_THAT(complaint({"models.policy_trainer.load=/checkpoints/of-megatron"}),
              HasSubstr("models.policy_trainer.load: /checkpoints/of-megatron"));
}

TEST(ChatLearnRead, PartialRolloutsAreSaid) {
  const Result<ReadJob> made = read({"runtime_args.use_partial_rollout=true"});
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_TRUE(made->job.not_modelled.empty());
  std::string said;
  for (const Notice& notice : made->warnings) said += notice.text();
  EXPECT_THAT(said, HasSubstr("whole answers"));
}

TEST(ChatLearnRead, RefusesByNameAndPlace) {
  EXPECT_THAT(complaint({"runtime_args.train_global_batch_size=48"}),
              HasSubstr("expected a divisor of sample_per_episode (64), found 48"));
  EXPECT_THAT(complaint({"models.policy.num_gpu=0"}), HasSubstr("models.policy.num_gpu: expected at least 1"));
  EXPECT_THAT(complaint({"runtime_args.train_backend=other"}), HasSubstr("runtime_args.train_backend"));
  EXPECT_THAT(complaint({"models.policy_trainer.num_gpu=four"}),
              HasSubstr("models.policy_trainer.num_gpu: expected an integer"));
  EXPECT_THAT(complaint({}, "runtime_env: {platform: DLC}\nmodels: {policy: {num_gpu: 8}}\nruntime: {}\n"),
              HasSubstr("run.yaml:2: models: expected the model ppo_policy: runs without it are not read"));
}

TEST(ChatLearnRead, ItsOwnFileIsRead) {
  const auto truth = test::truth();
  if (!truth) GTEST_SKIP() << "HEADROOM_TRUTH is not set";
  const std::string path = (truth->parent_path() / "examples/chatlearn/grpo/grpo_fsdp.yaml").string();
  JobOptions options;
  options.model = "Qwen/Qwen2.5-7B";
  const Result<ReadJob> made = read_job(std::vector<std::string>{path}, options);
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_TRUE(made->job.not_modelled.empty());
}

}  // namespace
}  // namespace headroom
