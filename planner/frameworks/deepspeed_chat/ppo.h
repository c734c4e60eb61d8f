#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/frameworks/deepspeed_chat/settings.h"
#include "planner/frameworks/registry.h"
#include "planner/frameworks/settings/run.h"
#include "planner/frameworks/settings/table.h"

/// Command lines and scripts of DeepSpeed-Chat's third step: a `main.py` with --actor_model_name_or_path.
namespace headroom::deepspeed_chat::ppo {

/// One trained model's flags: `--actor_…` and `--critic_…`.
struct Model {
  std::string path, dropout, lora_scope = "decoder.layers.";
  std::shared_ptr<const Architecture> model;
  std::int64_t zero_stage = 0, lora_rank = 0;
  bool checkpointing = false, disable_dropout = false;
};

struct Settings : settings::TableSettings {
  Model actor, critic;
  std::int64_t gpus = 8;
  std::int64_t generation_batch = 16, training_batch = 16, generation_batches = 1;
  std::optional<std::int64_t> old_generation_batch, old_training_batch, old_generation_batches;  ///< names until August 2023
  std::int64_t epochs = 1, prompt = 256, response = 256, accumulation = 1;
  std::string dtype = "fp16", unsupervised;
  bool offload = false, offload_reference = false, offload_reward = false, only_lora = false, ema = false;
  bool fp32_loss = false, align_overflow = false, quantized_lora = false;
  bool hybrid = false, unpinned = false, releases_cache = false;
  std::int64_t inference_tensor = 1, gathered_layers = 8;

  std::int64_t generated() const { return old_generation_batch.value_or(generation_batch); }
  std::int64_t trained() const { return old_training_batch.value_or(training_batch); }
};

bool is_command(const JobInput& input);
/// Errors: a value that nobody knows before the run, models that can't be found, flags that DeepSpeed-Chat itself
/// refuses together, a job that `validate_job` refuses.
Result<ReadJob> read(const JobInput& input, const JobOptions& options);

/// Every flag.
std::vector<settings::Key> keys();
void read_settings(Values& values, Settings& settings);
bool assign(Settings& settings, const Setting& setting);

/// The Job that runs these settings. Errors: those of the job's validation, and flags that can't stand together.
Result<Job> make_job(const Settings& settings);

/// What search may vary, in writing order.
std::vector<Knob> knobs(const ReadJob& read);
Result<Job> with(const ReadJob& read, std::span<const Choice> choices);
Result<std::vector<Setting>> settings_for(const ReadJob& read, std::span<const Choice> choices);

}  // namespace headroom::deepspeed_chat::ppo
