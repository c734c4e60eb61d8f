#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "planner/frameworks/registry.h"
#include "planner/frameworks/verl/knobs.h"
#include "tests/planner/frameworks/examples.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

using testing::HasSubstr;

/// A file that is gone at the end of the test.
class Scratch {
 public:
  explicit Scratch(const std::string& text, const std::string& name = "run.yaml")
      : path_(test::scratch() / name) {
    std::ofstream(path_) << text;
  }
  ~Scratch() { std::filesystem::remove(path_); }
  std::vector<std::string> paths() const { return {path_.string()}; }

 private:
  std::filesystem::path path_;
};

const char* const kMine = R"(# my run
defaults: [ppo_trainer, _self_]

data:
  train_batch_size: 64   # prompts
  max_prompt_length: 512
  max_response_length: 512
  my_own_key: {kept: [1, two]}   # verl's code of ours reads it

actor_rollout_ref:
  model: {path: Qwen/Qwen2.5-0.5B-Instruct}
  actor:
    ppo_mini_batch_size: 32
    ppo_micro_batch_size_per_gpu: 4
    use_kl_loss: true
  ref: {log_prob_micro_batch_size_per_gpu: 4}
  rollout:
    # the engine
    name: vllm
    n: 4
    tensor_model_parallel_size: 1
    log_prob_micro_batch_size_per_gpu: 4
    gpu_memory_utilization: 0.5   # of the card
algorithm: {adv_estimator: grpo}
trainer: {n_gpus_per_node: 2, nnodes: 1}
)";

TEST(VerlWrite, ReadsBackAsTheChosenJob) {
  for (const std::string& path : test::examples("verl")) {
    const Result<ReadJob> read = read_job(std::vector<std::string>{path}, {});
    ASSERT_TRUE(read);
    for (const std::vector<Choice>& choices :
         {std::vector<Choice>{},
          {{"gpu_memory_utilization", "0.3"}, {"param_offload", "true"}, {"max_num_seqs", "128"}},
          {{"dynamic_batching", "true"}, {"token_budget", "10240"}, {"log_prob_token_budget", "20480"}}}) {
      const Result<Job> chosen = verl::with(*read, choices);
      ASSERT_TRUE(chosen) << path << ": " << chosen.error().text();
      const auto settings = verl::settings_for(*read, choices);
      const Result<std::string> text = find_framework("verl")->write(*read, *settings, {.lines = {"test"}});
      ASSERT_TRUE(text) << path << ": " << text.error().text();
      const Scratch file(*text);
      const Result<ReadJob> again = read_job(file.paths(), {});
      ASSERT_TRUE(again) << path << ": " << again.error().text() << "\n" << *text;
      Job expected = *chosen;
      expected.name = again->job.name;
      expected.assumptions = again->job.assumptions;
      EXPECT_TRUE(again->job == expected) << path << "\n" << *text;
    }
  }
}

/// A layout is the actor's and, where it was the same, the reference's.
TEST(VerlWrite, AMegatronLayoutIsReadBackForBothModels) {
  const std::string path = test::source("configs/examples/verl/qwen2.5-7b-grpo-megatron-8xh100.yaml");
  const Result<ReadJob> read = read_job(std::vector<std::string>{path}, {});
  ASSERT_TRUE(read);
  const std::vector<Choice> choices{{"tensor_parallel", "4"},
                                    {"pipeline_parallel", "1"},
                                    {"context_parallel", "2"},
                                    {"sequence_parallel", "false"},
                                    {"distributed_optimizer", "false"}};
  const auto settings = verl::settings_for(*read, choices);
  ASSERT_TRUE(settings) << settings.error().text();
  const Result<std::string> text = find_framework("verl")->write(*read, *settings, {.lines = {"test"}});
  ASSERT_TRUE(text) << text.error().text();
  const Scratch file(*text);
  const Result<ReadJob> again = read_job(file.paths(), {});
  ASSERT_TRUE(again) << again.error().text() << "\n" << *text;
  for (const char* name : {"actor", "ref"}) {
    const Parallel& layout = again->job.role(name)->parallel;
    EXPECT_EQ(layout.tensor, 4) << name;
    EXPECT_EQ(layout.pipeline, 1) << name;
    EXPECT_EQ(layout.context, 2) << name;
    EXPECT_FALSE(layout.sequence) << name;
  }
  EXPECT_FALSE(again->job.role("actor")->sharding.distributed_optimizer);
}

TEST(VerlWrite, KeepsCommentsOrderAndUnknownKeys) {
  const Scratch file(kMine);
  const Result<ReadJob> read = read_job(file.paths(), {});
  ASSERT_TRUE(read) << read.error().text();
  const std::vector<Choice> choices{{"gpu_memory_utilization", "0.35"},
                                    {"param_offload", "true"},
                                    {"max_model_len", "1024"},
                                    {"micro_batch", "8"}};
  const auto settings = verl::settings_for(*read, choices);
  const Result<std::string> text =
      find_framework("verl")->write(*read, *settings, {.lines = {"budget 20 GiB, predicted 18.3 GiB"}});
  ASSERT_TRUE(text) << text.error().text();
  EXPECT_EQ(*text, R"(# Written by Headroom.
# budget 20 GiB, predicted 18.3 GiB

# my run
defaults: [ppo_trainer, _self_]
headroom:
  versions:
    verl: 0.9.0

data:
  train_batch_size: 64   # prompts
  max_prompt_length: 512
  max_response_length: 512
  my_own_key: {kept: [1, two]}   # verl's code of ours reads it

actor_rollout_ref:
  model: {path: Qwen/Qwen2.5-0.5B-Instruct}
  actor:
    ppo_mini_batch_size: 32
    fsdp_config:
      param_offload: true
    ppo_micro_batch_size_per_gpu: 8
    use_kl_loss: true
  ref: {log_prob_micro_batch_size_per_gpu: 4}
  rollout:
    # the engine
    name: vllm
    max_model_len: 1024
    n: 4
    tensor_model_parallel_size: 1
    log_prob_micro_batch_size_per_gpu: 4
    gpu_memory_utilization: 0.35   # of the card
algorithm: {adv_estimator: grpo}
trainer: {n_gpus_per_node: 2, nnodes: 1}
)");
}

TEST(VerlWrite, AHeaderIsReplacedByTheNext) {
  const Scratch file(kMine);
  const Result<ReadJob> read = read_job(file.paths(), {});
  const Result<std::string> first = find_framework("verl")->write(*read, {}, {.lines = {"one", "two"}});
  const Scratch written(*first, "written.yaml");
  const Result<ReadJob> again = read_job(written.paths(), {});
  const Result<std::string> second = find_framework("verl")->write(*again, {}, {.lines = {"three"}});
  // Everything of the first but its header: the release is stated once.
  std::string expected = *first;
  expected.replace(expected.find("# one\n# two"), 11, "# three");
  EXPECT_EQ(*second, expected);
  EXPECT_THAT(*second, HasSubstr("my_own_key: {kept: [1, two]}   # verl's code of ours reads it"));
}

TEST(VerlWrite, TheCommandLineBecomesPartOfTheFile) {
  const Scratch file(kMine);
  JobOptions options;
  options.overrides = {"actor_rollout_ref.rollout.n=8",
                       "+actor_rollout_ref.rollout.engine_kwargs.vllm.block_size=32",
                       "~actor_rollout_ref.rollout.gpu_memory_utilization"};
  options.model = "Qwen/Qwen2.5-1.5B";
  options.gpus_per_node = 4;
  options.versions.framework = "0.8.0";
  const Result<ReadJob> read = read_job(file.paths(), options);
  ASSERT_TRUE(read) << read.error().text();
  const Result<std::string> text = find_framework("verl")->write(*read, {}, {});
  ASSERT_TRUE(text) << text.error().text();
  const Scratch written(*text, "written.yaml");
  const Result<ReadJob> again = read_job(written.paths(), {});
  ASSERT_TRUE(again) << again.error().text() << *text;
  Job expected = read->job;
  expected.name = again->job.name;
  expected.assumptions = again->job.assumptions;
  EXPECT_TRUE(again->job == expected) << *text;
}

TEST(VerlWrite, AListOfOverridesBecomesYaml) {
  const Scratch file(
      "algorithm.adv_estimator=grpo\nactor_rollout_ref.model.path=Qwen/"
      "Qwen2.5-0.5B\nactor_rollout_ref.rollout.name=vllm\n"
      "actor_rollout_ref.actor.use_dynamic_bsz=True\ntrainer.n_gpus_per_node=2\n'trainer.logger=[console,"
      "wandb]'\n",
      "run.args");
  const Result<ReadJob> read = read_job(file.paths(), {});
  ASSERT_TRUE(read) << read.error().text();
  const Result<std::string> text = find_framework("verl")->write(
      *read, std::vector<Setting>{{"actor_rollout_ref.rollout.gpu_memory_utilization", "0.4"}}, {});
  ASSERT_TRUE(text) << text.error().text();
  EXPECT_THAT(*text, HasSubstr("gpu_memory_utilization: 0.4"));
  EXPECT_THAT(*text, HasSubstr("logger: [console, wandb]"));
  EXPECT_THAT(*text, HasSubstr("use_dynamic_bsz: true"));
}

}  // namespace
}  // namespace headroom
