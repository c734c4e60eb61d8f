#include "planner/frameworks/easyr1/read.h"

#include <gmock/gmock.h>

#include "planner/frameworks/registry.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

using testing::HasSubstr;

const std::string kPath = test::source("configs/examples/easyr1/qwen2.5-7b-grpo-8xh100.yaml");

Result<ReadJob> read(std::vector<std::string> overrides = {}) {
  JobOptions options;
  for (const std::string& change : overrides) options.overrides.push_back("++" + change);
  return read_job(std::vector<std::string>{kPath}, options);
}

TEST(EasyR1Read, ItsKeysAreVerlsUnderOtherNames) {
  const Result<ReadJob> made = read();
  ASSERT_TRUE(made) << made.error().text();
  const Job& job = made->job;
  EXPECT_EQ(job.framework, "easyr1");
  EXPECT_EQ(job.batch.prompts, 256);
  EXPECT_EQ(job.batch.samples, 8);
  EXPECT_EQ(job.role("actor")->train.tokens, 2 * (job.batch.prompt_length + job.batch.response_length));
  EXPECT_EQ(job.role("ref")->forward.tokens, 8 * (job.batch.prompt_length + job.batch.response_length));
  EXPECT_EQ(job.role("actor")->optimizer.implementation, OptimizerImplementation::fused);
  const Result<ReadJob> plain = read({"worker.actor.dynamic_batching=false"});
  ASSERT_TRUE(plain) << plain.error().text();
  EXPECT_EQ(plain->job.role("actor")->train.sequences, 2);
  EXPECT_EQ(plain->job.role("ref")->forward.sequences, 8);
  EXPECT_EQ(job.engines.front().tensor, 2);
  EXPECT_EQ(read({"algorithm.disable_kl=true"})->job.role("ref"), nullptr);
}

TEST(EasyR1Read, ErrorsSpeakItsKeys) {
  const Result<ReadJob> made = read({"worker.actor.micro_batch_size_per_device_for_update=3"});
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().text(), HasSubstr("worker.actor.micro_batch_size_per_device_for_update: "));
  EXPECT_THAT(read({"worker.actor.fsdp.enable_cpu_offload=true"}).error().text(),
              HasSubstr("worker.actor.fsdp.enable_cpu_offload: expected false"));
}

TEST(EasyR1Read, AdaptersStandOnFrozenWeightsInHalfPrecision) {
  const Result<ReadJob> made = read({"worker.actor.model.lora.rank=16"});
  ASSERT_TRUE(made) << made.error().text();
  const Role& actor = *made->job.role("actor");
  ASSERT_TRUE(actor.lora);
  EXPECT_EQ(actor.lora->rank, 16);
  EXPECT_EQ(actor.lora->dtype, DType::fp32);
  EXPECT_EQ(actor.precision.weights, DType::bf16);
  for (const PhaseSpec& phase : made->job.start)  // the reference is the actor without its adapters
    for (const Action& action : phase.actions) EXPECT_FALSE(action.role == "ref" && action.verb == Verb::build);
}

TEST(EasyR1Read, ItsOwnOptimizerKeepsHalfPrecision) {
  const Result<ReadJob> made = read({"worker.actor.optim.strategy=adamw_bf16", "worker.actor.fsdp.torch_dtype=bf16"});
  ASSERT_TRUE(made) << made.error().text();
  const Role& actor = *made->job.role("actor");
  EXPECT_EQ(actor.precision.weights, DType::bf16);
  EXPECT_EQ(actor.optimizer.states, DType::bf16);
  EXPECT_EQ(actor.optimizer.master_bytes, 2);
  EXPECT_THAT(read({"worker.actor.optim.strategy=lion"}).error().text(), HasSubstr("worker.actor.optim.strategy: "));
}

TEST(EasyR1Read, TheReferenceStaysWhereItsFileSays) {
  EXPECT_TRUE(read({"worker.ref.fsdp.enable_cpu_offload=true"})->job.role("ref")->sharding.cpu_offload);
  EXPECT_FALSE(read({"worker.ref.fsdp.enable_cpu_offload=false"})->job.role("ref")->sharding.cpu_offload);
}

TEST(EasyR1Read, SequencesBecomeBudgetsAndBack) {
  const Result<ReadJob> made = read({"worker.actor.ulysses_size=2"});
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_EQ(made->job.role("actor")->train.tokens, made->job.batch.prompt_length + made->job.batch.response_length);
  const std::vector<Knob> knobs = easyr1::knobs(*made);
  const auto budget = std::find_if(knobs.begin(), knobs.end(), [](const Knob& knob) { return knob.name == "log_prob_token_budget"; });
  ASSERT_NE(budget, knobs.end());
  // One key says both: with sequences packed up to a budget, numbers of sequences are no knob beside it.
  EXPECT_TRUE(std::none_of(knobs.begin(), knobs.end(), [](const Knob& knob) { return knob.name == "log_prob_micro_batch"; }));
  for (const std::string& value : budget->values) {
    const auto settings = easyr1::settings_for(*made, std::vector<Choice>{{budget->name, value}});
    ASSERT_TRUE(settings) << settings.error().text();
    EXPECT_EQ(settings->front().key, "worker.actor.micro_batch_size_per_device_for_experience");
  }
}

TEST(EasyR1Read, PicturesLeaveTheVerdictOpen) {
  const Result<ReadJob> made =
      read({"worker.actor.model.model_path=Qwen/Qwen2.5-VL-7B-Instruct", "data.image_key=images"});
  ASSERT_TRUE(made) << made.error().text();
  ASSERT_EQ(made->job.not_modelled.size(), 1u);
  EXPECT_THAT(made->job.not_modelled.front(), HasSubstr("pictures"));
}

TEST(EasyR1Read, KnobsWriteItsKeys) {
  const Result<ReadJob> made = read();
  ASSERT_TRUE(made);
  const auto settings = easyr1::settings_for(*made, std::vector<Choice>{{"gpu_memory_utilization", "0.4"}});
  ASSERT_TRUE(settings) << settings.error().text();
  ASSERT_EQ(settings->size(), 1u);
  EXPECT_EQ(settings->front().key, "worker.rollout.gpu_memory_utilization");
  EXPECT_EQ(settings->front().value, "0.4");
  EXPECT_FALSE(easyr1::knobs(*made).empty());
}

}  // namespace
}  // namespace headroom
