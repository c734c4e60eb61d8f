#include "planner/frameworks/nemo_rl/aliases.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "planner/configuration/value_grammar.h"

namespace headroom::nemo_rl {
namespace {

/// What a guide's word stands for under each backend, below the model's section; `$` in a value is what was
/// given. Several keys are separated by blanks. Empty: nothing, for the reason given.
struct Alias {
  std::string_view word, dtensor, megatron, why;
};

// clang-format off
constexpr std::array kAliases = {
    Alias{"gradient_checkpointing", "dtensor_cfg.activation_checkpointing=$", "megatron_cfg.activation_checkpointing=$", ""},
    Alias{"activation_checkpointing", "dtensor_cfg.activation_checkpointing=$", "megatron_cfg.activation_checkpointing=$", ""},
    Alias{"checkpoint_every", "", "", "every layer is checkpointed, or none; checkpointing.save_period says how often the run is saved"},
    Alias{"checkpoint_layers", "", "", "every layer is checkpointed, or none (Megatron: recompute_granularity and recompute_modules)"},
    Alias{"mixed_precision", "precision=$", "precision=$", ""},
    Alias{"precision", "precision=$", "precision=$", ""},
    Alias{"loss_scaling", "", "", "the loss is not scaled in bfloat16; Megatron scales it by itself in float16"},
    Alias{"gradient_accumulation_steps", "", "", "it follows from train_global_batch_size and train_micro_batch_size"},
    Alias{"model_parallel", "dtensor_cfg.tensor_parallel_size=$", "megatron_cfg.tensor_model_parallel_size=$", ""},
    Alias{"tensor_parallel_size", "dtensor_cfg.tensor_parallel_size=$", "megatron_cfg.tensor_model_parallel_size=$", ""},
    Alias{"pipeline_parallel_size", "", "megatron_cfg.pipeline_model_parallel_size=$", "FSDP2 has no pipeline"},
    Alias{"offload_optimizer", "dtensor_cfg.cpu_offload=$", "megatron_cfg.optimizer.optimizer_cpu_offload=$ megatron_cfg.optimizer.optimizer_offload_fraction=1.0", ""},
    Alias{"offload_activations", "", "megatron_cfg.fine_grained_activation_offloading=$", "FSDP2's workers keep activations on the GPU"},
    Alias{"use_flash_attention", "", "", "the attention follows from sequence_packing and the model"},
    Alias{"pin_memory", "", "", "which copies are pinned is fixed"},
    Alias{"attention_heads", "hf_config_overrides.num_attention_heads=$", "hf_config_overrides.num_attention_heads=$", ""},
    Alias{"attention_head_dim", "hf_config_overrides.head_dim=$", "hf_config_overrides.head_dim=$", ""},
    Alias{"num_workers", "/data.num_workers=$", "/data.num_workers=$", ""},
};
// clang-format on

constexpr std::array<std::string_view, 3> kModels = {"policy", "value", "teacher"};

/// The section of the model that `key` speaks of, and whether it stands where a guide would put it: at the
/// root, in a model's section, or in a section that NeMo RL does not have.
std::optional<std::string> model_of(std::string_view key) {
  const std::size_t dot = key.find('.');
  if (dot == std::string_view::npos) return "policy";
  const std::string_view section = key.substr(0, dot);
  const bool below = key.find('.', dot + 1) == std::string_view::npos;
  for (std::string_view model : kModels)
    if (section == model) return below ? std::optional<std::string>(model) : std::nullopt;
  constexpr std::array<std::string_view, 5> kOwn = {"data", "env", "logger", "headroom", "checkpointing"};
  if (std::find(kOwn.begin(), kOwn.end(), section) != kOwn.end() || !below) return std::nullopt;
  return "policy";
}

std::string value_text(std::string_view word, const Document& value) {
  std::string text = value.is_scalar() ? value.text() : format_value(value);
  if (word == "mixed_precision" || word == "precision") {
    if (text == "bf16") text = "bfloat16";
    if (text == "fp16") text = "float16";
    if (text == "fp32") text = "float32";
  }
  return text;
}

}  // namespace

Result<std::vector<Notice>> replace_aliases(Layers& layers) {
  std::vector<Notice> notices;
  struct Given {
    std::string key, file;
    Document value;
    const Alias* alias;
    std::string model;
  };
  std::vector<Given> found;
  for (const Layers::Leaf& leaf : layers.given_leaves()) {
    const std::string_view key = leaf.key;
    const std::string_view word =
        key.substr(key.rfind('.') == std::string_view::npos ? 0 : key.rfind('.') + 1);
    if (key == "policy.precision" || key == "value.precision" || key == "teacher.precision") continue;
    const auto model = model_of(key);
    for (const Alias& alias : kAliases)
      if (model && alias.word == word) found.push_back({leaf.key, *leaf.file, *leaf.value, &alias, *model});
  }
  for (const Given& given : found) {
    const auto enabled = layers.get(given.model + ".megatron_cfg.enabled");
    const bool megatron =
        enabled && *enabled && Document::scalar((*enabled)->value.text()).as_bool().value_or(false);
    std::string keys(megatron ? given.alias->megatron : given.alias->dtensor), told;
    const std::string value = value_text(given.alias->word, given.value);
    for (std::size_t at = 0; at < keys.size();) {
      const std::size_t end = std::min(keys.find(' ', at), keys.size());
      std::string change = keys.substr(at, end - at);
      at = end + 1;
      if (const std::size_t mark = change.find('$'); mark != std::string::npos)
        change.replace(mark, 1, value);
      change = change.starts_with('/') ? change.substr(1) : given.model + "." + change;
      HEADROOM_ASSIGN(Override parsed, parse_override("++" + change, given.file, given.value.line()));
      HEADROOM_TRY(layers.apply(parsed));
      told += (told.empty() ? "" : ", ") + change;
    }
    // Answered: nobody need guess what else it may be.
    HEADROOM_ASSIGN(const Override answered, parse_override("~" + given.key, given.file, given.value.line()));
    HEADROOM_TRY(layers.apply(answered));
    notices.push_back(
        {.file = given.file,
         .line = given.value.line(),
         .key = given.key,
         .message = told.empty() ? fmt::format("is no key of NeMo RL and has no effect: {}", given.alias->why)
                                 : fmt::format("is no key of NeMo RL; taken as {}", told)});
  }
  return notices;
}

}  // namespace headroom::nemo_rl
