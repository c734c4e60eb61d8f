#include "planner/frameworks/verl/named.h"

#include <algorithm>
#include <array>

#include "planner/configuration/layers.h"
#include "planner/configuration/value_grammar.h"

namespace headroom::verl {
namespace {

constexpr Version v5{0, 5, 0}, v6{0, 6, 0}, v7{0, 7, 0}, v71{0, 7, 1};

struct Named {
  std::string_view name, parent;
};
constexpr auto kNamed = std::to_array<Named>({
    {"ppo_trainer", ""},
    {"ppo_megatron_trainer", ""},
    {"dapo_trainer", "ppo_trainer"},
    {"dapo_megatron_trainer", "ppo_megatron_trainer"},
    {"entropy_trainer", "ppo_trainer"},
    {"prime_trainer", "ppo_trainer"},
    {"spin_trainer", "ppo_trainer"},
    {"sppo_trainer", "ppo_trainer"},
    {"flowrl_trainer", "ppo_trainer"},
    {"ppo_trainer_split", "ppo_trainer"},
    {"one_step_off_ppo_trainer", "ppo_trainer"},
    {"one_step_off_ppo_megatron_trainer", "ppo_megatron_trainer"},
    {"fully_async_ppo_trainer", "ppo_trainer"},
    {"fully_async_dapo_trainer", "fully_async_ppo_trainer"},
    {"fully_async_ppo_megatron_trainer", "ppo_megatron_trainer"},
    {"transfer_queue_ppo_trainer", "ppo_trainer"},
    {"transfer_queue_ppo_megatron_trainer", "ppo_megatron_trainer"},
    {"gsm8k_multiturn_grpo", "ppo_trainer"},
    {"gsm8k_multiturn_grpo_server", "gsm8k_multiturn_grpo"},
    {"gsm8k_multiturn_grpo_w_interaction", "gsm8k_multiturn_grpo"},
    {"gsm8k_multiturn_sf_grpo", "gsm8k_multiturn_grpo"},
    {"gsm8k_multiturn_megatron_grpo", "ppo_megatron_trainer"},
    {"geo3k_multiturn_grpo", "ppo_trainer"},
    {"geo3k_multiturn_megatron_grpo", "ppo_megatron_trainer"},
    {"search_multiturn_grpo", "gsm8k_multiturn_grpo"},
    {"search_multiturn_grpo_one_step_off", "gsm8k_multiturn_grpo"},
    {"retool_multiturn_grpo", "ppo_trainer"},
});

/// One changed key.
struct Changed {
  std::string_view name, key, value;
  Version since = kOldest, until = kNever;
};
constexpr auto kChanged = std::to_array<Changed>({
    {"ppo_megatron_trainer", "actor_rollout_ref.actor.strategy", "megatron"},
    {"ppo_megatron_trainer", "actor_rollout_ref.ref.strategy", "megatron"},
    {"ppo_megatron_trainer", "critic.strategy", "megatron"},
    {"ppo_megatron_trainer", "reward_model.strategy", "megatron", kOldest, v71},
    {"ppo_megatron_trainer", "actor_rollout_ref.rollout.load_format", "dummy_megatron", kOldest, v6},
    {"ppo_megatron_trainer", "actor_rollout_ref.rollout.tensor_model_parallel_size", "1", kOldest, v6},
    {"ppo_megatron_trainer", "actor_rollout_ref.model.enable_gradient_checkpointing", "false", kOldest, v5},
    {"ppo_megatron_trainer", "critic.model.enable_gradient_checkpointing", "false", kOldest, v5},
    {"ppo_megatron_trainer", "actor_rollout_ref.model.use_remove_padding", "false", v7},
    {"prime_trainer", "algorithm.adv_estimator", "rloo"},
    {"prime_trainer", "actor_rollout_ref.model.use_remove_padding", "true"},
    {"prime_trainer", "actor_rollout_ref.rollout.n", "4"},
    {"prime_trainer", "actor_rollout_ref.actor.entropy_coeff", "0.001"},
    {"prime_trainer", "reward_model.enable", "true"},
    {"prime_trainer", "reward_model.model.use_remove_padding", "true"},
    {"prime_trainer", "trainer.val_before_train", "false"},
    {"spin_trainer", "algorithm.adv_estimator", "null"},
    {"spin_trainer", "actor_rollout_ref.rollout.name", "sglang"},
    {"sppo_trainer", "algorithm.adv_estimator", "null"},
    {"sppo_trainer", "actor_rollout_ref.rollout.name", "sglang"},
    {"dapo_trainer", "data.gen_batch_size", "${data.train_batch_size}"},
    {"dapo_megatron_trainer", "data.gen_batch_size", "${data.train_batch_size}"},
    {"entropy_trainer", "data.gen_batch_size", "${data.train_batch_size}"},
    {"one_step_off_ppo_trainer", "rollout.nnodes", "1"},
    {"one_step_off_ppo_trainer", "rollout.n_gpus_per_node", "8"},
    {"one_step_off_ppo_trainer", "actor_rollout_ref.rollout.free_cache_engine", "false", v7},
    {"one_step_off_ppo_trainer", "actor_rollout_ref.rollout.calculate_log_probs", "true", v7},
    {"one_step_off_ppo_trainer", "algorithm.rollout_correction.bypass_mode", "true", v7},
    {"one_step_off_ppo_megatron_trainer", "rollout.nnodes", "1"},
    {"one_step_off_ppo_megatron_trainer", "rollout.n_gpus_per_node", "8"},
    {"one_step_off_ppo_megatron_trainer", "actor_rollout_ref.rollout.free_cache_engine", "false", v7},
    {"one_step_off_ppo_megatron_trainer", "actor_rollout_ref.rollout.calculate_log_probs", "true", v7},
    {"one_step_off_ppo_megatron_trainer", "algorithm.rollout_correction.bypass_mode", "true", v7},
    {"fully_async_ppo_trainer", "rollout.nnodes", "1"},
    {"fully_async_ppo_trainer", "rollout.n_gpus_per_node", "8"},
    {"fully_async_ppo_trainer", "async_training.require_batches", "1"},
    {"fully_async_ppo_trainer", "data.gen_batch_size", "1"},
    {"fully_async_ppo_megatron_trainer", "rollout.nnodes", "1"},
    {"fully_async_ppo_megatron_trainer", "rollout.n_gpus_per_node", "8"},
    {"fully_async_ppo_megatron_trainer", "async_training.require_batches", "1"},
    {"fully_async_ppo_megatron_trainer", "data.gen_batch_size", "1"},
    {"gsm8k_multiturn_grpo", "data.max_prompt_length", "1024"},
    {"gsm8k_multiturn_grpo", "data.max_response_length", "1024"},
    {"gsm8k_multiturn_grpo", "data.train_batch_size", "256"},
    {"gsm8k_multiturn_grpo", "actor_rollout_ref.rollout.name", "sglang"},
    {"gsm8k_multiturn_megatron_grpo", "data.max_prompt_length", "1024"},
    {"gsm8k_multiturn_megatron_grpo", "data.max_response_length", "1024"},
    {"gsm8k_multiturn_megatron_grpo", "data.train_batch_size", "256"},
    {"gsm8k_multiturn_megatron_grpo", "actor_rollout_ref.rollout.name", "sglang"},
    {"geo3k_multiturn_grpo", "data.max_prompt_length", "2048"},
    {"geo3k_multiturn_grpo", "data.max_response_length", "2048"},
    {"geo3k_multiturn_grpo", "data.train_batch_size", "256"},
    {"geo3k_multiturn_grpo", "actor_rollout_ref.rollout.name", "sglang"},
    {"geo3k_multiturn_megatron_grpo", "data.max_prompt_length", "2048"},
    {"geo3k_multiturn_megatron_grpo", "data.max_response_length", "2048"},
    {"geo3k_multiturn_megatron_grpo", "data.train_batch_size", "256"},
    {"geo3k_multiturn_megatron_grpo", "actor_rollout_ref.rollout.name", "sglang"},
    {"retool_multiturn_grpo", "data.max_prompt_length", "1024"},
    {"retool_multiturn_grpo", "data.max_response_length", "1024"},
    {"retool_multiturn_grpo", "data.train_batch_size", "256"},
    {"retool_multiturn_grpo", "actor_rollout_ref.rollout.name", "sglang"},
});

/// Programs by a part of their module or path.
struct Program {
  std::string_view part, configuration;
};
constexpr auto kPrograms = std::to_array<Program>({
    {"fully_async_main", "fully_async_ppo_trainer"},
    {"one_step_off_policy", "one_step_off_ppo_trainer"},
    {"main_dapo", "dapo_trainer"},
    {"main_entropy", "entropy_trainer"},
    {"main_prime", "prime_trainer"},
    {"main_spin", "spin_trainer"},
    {"main_sppo", "sppo_trainer"},
    {"main_flowrl", "flowrl_trainer"},
    {"main_ppo_split", "ppo_trainer_split"},
    {"main_ppo", "ppo_trainer"},
    {"main_grpo", "ppo_trainer"},
});

const Named* find(std::string_view name) {
  const auto found =
      std::find_if(kNamed.begin(), kNamed.end(), [&](const Named& one) { return one.name == name; });
  return found == kNamed.end() ? nullptr : &*found;
}

const Program* program_of(std::string_view program) {
  for (const Program& one : kPrograms)
    if (program.find(one.part) != std::string_view::npos) return &one;
  return nullptr;
}

}  // namespace

bool is_named(std::string_view name) {
  return find(name) != nullptr;
}

Document named_settings(std::string_view name, const Version& release) {
  const Named* named = find(name);
  if (named == nullptr) return Document::map();
  Document out = named->parent.empty() ? Document::map() : named_settings(named->parent, release);
  for (const Changed& one : kChanged) {
    if (one.name != name || release < one.since || release >= one.until) continue;
    Result<Document> value = parse_value(one.value);
    if (value) out.set_path(one.key, std::move(*value));
  }
  return out;
}

std::string_view configuration_of(std::string_view program) {
  const Program* found = program_of(program);
  return found == nullptr ? "ppo_trainer" : found->configuration;
}

bool is_trainer(std::string_view program) {
  return program_of(program) != nullptr;
}

std::string known_names() {
  std::string out;
  for (const Named& one : kNamed) out += (out.empty() ? "" : ", ") + std::string(one.name);
  return out;
}

}  // namespace headroom::verl
