#include <gtest/gtest.h>

#include "planner/frameworks/registry.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/device_run.h"
#include "tests/support/data.h"

namespace headroom::verl {
namespace {

/// A case worked out by hand from the formulas of docs/VERL.md:
/// configs/examples/verl/qwen2.5-7b-grpo-8xh100.yaml (Qwen2.5-7B, GRPO on 8 H100, verl 0.9 with FSDP1,
/// budgets of 16,384 tokens, vLLM at 0.5).
class WorkedExample : public ::testing::Test {
 protected:
  static constexpr double kParameters = 7'615'616'512, kRoot = 1'089'998'336, kLayer = 233'057'792;
  static constexpr double kTokens = 18'432;  ///< largest micro-batch: six sequences of 3,072
  static constexpr double kLogits = 2 * kTokens * 152'064;

  static const Report& report() {
    static const Report made = [] {
      const std::string path = test::source("configs/examples/verl/qwen2.5-7b-grpo-8xh100.yaml").string();
      const auto read = read_job(std::vector<std::string>{path}, {});
      EXPECT_TRUE(read) << (read ? "" : read.error().text());
      auto run = run_on_device(read->job, *load_hardware("h100"), Fidelity::live_bytes);
      EXPECT_TRUE(run) << (run ? "" : run.error().text());
      return std::move(*run);
    }();
    return made;
  }

  static const PhaseReport& phase(const std::string& name, int step = 1) {
    static const PhaseReport none;
    for (const PhaseReport& p : report().devices.at(0).phases)
      if (p.phase == name && p.step >= step) return p;
    ADD_FAILURE() << "no phase " << name;
    return none;
  }

  static void expect(const PhaseReport& p, Component component, double bytes, double tolerance = 0.01) {
    EXPECT_NEAR(static_cast<double>(p.at_peak_device[component]), bytes, tolerance * bytes + 4 * kMiB)
        << p.phase << " " << name(component);
  }
  static void expect_total(const PhaseReport& p, double gib, double tolerance) {
    EXPECT_NEAR(static_cast<double>(p.peak_device) / kGiB, gib, tolerance * gib) << p.phase;
  }
};

TEST_F(WorkedExample, GenerationHoldsTheEngineAndTheTrainersStates) {
  const PhaseReport& p = phase("generate");
  expect(p, Component::weights, 4 * kParameters / 8);
  expect(p, Component::optimizer, 8 * kParameters / 8);
  expect(p, Component::gathered_parameters, 2 * kRoot);  // the reference's root, never freed
  expect(p, Component::engine_weights, 2 * kParameters / 2);
  // Half of the card, less weights, sampling (4.5 copies of 256 rows, scratch, hidden states), fused all-reduce
  // with a communicator, and graphs.
  expect(p, Component::engine_kv, (39.59 - 7.10 - 0.82 - 2.04 - 0.61) * kGiB);
  expect_total(p, 56.0, 0.02);  // by hand 6 % of the trainer's bytes are added for fragmentation
}

TEST_F(WorkedExample, LogProbsHoldTheLogitsAndTheirQuotient) {
  const PhaseReport& p = phase("actor_logprob");
  expect(p, Component::weights, 4 * kParameters / 8);
  expect(p, Component::optimizer, 8 * kParameters / 8);
  expect(p, Component::logits, 2 * kLogits, 0.02);
  // Compiled entropy takes no copy of the logits, of which half was expected by hand.
  expect_total(p, 35.2 - 0.5 * kLogits / kGiB, 0.09);
}

TEST_F(WorkedExample, UpdatesHoldUnshardedGradients) {
  const PhaseReport& p = phase("train_actor");
  expect(p, Component::weights, 4 * kParameters / 8);
  expect(p, Component::optimizer, 8 * kParameters / 8);
  // Two bytes a parameter from the second of twelve micro-batches on; the last one reduces them.
  expect(p, Component::gradients, 2 * kParameters, 0.04);
  // By hand 6 % of the trainer's bytes are added for fragmentation, and two layers counted as gathered while
  // the head's backward runs: none is.
  expect_total(p, 52.1, 0.09);
}

TEST_F(WorkedExample, InitNeverHoldsTheWholeModel) {
  // Shards so far and two copies of the root while it is joined.
  expect_total(phase("init", -1), (4 * kParameters / 8 + 8 * kRoot) / kGiB + 1.4, 0.15);
}

TEST_F(WorkedExample, TheHostHoldsTheReference) {
  // 28 layers of 128 MiB and a root of 1 GiB a rank: pinned blocks are powers of two.
  const PhaseReport& p = phase("generate");
  EXPECT_NEAR(static_cast<double>(p.peak_host) / kGiB, 142, 0.06 * 142);
}

}  // namespace
}  // namespace headroom::verl
