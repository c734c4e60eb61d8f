#include <algorithm>

#include "planner/frameworks/deepspeed_chat/supervised.h"

namespace headroom::deepspeed_chat::supervised {
namespace {

using settings::Effect;
using settings::Key;
using R = settings::Row<Settings>;

constexpr std::int64_t kMost = std::int64_t{1} << 24;

// clang-format off
#define FIELD(type, name) [](Settings& s) -> type& { return s.name; }
using I = std::int64_t;
using T = std::string;
constexpr R kRows[] = {
    {"model_name_or_path", FIELD(T, model_path)},
    {"per_device_train_batch_size", FIELD(I, batch), "16", Effect::modelled, "", 1, kMost},
    {"per_device_eval_batch_size", FIELD(I, eval_batch), "16", Effect::modelled, "", 1, kMost},
    {"max_seq_len", FIELD(I, length), "512", Effect::modelled, "", 2, 1 << 20},
    {"gradient_accumulation_steps", FIELD(I, accumulation), "1", Effect::modelled, "", 1, 1 << 16},
    {"gradient_checkpointing", FIELD(bool, checkpointing), "false"},
    {"zero_stage", FIELD(I, zero_stage), "0", Effect::modelled, "", 0, 3},
    {"offload", FIELD(bool, offload), "false"},
    {"offload_reference_model", FIELD(bool, offload_reference), "false"},
    {"dtype", FIELD(T, dtype), "fp16"},
    {"dropout", FIELD(T, dropout)},
    {"disable_dropout", FIELD(bool, disable_dropout), "false"},
    {"lora_dim", FIELD(I, lora_rank), "0", Effect::modelled, "", 0, 65536},
    {"lora_module_name", FIELD(T, lora_scope), "decoder.layers."},
    {"only_optimize_lora", FIELD(bool, only_lora), "false"},
    {"compute_fp32_loss", std::monostate{}, "false", Effect::none, "the loss widens the logits in any case"},
    {"headroom.gpu", FIELD(T, gpu)},
    {"headroom.full_rows", FIELD(bool, full_rows), "false"},
};
#undef FIELD
// clang-format on

/// Of data, logging, learning rates and files.
constexpr std::string_view kWithoutEffect[] = {
    "data_path", "data_split", "sft_only_data_path", "data_output_path", "learning_rate", "lora_learning_rate",
    "weight_decay", "num_train_epochs", "lr_scheduler_type", "num_warmup_steps", "output_dir", "seed", "local_rank",
    "deepspeed", "deepspeed_config", "enable_tensorboard", "tensorboard_path", "print_loss", "add_eot_token", "eot_token",
    "num_padding_at_beginning", "eval_interval", "eval_iters", "beta", "label_smoothing", "headroom"};

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

}  // namespace headroom::deepspeed_chat::supervised
