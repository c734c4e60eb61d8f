#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/frameworks/settings/knobs.h"
#include "planner/frameworks/settings/table.h"

namespace headroom::openrlhf {

using settings::Release;

/// OpenRLHF's settings of one run. Flags have two dialects: words with underscores up to 0.10.1, dotted ones
/// since 0.10.2; fields are named after what they mean.

inline constexpr Release kHead{0, 11, 0}, kDotted{0, 10, 2};

enum class Program { rl, sft, rm, dpo };

/// A group of GPUs that one model is spread over.
struct Group {
  std::int64_t nodes = 1, gpus = 8;
  std::int64_t size() const { return nodes * gpus; }
};

struct Settings : settings::TableSettings {
  Program program = Program::rl;
  Group actor, ref, critic, reward;
  bool colocate_all = false, colocate_actor_ref = false, colocate_critic_reward = false;
  bool async = false;

  std::optional<std::int64_t> engines;
  std::int64_t engine_tensor = 1;
  double utilization = 0.95;
  bool engine_sleep = false, enforce_eager = false, corrects = false;

  std::int64_t stage = 2;
  bool adam_offload = false, sleep = false, overlap = false;
  std::string accumulation;  ///< grad_accum_dtype
  std::string precision = "bf16";
  bool bf16 = false;  ///< the flag of releases up to 0.9.1
  std::int64_t tensor = 1, ring = 1;
  bool packing = false, dynamic = false;
  std::int64_t train_tokens = 16192;
  std::optional<std::int64_t> rollout_tokens;
  std::int64_t micro_train = 1, train_batch = 128, micro_rollout = 1, rollout_batch = 1024, samples = 1;
  std::int64_t max_length = 2048, prompt_length = 1024, response_length = 1024;
  std::optional<std::int64_t> max_new_tokens;
  bool checkpointing = false, reentrant = false;
  bool flash = false;  ///< --flash_attn
  std::string attention = "flash_attention_2";
  bool liger = false, load_in_4bit = false, ema = false;
  std::int64_t lora_rank = 0;
  double lora_dropout = 0;
  std::vector<std::string> lora_targets;
  bool ref_offload = false, reward_offload = false;
  double kl_coefficient = 0.01, temperature = 1;
  bool kl_loss = false;
  std::string estimator = "gae", entropy;
  std::int64_t epochs = 1, freezing_steps = -1, save_steps = -1;
  std::string pretrain, reward_pretrain, critic_pretrain, ref_pretrain, remote_rm, agent;
  std::shared_ptr<const Architecture> model, ref_model, reward_model, critic_model;

  bool rl() const { return program == Program::rl; }
  bool generates() const { return rl() && engines.value_or(0) > 0; }
  /// Engines share the GPUs of the models.
  bool shares_engine() const { return colocate_all && !async; }
  bool has_reference() const { return program == Program::dpo || (rl() && kl_coefficient > 0); }
  bool has_critic() const { return rl() && estimator == "gae"; }
  bool has_reward() const { return rl() && remote_rm.empty() && agent.empty() && !reward_pretrain.empty(); }
  /// Chosen and rejected answers lie in one batch.
  std::int64_t rows_a_sample() const { return program == Program::rm || program == Program::dpo ? 2 : 1; }
  std::int64_t sequence_length() const;
  /// DeepSpeed's states leave the GPU between updates.
  bool sleeps() const { return rl() && sleep && !adam_offload; }
};

/// Every flag of the program in every release.
std::vector<settings::Key> keys_of(Program program);

void read_settings(Values& values, Settings& settings);
bool assign(Settings& settings, const Setting& setting);

/// What the programs refuse at start-up.
struct Problem {
  std::string key, message;
};
std::optional<Problem> find_problem(const Settings& settings);

/// A flag's name in the run's dialect, by its dotted one.
std::string flag(const Settings& settings, std::string_view dotted);

}  // namespace headroom::openrlhf
