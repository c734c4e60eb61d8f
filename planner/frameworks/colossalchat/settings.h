#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/frameworks/settings/run.h"
#include "planner/frameworks/settings/table.h"

namespace headroom::colossalchat {

using settings::Release;

/// ColossalChat's settings of one run. Up to 0.3.6 it was Coati (`applications/Chat`), whose programs take
/// `--strategy`; since 0.3.7 they take `--plugin`.

inline constexpr Release kHead{0, 5, 1}, kBoosted{0, 3, 7}, kNewestCoati{0, 3, 6};
/// Adapters are told by a JSON file (--lora_config) instead of a rank.
inline constexpr Release kLoraFiles{0, 4, 3};
/// DPO's reference has a plugin of its own: HybridParallel's, whatever the policy's is.
inline constexpr Release kOwnReference{0, 4, 5};

enum class Program {
  ppo,
  benchmark,  ///< Coati's benchmark of OPT by sizes
  grpo,
  sft,
  rm,
  dpo,
  orpo,
  kto
};

struct Settings : settings::TableSettings {
  Program program = Program::ppo;

  std::string strategy = "colossalai_zero2", plugin = "gemini";
  std::int64_t nodes = 1, gpus = 1;
  std::int64_t tensor = 1, pipeline = 1, sequence = 1, zero_stage = 0;
  bool sequence_parallel = false, zero_cpu_offload = false;
  std::string precision = "fp16";
  double clip = 1;
  bool checkpointing = false, flash = false;
  std::int64_t lora_rank = 0;
  std::string lora_config;

  std::int64_t experience_batch = 8, train_batch = 8, text_batch = 1, accumulation = 1;
  std::int64_t collects = 10, updates = 5, generations = 8;
  std::optional<std::int64_t> inference_batch;
  std::int64_t logits_batch = 1;
  std::int64_t prompt_length = 96;    ///< --max_input_len
  std::int64_t total_length = 128;    ///< of the sequence
  std::int64_t response_length = 32;  ///< since 0.3.7
  bool full_rows = false;  ///< no row of a batch is padded, so that Transformers leaves its mask out
  double text_coefficient = 0, memory_fraction = 1;
  bool offloads_inference = false;  ///< the benchmark's flag
  bool kernels = false, no_reward_model = false, no_reference = false;

  std::string family, reward_family, pretrain, reward_pretrain, critic_size;
  std::shared_ptr<const Architecture> model, critic_model;

  bool coati() const { return release < kBoosted; }
  /// Transformers up to 4.44 gives logits back in fp32, but for a few older families; later ones widen them in the
  /// model's own loss alone.
  bool wide_logits() const;
  bool rl() const { return program == Program::ppo || program == Program::benchmark || program == Program::grpo; }
  bool has_critic() const { return program == Program::ppo || program == Program::benchmark; }
  bool has_reward() const { return rl() && !no_reward_model && (program != Program::grpo || !reward_pretrain.empty()); }
  bool has_reference() const {
    return rl() || ((program == Program::dpo || program == Program::kto) && !no_reference);
  }
  /// Learns given sequences by language-model heads, since 0.3.7 (supervised_loop.h).
  bool follows_sequences() const { return !coati() && !rl() && program != Program::rm; }
  bool gemini() const { return coati() ? strategy.find("gemini") != std::string::npos : plugin.starts_with("gemini"); }
  bool parallel() const { return !coati() && plugin == "3d"; }
  bool narrow() const { return precision == "fp16"; }
  /// Ranks that see different sequences.
  std::int64_t data_ranks() const { return nodes * gpus / (parallel() ? tensor * pipeline * sequence : 1); }
  /// Chosen and rejected answers lie in one batch.
  std::int64_t rows_a_sample() const {
    return program == Program::rm || program == Program::dpo || program == Program::orpo ? 2 : 1;
  }
  /// Sequences of a collect, and of the buffer, on one rank.
  std::int64_t collected() const { return experience_batch * (program == Program::grpo ? generations : 1); }
  std::int64_t buffer() const { return collected() * collects; }
  std::int64_t prompt() const;
  std::int64_t response() const;
  /// Models that are only evaluated wait on the host while others train.
  bool moves_inference() const;
  bool learns_texts() const { return text_coefficient != 0 && program != Program::benchmark && program != Program::grpo; }
};

/// Every flag of a program.
std::vector<settings::Key> keys_of(Program program);

void read_settings(Values& values, Settings& settings);
bool assign(Settings& settings, const Setting& setting);

/// What the programs refuse at start-up.
struct Problem {
  std::string key, message;
};
std::optional<Problem> find_problem(const Settings& settings);

}  // namespace headroom::colossalchat
