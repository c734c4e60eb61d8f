#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/document/document.h"
#include "planner/frameworks/registry.h"
#include "planner/frameworks/verl/read.h"

namespace headroom::test {

/// A GRPO run on eight GPUs that every release accepts; tests change it by overrides.
inline const char* const kRun =
    R"(data: {train_batch_size: 64, max_prompt_length: 512, max_response_length: 512}
actor_rollout_ref:
  model: {path: Qwen/Qwen2.5-7B-Instruct, use_remove_padding: true}
  actor:
    ppo_mini_batch_size: 32
    ppo_micro_batch_size_per_gpu: 4
    use_kl_loss: true
  ref: {log_prob_micro_batch_size_per_gpu: 4}
  rollout:
    name: vllm
    n: 4
    tensor_model_parallel_size: 2
    log_prob_micro_batch_size_per_gpu: 4
algorithm: {adv_estimator: grpo}
trainer: {n_gpus_per_node: 8, nnodes: 1}
)";

/// kRun as verl `version` reads it, after `overrides`.
inline Result<ReadJob> read_run(const std::string& version, std::vector<std::string> overrides = {}) {
  JobOptions options;
  options.versions.framework = version;
  options.overrides = std::move(overrides);
  JobInput input;
  input.files.push_back({.path = "run.yaml", .document = *parse_document(kRun, "run.yaml"), .text = kRun});
  return verl::read(input, options);
}

inline Job job_of(const std::string& version, std::vector<std::string> overrides = {}) {
  const Result<ReadJob> read = read_run(version, std::move(overrides));
  EXPECT_TRUE(read) << (read ? "" : read.error().text());
  return read ? read->job : Job{};
}

/// What is said about it; empty when it is read.
inline std::string complaint(const std::string& version, std::vector<std::string> overrides) {
  const Result<ReadJob> read = read_run(version, std::move(overrides));
  return read ? "" : read.error().text();
}

/// The phases, and with them their actions: `generate(generate) sleep(sleep) …`.
inline std::string order(const std::vector<PhaseSpec>& phases) {
  std::string out;
  for (const PhaseSpec& phase : phases) out += (out.empty() ? "" : " ") + std::string(name(phase.kind));
  return out;
}

}  // namespace headroom::test
