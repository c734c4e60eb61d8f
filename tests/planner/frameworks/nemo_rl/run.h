#pragma once

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "planner/frameworks/registry.h"
#include "tests/support/data.h"

namespace headroom::test {

/// A GRPO run on eight GPUs; tests change it by overrides.
inline const char* const kNemoRun = R"(grpo: {num_prompts_per_step: 32, num_generations_per_prompt: 8}
loss_fn: {reference_policy_kl_penalty: 0.01}
policy:
  model_name: Qwen/Qwen2.5-7B
  train_global_batch_size: 128
  train_micro_batch_size: 2
  logprob_batch_size: 2
  max_total_sequence_length: 2048
  dtensor_cfg: {enabled: true, _v2: true}
  megatron_cfg: {enabled: false}
  sequence_packing: {enabled: true}
  generation: {vllm_cfg: {tensor_parallel_size: 2}}
cluster: {gpus_per_node: 8}
)";

/// kNemoRun as NeMo RL `version` reads it, after `overrides`.
inline Result<ReadJob> read_nemo(const std::string& version, std::vector<std::string> overrides = {},
                                 const std::string& text = kNemoRun) {
  JobOptions options;
  options.versions.framework = version;
  for (const std::string& change : overrides) options.overrides.push_back("++" + change);
  JobInput input;
  Result<Document> document = parse_document(text, "run.yaml");
  if (!document) return tl::unexpected<Error>(document.error());
  input.files.push_back({.path = "run.yaml", .document = std::move(*document), .text = text});
  return read_job(input, options);
}

inline Job nemo_job(const std::string& version, std::vector<std::string> overrides = {}) {
  const Result<ReadJob> read = read_nemo(version, std::move(overrides));
  EXPECT_TRUE(read) << (read ? "" : read.error().text());
  return read ? read->job : Job{};
}

inline std::string nemo_complaint(const std::string& version, std::vector<std::string> overrides) {
  const Result<ReadJob> read = read_nemo(version, std::move(overrides));
  return read ? "" : read.error().text();
}

/// Files in a scratch folder, by name.
inline std::filesystem::path written(const std::map<std::string, std::string>& files) {
  const std::filesystem::path root = std::filesystem::path(scratch()) / "nemo-rl";
  for (const auto& [name, text] : files) {
    std::filesystem::create_directories((root / name).parent_path());
    std::ofstream(root / name) << text;
  }
  return root;
}

/// `phase(action action …) …`
inline std::string actions_of(const std::vector<PhaseSpec>& phases) {
  std::string out;
  for (const PhaseSpec& phase : phases) out += (out.empty() ? "" : " ") + std::string(name(phase.kind));
  return out;
}

}  // namespace headroom::test
