#include <gtest/gtest.h>

#include <array>
#include <random>

#include "planner/frameworks/registry.h"
#include "simulator/closed_form/recalled_trainer.h"
#include "simulator/hardware/library.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

/// The example run with some of verl's keys changed.
Job job_with(const std::vector<std::string>& overrides) {
  JobOptions options;
  options.overrides = overrides;
  options.steps = 2;
  const auto read = read_job(
      std::array{test::source("configs/examples/verl/qwen2.5-7b-grpo-8xh100.yaml").string()}, options);
  EXPECT_TRUE(read) << read.error().text();
  return read ? read->job : Job{};
}

const std::vector<std::vector<std::string>> kRuns = {
    {},
    {"actor_rollout_ref.actor.strategy=fsdp2"},
    {"actor_rollout_ref.actor.fsdp_config.param_offload=true",
     "actor_rollout_ref.actor.fsdp_config.optimizer_offload=true"},
    {"actor_rollout_ref.model.enable_gradient_checkpointing=false",
     "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=4096"},
    {"actor_rollout_ref.actor.ulysses_sequence_parallel_size=2"},
    {"algorithm.adv_estimator=gae", "critic.model.path=Qwen/Qwen2.5-7B-Instruct"},
};

constexpr double kGatheredUnit = 512 * kMiB;  ///< a layer of the example's model in bf16, at most

/// Components in which two peaks differ, for messages.
std::string differences(const Breakdown& a, const Breakdown& b) {
  std::string out;
  for (std::size_t i = 0; i < kComponents; ++i)
    if (a.bytes[i] != b.bytes[i])
      out += std::string(name(static_cast<Component>(i))) + " " + std::to_string(a.bytes[i]) + " against " +
             std::to_string(b.bytes[i]) + "; ";
  return out;
}

/// The book folds equal layers, splits roles into parts and puts them together again: it must come to what
/// the whole program gives over a sum of live blocks.
void expect_agreement(const Job& job, const Hardware& hardware, const MakeTrainer& recalled,
                      double part = 0.01) {
  const auto whole = run_on_device(job, hardware, Fidelity::live_bytes);
  const auto quick = run_on_device(job, hardware, recalled, "closed_form");
  ASSERT_EQ(whole.has_value(), quick.has_value());
  if (!whole) return;
  ASSERT_EQ(whole->devices.size(), quick->devices.size());
  for (std::size_t d = 0; d < whole->devices.size(); ++d) {
    const auto& a = whole->devices[d].phases;
    const auto& b = quick->devices[d].phases;
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t p = 0; p < a.size(); ++p) {
      SCOPED_TRACE(a[p].phase + " step " + std::to_string(a[p].step));
      // A pass behind another role's may have one unit more or less in flight than the book's parts know.
      const double device = static_cast<double>(a[p].peak_device);
      EXPECT_NEAR(static_cast<double>(b[p].peak_device), device, part * device + kGatheredUnit);
      const double allocated = static_cast<double>(a[p].processes.front().peak_allocated);
      EXPECT_NEAR(static_cast<double>(b[p].processes.front().peak_allocated), allocated,
                  part * allocated + kMiB)
          << differences(a[p].processes.front().at_peak_allocated, b[p].processes.front().at_peak_allocated);
      EXPECT_NEAR(static_cast<double>(b[p].peak_host), static_cast<double>(a[p].peak_host),
                  0.01 * static_cast<double>(a[p].peak_host));
      // Host memory is pinned and touched for the first time by whoever asks first: each part of the book
      // does.
      EXPECT_NEAR(b[p].seconds, a[p].seconds, 0.05 * a[p].seconds + 1e-3);
    }
  }
}

class Recalled : public ::testing::TestWithParam<std::size_t> {};

TEST_P(Recalled, AgreesWithTheWholeProgram) {
  const Hardware hardware = find_hardware("h100").value();
  const auto book = std::make_shared<closed_form::CostBook>(hardware);
  expect_agreement(job_with(kRuns[GetParam()]), hardware, closed_form::recalled(book));
}

INSTANTIATE_TEST_SUITE_P(Runs, Recalled, ::testing::Range<std::size_t>(0, kRuns.size()));

// One book for all, as in a search: a part that is found must be the right one.
void expect_agreement_on_draws(const char* example, double part, int draws, int least) {
  JobOptions options;
  options.steps = 2;
  const auto read = read_job(std::array{test::source(example).string()}, options);
  ASSERT_TRUE(read) << read.error().text();
  const Hardware hardware = load_hardware(read->job.gpu).value();
  const Framework& verl = *find_framework("verl");
  const std::vector<Knob> knobs = verl.knobs(*read);
  const MakeTrainer recalled = closed_form::recalled(std::make_shared<closed_form::CostBook>(hardware));
  std::mt19937 random(20);
  int compared = 0;
  for (int draw = 0; draw < draws; ++draw) {
    std::vector<Choice> choices;
    std::string drawn;
    for (const Knob& knob : knobs) {
      const std::string& value = knob.values[random() % knob.values.size()];
      if (value == knob.current) continue;
      choices.push_back({knob.name, value});
      drawn += knob.name + "=" + value + " ";
    }
    const Result<Job> job = verl.with(*read, choices);
    if (!job || !validate_job(*job)) continue;
    SCOPED_TRACE(drawn);
    expect_agreement(*job, hardware, recalled, part);
    ++compared;
  }
  EXPECT_GT(compared, least);
}

TEST(CostBook, AgreesOnDrawnConfigurations) {
  expect_agreement_on_draws("configs/examples/verl/qwen2.5-7b-grpo-8xh100.yaml", 0.01, 40, 10);
}

// Megatron-Core keeps one buffer a process, as large as what any role needed of it; when it grows inside a
// pass the parts cannot tell.
TEST(CostBook, AgreesOnDrawnConfigurationsOfAPipeline) {
  expect_agreement_on_draws("configs/examples/verl/qwen2.5-7b-grpo-megatron-8xh100.yaml", 0.04, 24, 10);
}

// A loop of its own ties roles together: the book has no parts of it, and must not be asked for them.
TEST(CostBook, LeavesOwnLoopsWhole) {
  const auto read = read_job(
      std::array{test::source("configs/examples/trl/qwen2.5-7b-grpo-lora-colocate-8xh100.yaml").string()},
      {});
  ASSERT_TRUE(read) << read.error().text();
  ASSERT_FALSE(read->job.engines.empty());
  EXPECT_FALSE(closed_form::recalls(read->job));
  EXPECT_TRUE(closed_form::recalls(job_with({})));
}

TEST(CostBook, RunsNothingTwice) {
  const Job job = job_with({});
  const Hardware hardware = find_hardware("h100").value();
  const auto book = std::make_shared<closed_form::CostBook>(hardware);
  ASSERT_TRUE(run_on_device(job, hardware, closed_form::recalled(book), ""));
  const std::int64_t programs = book->programs_run();
  EXPECT_GT(programs, 0);
  Job other = job;
  other.engines[0].utilization = 0.3;  // no trainer's matter
  ASSERT_TRUE(run_on_device(other, hardware, closed_form::recalled(book), ""));
  EXPECT_EQ(book->programs_run(), programs);
}

}  // namespace
}  // namespace headroom
