#include "planner/frameworks/deepspeed_chat/ppo.h"

namespace headroom::deepspeed_chat::ppo {
namespace {

using settings::Effect;
using settings::Key;
using R = settings::Row<Settings>;

constexpr std::int64_t kMost = std::int64_t{1} << 24;

// clang-format off
#define FIELD(type, name) [](Settings& s) -> type& { return s.name; }
using I = std::int64_t;
using O = std::optional<std::int64_t>;
using T = std::string;
constexpr R kRows[] = {
    {"actor_model_name_or_path", FIELD(T, actor.path)},
    {"critic_model_name_or_path", FIELD(T, critic.path)},
    {"per_device_generation_batch_size", FIELD(I, generation_batch), "16", Effect::modelled, "", 1, kMost},
    {"per_device_train_batch_size", FIELD(O, old_generation_batch), "null", Effect::modelled, "", 1, kMost},
    {"per_device_training_batch_size", FIELD(I, training_batch), "16", Effect::modelled, "", 1, kMost},
    {"per_device_mini_train_batch_size", FIELD(O, old_training_batch), "null", Effect::modelled, "", 1, kMost},
    {"generation_batches", FIELD(I, generation_batches), "1", Effect::modelled, "", 1, 64},
    {"generation_batch_numbers", FIELD(O, old_generation_batches), "null", Effect::modelled, "", 1, 64},
    {"ppo_epochs", FIELD(I, epochs), "1", Effect::modelled, "", 1, 64},
    {"max_prompt_seq_len", FIELD(I, prompt), "256", Effect::modelled, "", 1, 1 << 20},
    {"max_answer_seq_len", FIELD(I, response), "256", Effect::modelled, "", 1, 1 << 20},
    {"gradient_accumulation_steps", FIELD(I, accumulation), "1", Effect::modelled, "", 1, 1 << 16},
    {"actor_zero_stage", FIELD(I, actor.zero_stage), "0", Effect::modelled, "", 0, 3},
    {"critic_zero_stage", FIELD(I, critic.zero_stage), "0", Effect::modelled, "", 0, 3},
    {"offload", FIELD(bool, offload), "false"},
    {"offload_reference_model", FIELD(bool, offload_reference), "false"},
    {"offload_reward_model", FIELD(bool, offload_reward), "false"},
    {"dtype", FIELD(T, dtype), "fp16"},
    {"enable_hybrid_engine", FIELD(bool, hybrid), "false"},
    {"inference_tp_size", FIELD(I, inference_tensor), "1", Effect::modelled, "", 1, 64},
    {"tp_gather_partition_size", FIELD(I, gathered_layers), "8", Effect::modelled, "", 1, 1 << 16},
    {"unpin_actor_parameters", FIELD(bool, unpinned), "false"},
    {"release_inference_cache", FIELD(bool, releases_cache), "false"},
    {"actor_gradient_checkpointing", FIELD(bool, actor.checkpointing), "false"},
    {"critic_gradient_checkpointing", FIELD(bool, critic.checkpointing), "false"},
    {"actor_dropout", FIELD(T, actor.dropout)},
    {"critic_dropout", FIELD(T, critic.dropout)},
    {"disable_actor_dropout", FIELD(bool, actor.disable_dropout), "false"},
    {"disable_critic_dropout", FIELD(bool, critic.disable_dropout), "false"},
    {"actor_lora_dim", FIELD(I, actor.lora_rank), "0", Effect::modelled, "", 0, 65536},
    {"critic_lora_dim", FIELD(I, critic.lora_rank), "0", Effect::modelled, "", 0, 65536},
    {"actor_lora_module_name", FIELD(T, actor.lora_scope), "decoder.layers."},
    {"critic_lora_module_name", FIELD(T, critic.lora_scope), "decoder.layers."},
    {"only_optimize_lora", FIELD(bool, only_lora), "false"},
    {"enable_ema", FIELD(bool, ema), "false"},
    {"compute_fp32_loss", FIELD(bool, fp32_loss), "false"},
    {"enable_mixed_precision_lora", FIELD(bool, quantized_lora), "false"},
    {"align_overflow", FIELD(bool, align_overflow), "false"},
    {"unsupervised_dataset_name", FIELD(T, unsupervised)},
    {"headroom.gpu", FIELD(T, gpu)},
};
#undef FIELD
// clang-format on

/// Of data, logging, learning rates and files.
constexpr std::string_view kWithoutEffect[] = {
    "data_path", "data_split", "data_output_path", "unsupervised_dataset_config_name", "unsup_coef", "actor_learning_rate",
    "critic_learning_rate", "actor_lora_learning_rate", "critic_lora_learning_rate", "actor_weight_decay",
    "critic_weight_decay", "num_train_epochs", "lr_scheduler_type", "num_warmup_steps", "output_dir", "seed",
    "local_rank", "deepspeed", "deepspeed_config", "enable_tensorboard", "tensorboard_path", "print_answers",
    "print_answers_interval", "add_eot_token", "num_padding_at_beginning", "enable_test_mode", "test_stop_step",
    "headroom"};

}  // namespace

std::vector<Key> keys() {
  std::vector<Key> out;
  settings::append_keys(out, "", std::span<const R>(kRows));
  settings::append_without_effect(out, kWithoutEffect);
  return out;
}

void read_settings(Values& values, Settings& s) {
  settings::read_section(values, "", std::span<const R>(kRows), s.release, s);
}

bool assign(Settings& s, const Setting& setting) {
  return settings::assign(s, std::span<const R>(kRows), setting.key, setting.value);
}

}  // namespace headroom::deepspeed_chat::ppo
