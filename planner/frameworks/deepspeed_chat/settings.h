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

namespace headroom::deepspeed_chat {

/// What a run's keys say.
struct Settings : cases::MachineSettings {
  std::string name;
  std::shared_ptr<const Architecture> actor, critic;
  std::int64_t batch = 1, prompt = 1, response = 1;
  int steps = 3;
  bool steps_given = false;
  DType dtype = DType::fp16;
  std::int64_t initial_scale_power = 16;
  std::int64_t zero_stage = 0, critic_stage = 0;  ///< of actor and reference (and EMA), of critic and reward
  bool offload = false, pin_memory = false;
  bool offload_reference = false, offload_reward = false;  ///< their weights; only at stage 3
  bool overlap_communication = true, contiguous_gradients = true;
  // Elements. Those of stage 3 are the trained engines'.
  std::int64_t reduce_bucket = 500'000'000, allgather_bucket = 500'000'000;
  std::int64_t prefetch_bucket = 30'000'000, max_live_parameters = 30'000'000;
  std::int64_t persistence_threshold = 10'000, max_reuse_distance = 1'000'000'000;
  bool grad_ckpt = false, critic_ckpt = false;
  std::int64_t actor_lora = 0, critic_lora = 0;  ///< ranks of adapters
  std::vector<std::string> actor_targets = {"all-linear"}, critic_targets = {"all-linear"};  ///< that have them
  std::optional<bool> actor_dropout, critic_dropout;  ///< none: as the script's own defaults and the family have it
  std::int64_t training_batch = 0;  ///< sequences trained on at once, of `batch` generated; 0: all
  std::int64_t accumulation = 1, generation_batches = 1, epochs = 1;
  bool ema = false, fp32_loss = false;
  // The hybrid engine.
  bool hybrid = false, unpinned = false, releases_cache = false;
  std::int64_t inference_tensor = 1, gathered_layers = 8;
  bool only_lora = false;                        ///< nothing but adapters trains
  bool padded = true;  ///< prompts shorter than the cap are padded on the left
  std::string empty_cache = "none";
  /// A recorded loop's: the cache is emptied between two engines, and peaks are read as DeepSpeed's reports left them.
  bool reads_counters = true;
  std::int64_t world = 2;
};

/// Every key, in the order of the documentation.
std::span<const std::string_view> known_keys();

/// Reads and checks. Errors name the key.
Result<std::shared_ptr<Settings>> read_settings(Values& values, const JobOptions& options);

/// Updates of actor and critic a step.
std::int64_t micro_batches_of(const Settings& settings);

/// Steps that overflow before the dynamic loss scale has fallen from 2^power far enough.
std::int64_t skipped_steps(std::int64_t power);

/// The Job that runs these settings: four roles, their engines' configuration as the script builds it, start
/// and step in its order.
Job make_job(const Settings& settings);

/// Says how many steps are taken to be skipped. Where that is all of them, peaks lack the optimizer's states:
/// the verdict is left open. Called when the number of steps is final.
void note_skipped_steps(Job& job);

}  // namespace headroom::deepspeed_chat
