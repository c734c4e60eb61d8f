#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/architecture/architecture.h"
#include "models/base/dtype.h"
#include "planner/configuration/values.h"
#include "planner/frameworks/case_file.h"
#include "simulator/job/role.h"

namespace headroom::trl {

enum class Trainer { grpo, ppo };

/// What a run's keys say.
struct Settings : cases::MachineSettings {
  std::string name;
  Trainer trainer = Trainer::grpo;
  std::shared_ptr<const Architecture> model;
  std::int64_t batch = 8, accum = 1, prompt = 1, response = 256;
  std::int64_t num_generations = 8, num_iterations = 1;
  std::int64_t steps_per_generation = 1;      ///< micro-batches that one generation fills
  std::int64_t steps = 3;                     ///< GRPO: optimizer steps; PPO: updates
  std::int64_t epochs = 1, mini_batches = 1;  ///< PPO: passes over an update's completions, and cuts of each
  std::int64_t rollout_batch = 64;            ///< PPO: sequences a generation and a forward without gradients
  std::int64_t prompts = 32;                  ///< PPO: in the dataset
  double temperature = 1;
  double beta = 0;
  DType dtype = DType::fp32;
  bool mixed_precision = true;  ///< bf16 autocast
  std::int64_t lora = 0;
  std::vector<std::string> lora_targets;
  bool grad_ckpt = true;
  OptimizerImplementation optimizer = OptimizerImplementation::fused;
};

/// Every key, in the order of the documentation.
std::span<const std::string_view> known_keys();

/// Reads and checks; the command line overrides keys. Errors name the key.
Result<std::shared_ptr<Settings>> read_settings(Values& values, const JobOptions& options);

/// The Job that runs these settings, without roles and steps.
Job make_frame(const Settings& settings);

/// GRPO's steps are the trainer's training steps, one micro-batch each: completions are generated for `accum`
/// of them at once.
Job make_grpo_job(const Settings& settings);
/// PPO's steps are updates: completions for all micro-batches, scored, then all epochs.
Job make_ppo_job(const Settings& settings);

}  // namespace headroom::trl
