#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/frameworks/settings/knobs.h"
#include "planner/frameworks/settings/table.h"

namespace headroom::chatlearn {

using settings::Release;

/// ChatLearn's settings of one run (1.2 and later: GRPO and GSPO), resolved and typed. Fields are named after
/// their keys.

inline constexpr Release kNewest{1, 3, 0};

/// What a model gives back while another one works.
struct FreeMemory {
  bool weights = false, gradients = false, optimizer = false;
};

/// A model with GPUs: its trainer, the reference, or the engine that generates.
struct Model {
  std::int64_t gpus = 0, generation_batch = 1;
  FreeMemory free;
  std::string load;
  std::int64_t ulysses = 1;
  bool packing = false, meta_init = false, expandable = false;
  std::int64_t packed_tokens = 32768;
  // Megatron
  std::int64_t tensor = 1, pipeline = 1, virtual_pipeline = 1, expert = 1, expert_tensor = 1, context = 1;
  bool sequence_parallel = true, distributed = false, accumulation_fusion = false, deallocates = false;
  std::string granularity, method;
  std::optional<std::int64_t> recompute_layers;
  std::vector<std::string> recompute_modules;
  std::optional<std::int64_t> first_stage_layers, last_stage_layers;
  // The trainer's loss
  double entropy_coefficient = 0, clip_grad = 1;
  // The engine
  std::int64_t engine_tensor = 1, prompt_length = 1024, response_length = 2048, batched_tokens = 32768;
  double utilization = 0.8;
  bool enforce_eager = false;
  std::shared_ptr<const Architecture> architecture;
};

struct Settings : settings::TableSettings {
  bool megatron = false;
  std::string train_backend, rollout_backend = "vllm", model_type = "llm";
  std::vector<std::string> colocation;
  std::int64_t samples_an_episode = 512, micro_batch = 8, global_batch = 512, answers = 32, epochs = 1;
  std::int64_t save_interval = 0;
  bool partial_rollout = false;
  Model trainer, reference, policy;
  std::int64_t gpus_per_node = 8;

  bool colocated(std::string_view model) const;
};

std::vector<settings::Key> keys_of(const Settings& settings);
void read_settings(Values& values, Settings& settings);
bool assign(Settings& settings, const Setting& setting);

/// What ChatLearn refuses at start-up.
struct Problem {
  std::string key, message;
};
std::optional<Problem> find_problem(const Settings& settings);

}  // namespace headroom::chatlearn
