#include "simulator/closed_form/folded_trainer.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "planner/frameworks/registry.h"
#include "simulator/closed_form/recalled_trainer.h"
#include "simulator/hardware/library.h"
#include "tests/support/data.h"

/// Folded layers and recalled costs come to what the whole program gives over a sum of live blocks.

namespace headroom {
namespace {

constexpr const char* kActor = "actor_rollout_ref.actor.";
constexpr const char* kCheckpointing = "actor_rollout_ref.model.enable_gradient_checkpointing=";

struct Case {
  std::string example;
  std::vector<std::string> overrides;
};

Job job_of(const Case& one) {
  JobOptions options;
  options.overrides = one.overrides;
  options.steps = 2;
  options.gpu = "H100";
  const auto read = read_job(std::array{test::source("configs/examples/" + one.example).string()}, options);
  EXPECT_TRUE(read) << read.error().text();
  return read ? read->job : Job{};
}

/// Within `part` of each peak, and bytes: `bytes` of what is allocated, `in_flight` of what waits to be free.
void expect_equal(const Result<Report>& quick, const Result<Report>& whole, double part, double bytes,
                  double in_flight) {
  ASSERT_TRUE(quick) << quick.error().text();
  ASSERT_TRUE(whole) << whole.error().text();
  ASSERT_EQ(quick->devices.size(), whole->devices.size());
  for (std::size_t d = 0; d < whole->devices.size(); ++d) {
    const auto &a = quick->devices[d].phases, &b = whole->devices[d].phases;
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < b.size(); ++i) {
      SCOPED_TRACE(b[i].phase + " step " + std::to_string(b[i].step));
      const auto device = static_cast<double>(b[i].peak_device);
      EXPECT_NEAR(static_cast<double>(a[i].peak_device), device, part * device + in_flight);
      ASSERT_EQ(a[i].processes.size(), b[i].processes.size());
      for (std::size_t p = 0; p < b[i].processes.size(); ++p) {
        const auto allocated = static_cast<double>(b[i].processes[p].peak_allocated);
        EXPECT_NEAR(static_cast<double>(a[i].processes[p].peak_allocated), allocated,
                    part * allocated + bytes);
      }
    }
  }
}

class ClosedForm : public testing::TestWithParam<Case> {};

TEST_P(ClosedForm, ComesToWhatTheWholeProgramGives) {
  const Hardware hardware = *load_hardware("h100");
  const Job job = job_of(GetParam());
  const auto whole = run_on_device(job, hardware, Fidelity::live_bytes);
  expect_equal(closed_form::estimate(job, hardware), whole, 1e-4, kMiB, kMiB);
  if (!closed_form::recalls(job)) return;
  const MakeTrainer recalled = closed_form::recalled(std::make_shared<closed_form::CostBook>(hardware));
  // A cuBLAS workspace more or less, where roles share one; a layer in flight.
  expect_equal(run_on_device(job, hardware, recalled, "closed_form"), whole, 0.012, 36 * kMiB, 512 * kMiB);
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const char* example :
       {"chatlearn/qwen2.5-7b-grpo-packed-12xh100.yaml", "easyr1/qwen2.5-7b-grpo-8xh100.yaml",
        "easyr1/qwen2.5-1.5b-grpo-lora-2xa100.yaml", "nemo-rl/qwen2.5-7b-grpo-tp2-8xh100.yaml",
        "nemo-rl/qwen3-8b-grpo-async-2x8xh100.yaml", "openrlhf/llama-3.1-8b-ppo-8xh100.sh",
        "verl/llama-3.1-8b-ppo-8xh100.yaml", "verl/qwen2.5-1.5b-ppo-v0.5-4xa100.yaml",
        "verl/qwen2.5-7b-grpo-lora-2xa100.yaml"})
    out.push_back({example, {}});
  out.push_back({"easyr1/qwen2.5-7b-grpo-8xh100.yaml", {"algorithm.adv_estimator=gae"}});
  const std::string actor = kActor;
  for (const char* strategy : {"fsdp", "fsdp2"})
    for (const char* checkpointing : {"true", "false"})
      out.push_back({"verl/llama-3.1-8b-ppo-8xh100.yaml",
                     {actor + "strategy=" + strategy, actor + "fsdp_config.reshard_after_forward=false",
                      std::string(kCheckpointing) + checkpointing}});
  return out;
}

INSTANTIATE_TEST_SUITE_P(Jobs, ClosedForm, testing::ValuesIn(cases()));

}  // namespace
}  // namespace headroom
