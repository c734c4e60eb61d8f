#include <fmt/format.h>
#include <gtest/gtest.h>

#include "planner/frameworks/registry.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/simulate.h"

/// Packed batches on DeepSpeed's engines, through the job file: what a trainer over vLLM does.

namespace headroom {
namespace {

constexpr std::int64_t kRanks = 4;

std::string job_of(const std::string& sharding, int micro_batch) {
  return fmt::format(
      "headroom: job/1\nname: packed\nalgorithm: ppo\ngpu: H100\nsteps: 2\npools: [{{gpus_per_node: {}}}]\n"
      "batch: {{prompts: 64, mini_batch: 32, prompt_length: 128, response_length: 128}}\nroles:\n"
      "  - name: actor\n    model: Qwen/Qwen2.5-0.5B\n    trained: true\n    packed: true\n"
      "    attention: flash_varlen\n    recompute: {{kind: full}}\n    sharding: {{{}}}\n"
      "    train: {{sequences: {}}}\n    forward: {{sequences: 8}}\n"
      "  - name: ref\n    model: Qwen/Qwen2.5-0.5B\n    packed: true\n    attention: flash_varlen\n"
      "    sharding: {{kind: zero3}}\n    forward: {{sequences: 8}}\n"
      "engines:\n  - {{name: rollout, kind: vllm, role: actor, model: Qwen/Qwen2.5-0.5B, utilization: "
      "0.3}}\n",
      kRanks, sharding, micro_batch);
}

struct Packed {
  Report report;
  Bytes parameters = 0;

  /// The trainer's row of the last step.
  const ProcessPhase& row(const std::string& phase) const {
    const ProcessPhase* found = nullptr;
    for (const PhaseReport& p : report.devices.front().phases)
      if (p.phase == phase)
        for (const ProcessPhase& process : p.processes)
          if (process.process == "trainer") found = &process;
    EXPECT_NE(found, nullptr) << phase;
    return *found;
  }
};

Packed run(const std::string& sharding, int micro_batch = 2) {
  const std::string text = job_of(sharding, micro_batch);
  JobInput input;
  input.files.push_back({.path = "job.yaml", .document = *parse_document(text, "job.yaml"), .text = text});
  const Result<ReadJob> read = read_job(input, {});
  EXPECT_TRUE(read) << read.error().text();
  if (!read) return {};
  const Result<Report> report = simulate(read->job, *load_hardware("h100"));
  EXPECT_TRUE(report) << report.error().text();
  return {report ? *report : Report{}, read->job.roles.front().model->parameters()};
}

void expect_near(Bytes measured, Bytes expected) {
  EXPECT_NEAR(static_cast<double>(measured), static_cast<double>(expected),
              0.02 * static_cast<double>(expected));
}

TEST(ZeroStore, SpreadsOptimizerStatesThenWeights) {
  for (const int stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    const Packed zero = run(fmt::format("kind: zero{}", stage));
    const ProcessPhase& row = zero.row("train_actor");
    expect_near(row.at_peak_allocated[Component::optimizer], 8 * zero.parameters / kRanks);
    expect_near(row.at_peak_allocated[Component::master_weights], 4 * zero.parameters / kRanks);
    // The reference's part beside the actor's weights, whole or its part too.
    const Bytes part = 2 * zero.parameters / kRanks;
    expect_near(row.at_peak_allocated[Component::weights], (stage == 3 ? part : 2 * zero.parameters) + part);
  }
}

TEST(ZeroStore, OffloadedStatesLieOnTheHost) {
  const Packed zero = run("kind: zero2, offload_optimizer: true, pin_memory: true");
  EXPECT_EQ(zero.row("train_actor").at_peak_allocated[Component::optimizer], 0);
  EXPECT_EQ(zero.row("train_actor").at_peak_allocated[Component::master_weights], 0);
  for (const PhaseReport& phase : zero.report.devices.front().phases)
    if (phase.step == 1 && phase.phase == "train_actor") {
      EXPECT_GE(phase.peak_host, 12 * zero.parameters);
    }
}

TEST(ZeroStore, StageOneAddsWholeGradientsUpAndStageTwoItsPart) {
  // Four micro-batches of two, or one of eight: with one, nothing adds up beside the buckets.
  const Bytes whole = 2 * run("kind: zero1").parameters;
  const Bytes one = run("kind: zero1, reduce_bucket: 1000000", 2)
                        .row("train_actor")
                        .at_peak_allocated[Component::gradients];
  const Bytes two = run("kind: zero2, reduce_bucket: 1000000", 2)
                        .row("train_actor")
                        .at_peak_allocated[Component::gradients];
  EXPECT_GT(one, whole / 2);
  EXPECT_LT(two, one);
}

}  // namespace
}  // namespace headroom
