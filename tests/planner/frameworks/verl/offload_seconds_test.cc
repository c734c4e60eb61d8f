#include <gtest/gtest.h>

#include "simulator/hardware/library.h"
#include "simulator/phases/device_run.h"
#include "tests/planner/frameworks/verl/run.h"

namespace headroom {
namespace {

using test::job_of;

/// Seconds that the last step's pass without gradients spends on copies, and the bytes of weights beside it.
struct Moved {
  double copies = 0;
  double weights = 0;
};

Moved moved(const std::vector<std::string>& overrides) {
  const Hardware hardware = find_hardware("h100").value();
  const auto report = run_on_device(job_of("0.9.0", overrides), hardware, Fidelity::live_bytes);
  EXPECT_TRUE(report) << report.error().text();
  Moved out;
  if (!report) return out;
  for (const auto& phase : report->devices.front().phases)
    if (phase.phase == "actor_logprob") {
      out.copies = phase.spent[Spent::copies];
      out.weights =
          static_cast<double>(phase.processes.front().at_peak_allocated.bytes[static_cast<std::size_t>(Component::weights)]);
    }
  return out;
}

class OffloadSeconds : public ::testing::TestWithParam<const char*> {};

// Weights come to the GPU before a pass and go back after it: twice their bytes cross at no more than the
// profile's rate.
TEST_P(OffloadSeconds, ArePaidForEveryByteMoved) {
  const std::string section = std::string(GetParam()) == "megatron" ? "megatron" : "fsdp_config";
  const std::string strategy = std::string("actor_rollout_ref.actor.strategy=") + GetParam();
  const std::string offload = "actor_rollout_ref.actor." + section + ".param_offload=true";
  const Moved off = moved({strategy, offload}), on = moved({strategy});
  EXPECT_EQ(on.copies, 0);
  ASSERT_GT(off.weights, 0);
  const double rate = find_hardware("h100").value().links.pcie;
  EXPECT_GT(off.copies, 2 * 0.9 * off.weights / (1.2 * rate));
}

INSTANTIATE_TEST_SUITE_P(Strategies, OffloadSeconds, ::testing::Values("fsdp", "fsdp2", "megatron"));

}  // namespace
}  // namespace headroom
