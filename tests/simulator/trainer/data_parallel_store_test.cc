#include <fmt/format.h>
#include <gtest/gtest.h>

#include "planner/frameworks/registry.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/simulate.h"

/// DistributedDataParallel's own memory, through the job file.

namespace headroom {
namespace {

struct Wrapped {
  Report report;
  Bytes weights = 0;

  const ProcessPhase& row(const std::string& phase, int step) const {
    const ProcessPhase* found = nullptr;
    for (const PhaseReport& p : report.devices.front().phases)
      if (p.phase == phase && p.step == step) found = &p.processes.front();
    EXPECT_NE(found, nullptr) << phase;
    return *found;
  }
};

Wrapped run(bool finds_unused) {
  const std::string text = fmt::format(
      "headroom: job/1\nname: wrapped\nalgorithm: ppo\ngpu: H100\nsteps: 3\npools: [{{gpus_per_node: 2}}]\n"
      "batch: {{prompts: 8, mini_batch: 8, prompt_length: 512, response_length: 512}}\nroles:\n"
      "  - {{name: actor, model: Qwen/Qwen2.5-0.5B, trained: true, optimizer: {{kind: sgd}}, train: {{sequences: 4}},\n"
      "     sharding: {{kind: data_parallel, finds_unused: {}}}, precision: {{weights: bf16, gradients: bf16}}}}\n"
      "engines:\n  - {{name: rollout, kind: vllm, role: actor, model: Qwen/Qwen2.5-0.5B, utilization: 0.3}}\n",
      finds_unused);
  JobInput input;
  input.files.push_back({.path = "job.yaml", .document = *parse_document(text, "job.yaml"), .text = text});
  const Result<ReadJob> read = read_job(input, {});
  EXPECT_TRUE(read) << read.error().text();
  if (!read) return {};
  const Result<Report> report = simulate(read->job, *load_hardware("h100"));
  EXPECT_TRUE(report) << report.error().text();
  return {report ? *report : Report{}, 2 * read->job.roles.front().model->parameters()};
}

/// Buckets take as much as the gradients; those that are made anew stand beside the old ones for a moment.
TEST(DataParallelStore, BucketsAreMadeAnewUnlessItLooksForUnusedParameters) {
  for (const bool finds_unused : {false, true}) {
    SCOPED_TRACE(finds_unused);
    const Wrapped wrapped = run(finds_unused);
    const Bytes first = wrapped.row("train_actor", 0).peak_allocated, second = wrapped.row("train_actor", 1).peak_allocated,
                third = wrapped.row("train_actor", 2).peak_allocated;
    EXPECT_GE(wrapped.row("train_actor", 0).at_peak_allocated[Component::communication], wrapped.weights);
    EXPECT_NEAR(static_cast<double>(second - third), finds_unused ? 0.0 : static_cast<double>(wrapped.weights),
                0.1 * static_cast<double>(wrapped.weights));
    EXPECT_LE(first, second);
  }
}

/// Weights go out in two buckets of 250 MiB at a time, which the cache keeps: one bucket of all finds no room in them,
/// those of 25 MiB do.
TEST(DataParallelStore, WhatSentTheWeightsStaysReserved) {
  const auto slack = [](const Wrapped& wrapped) {
    const ProcessPhase& row = wrapped.row("init", -1);
    return row.peak_reserved - row.peak_allocated;
  };
  EXPECT_GT(slack(run(false)), 500 * kMiB);
  EXPECT_LT(slack(run(true)), 250 * kMiB);
}

}  // namespace
}  // namespace headroom
