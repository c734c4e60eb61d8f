#include "planner/study/change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "planner/frameworks/registry.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/device_run.h"
#include "tests/support/data.h"

namespace headroom::study {
namespace {

using ::testing::HasSubstr;

Job read(const std::string& name, std::vector<std::string> overrides = {}) {
  JobOptions options;
  options.overrides = std::move(overrides);
  const auto made = read_job(std::array{test::data(name).string()}, options);
  EXPECT_TRUE(made) << made.error().text();
  return made ? made->job : Job{};
}

Job with(Job job, std::initializer_list<std::pair<const char*, const char*>> changes) {
  for (const auto& [kind, value] : changes) {
    const auto change = make_change(kind, Document::scalar(value));
    EXPECT_TRUE(change) << change.error().text();
    auto made = changed(std::move(job), *change);
    EXPECT_TRUE(made) << made.error().text();
    job = std::move(*made);
  }
  EXPECT_TRUE(validate_job(job));
  return job;
}

/// But for their models, which every reading makes anew.
std::vector<Role> roles(Job job) {
  for (Role& role : job.roles) role.model = nullptr;
  return job.roles;
}

/// What a framework's own keys make of a run, the changes make too.
TEST(Change, EqualsTheFrameworksOwnKeys) {
  const std::string opt = "deepspeed/opt13-z0.json";
  for (const char* stage : {"1", "2", "3"})
    EXPECT_EQ(roles(with(read(opt), {{"zero", stage}})), roles(read(opt, {std::string("zero_stage=") + stage})));
  EXPECT_EQ(roles(with(read(opt), {{"zero", "2"}, {"offload_optimizer", "true"}})), roles(read(opt, {"zero_stage=2", "offload=true"})));
  EXPECT_EQ(roles(with(read(opt), {{"zero", "3"}, {"offload_optimizer", "true"}, {"offload_parameters", "true"}})), roles(read(opt, {"zero_stage=3", "offload=true"})));
  EXPECT_EQ(roles(with(read(opt), {{"recompute", "full"}})), roles(read(opt, {"grad_ckpt=true"})));
  EXPECT_EQ(roles(with(read("rlhf/fsdp-q05-grpo.json"), {{"reshard_after_forward", "false"}})), roles(read("rlhf/fsdp-q05-grpo.json", {"reshard_after_forward=false"})));
  EXPECT_EQ(with(read(opt), {{"allocator", "expandable_segments:True"}}).processes.front().allocator_settings,
            "expandable_segments:True");
}

TEST(Change, EmsIsTheLoopsOwn) {
  const Hardware hardware = *find_hardware("h200");
  const auto by_change = run_on_device(with(read("rlhf/opt13-ppo-ems.json", {"ems=false"}), {{"ems", "true"}}), hardware,
                                       Fidelity::every_allocation);
  const auto by_key = run_on_device(read("rlhf/opt13-ppo-ems.json"), hardware, Fidelity::every_allocation);
  ASSERT_TRUE(by_change && by_key);
  const auto &a = by_change->devices[0].phases, &b = by_key->devices[0].phases;
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].processes[0].peak_reserved, b[i].processes[0].peak_reserved) << a[i].phase;
    EXPECT_EQ(a[i].processes[0].peak_allocated, b[i].processes[0].peak_allocated) << a[i].phase;
  }
}

TEST(Change, RewardModelsAreTrainedAloneOnPairs) {
  const Job job = with(read("deepspeed/opt13-z2.json"), {{"reward_model", "true"}});
  ASSERT_EQ(job.roles.size(), 1u);
  EXPECT_EQ(job.algorithm, Algorithm::reward_model);
  EXPECT_EQ(job.batch.sequences(), 2 * read("deepspeed/opt13-z2.json").batch.sequences());
  const auto report = run_on_device(job, *find_hardware("h200"), Fidelity::every_allocation);
  ASSERT_TRUE(report) << report.error().text();
  const PhaseReport& training = report->devices[0].phases.back();
  EXPECT_EQ(training.phase, "train_critic");
  // Weights of the 350M model, its share of states; no vocabulary's logits.
  EXPECT_GT(training.processes[0].peak_allocated, 2 * kGiB);
  EXPECT_EQ(training.processes[0].at_peak_allocated[Component::logits], 0);
}

TEST(Change, LoraTrainsAdaptersOnly) {
  const Job job = with(read("rlhf/opt13-ppo-none.json"), {{"lora", "16"}});
  const auto whole = run_on_device(read("rlhf/opt13-ppo-none.json"), *find_hardware("h200"), Fidelity::every_allocation);
  const auto adapters = run_on_device(job, *find_hardware("h200"), Fidelity::every_allocation);
  const auto states = [](const Report& report) {
    return report.devices[0].phases.back().processes[0].at_peak_allocated[Component::optimizer];
  };
  EXPECT_LT(10 * states(*adapters), states(*whole));
}

TEST(Change, RefusesWhatAJobHasNot) {
  const auto refused = [](const std::string& file, const char* kind, const char* value) {
    const auto change = make_change(kind, Document::scalar(value));
    const auto made = changed(read(file), *change);
    return made ? std::string() : made.error().message;
  };
  EXPECT_THAT(refused("rlhf/opt13-ppo-none.json", "zero", "2"), HasSubstr("DeepSpeed"));
  EXPECT_THAT(refused("deepspeed/opt13-z0.json", "offload_optimizer", "true"), HasSubstr("ZeRO 1 to 3"));
  EXPECT_THAT(refused("deepspeed/opt13-z0.json", "reshard_after_forward", "true"), HasSubstr("FSDP"));
  EXPECT_THAT(refused("rlhf/q05-grpo-lora.json", "reward_model", "true"), HasSubstr("scalar"));
}

TEST(Change, ChecksItsValue) {
  for (const auto& [kind, value] : {std::pair{"zero", "4"}, {"zero", "two"}, {"lora", "0"}, {"ems", "perhaps"},
                                    {"recompute", "half"}, {"allocator", "expandable_segment:True"}})
    EXPECT_FALSE(make_change(kind, Document::scalar(value))) << kind << " " << value;
  EXPECT_THAT(make_change("alocator", Document::scalar("x")).error().message, HasSubstr("nearest is allocator"));
}

}  // namespace
}  // namespace headroom::study
