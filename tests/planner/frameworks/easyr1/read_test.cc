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
  EXPECT_EQ(job.role("actor")->train.sequences, 2);
  EXPECT_EQ(job.role("ref")->forward.sequences, 8);
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
