#include <algorithm>

#include "planner/frameworks/chatlearn/rlhf/settings.h"

namespace headroom::chatlearn::rlhf {
namespace {

using settings::Effect;
using settings::Key;
using settings::Row;
using I = std::int64_t;
using T = std::string;
using O = std::optional<I>;

constexpr I kMost = 1 << 24;

// clang-format off
#define FIELD(type, owner, name) [](owner& s) -> type& { return s.name; }
constexpr Row<Settings> kRuntime[] = {
    {"colocation", FIELD(std::vector<T>, Settings, colocation)},
    {"generation_batch_size", FIELD(I, Settings, generation_batch), "2", Effect::modelled, "", 1, kMost},
    {"train_micro_batch_size", FIELD(I, Settings, micro_batch), "2", Effect::modelled, "", 1, kMost},
    {"train_global_batch_size", FIELD(O, Settings, global_batch), "null", Effect::modelled, "", 1, kMost},
    {"sample_per_episode", FIELD(I, Settings, samples_an_episode), "1000", Effect::modelled, "", 1, kMost},
    {"num_training_epoch", FIELD(I, Settings, epochs), "1", Effect::modelled, "", 1, 10000},
    {"save_episode_interval", FIELD(I, Settings, save_interval), "0"},
    {"coalesced_buffer_mb", FIELD(I, Settings, buffer_mb), "100", Effect::modelled, "", 1, 1 << 20},
    {"bucket_size_mb_in_memory_manager", FIELD(I, Settings, bucket_mb), "1024", Effect::unmodelled, "buckets in which weights first leave", 0, 1 << 20},
    {"max_relay_episode", std::monostate{}, "0", Effect::unmodelled, "samples of earlier episodes on the host"},
    {""  , std::monostate{}, "null", Effect::none},
};

constexpr Row<Settings> kRoot[] = {
    {"headroom.gpu", FIELD(T, Settings, gpu)},
    {"headroom.gpus_per_node", FIELD(I, Settings, gpus_per_node), "8", Effect::modelled, "", 1, 1024},
    {"headroom.resumed", FIELD(bool, Settings, resumed), "false"},
    {"headroom.versions", std::monostate{}, "null", Effect::none},
    {"runtime_env", std::monostate{}, "null", Effect::none},
    {"includes", std::monostate{}, "null", Effect::none},
};

constexpr Row<Model> kSection[] = {
    {"num_gpu", FIELD(I, Model, gpus), "0", Effect::modelled, "", 0, 1000000},
    {"generation_batch_size", FIELD(O, Model, generation_batch), "null", Effect::modelled, "", 1, kMost},
    {"free_memory", FIELD(bool, Model, free.all), "false"},
    {"offload_weights", FIELD(bool, Model, free.weights), "false"},
    {"free_grad_buffers", FIELD(bool, Model, free.gradients), "false"},
    {"offload_optimizer_states", FIELD(bool, Model, free.optimizer), "false"},
    {"force_free_memory", FIELD(bool, Model, free.forced), "false"},
    {"lora.enable_lora", FIELD(bool, Model, adapters), "false"},
    {"lora.lora_dim", FIELD(I, Model, adapter_rank), "8", Effect::modelled, "", 1, 65536},
    {"lora", std::monostate{}, "null", Effect::none},
    {"trainable", std::monostate{}, "null", Effect::none, "follows from the model's part"},
    {"model_config_file", std::monostate{}, "null", Effect::none, "the file is read"},
    {"batch_generation", std::monostate{}, "null", Effect::none, "less padding than the cap"},
    {"num_cpu", std::monostate{}, "null", Effect::none}, {"gpu_per_process", std::monostate{}, "null", Effect::none},
    {"cpu_per_process", std::monostate{}, "null", Effect::none}, {"sync_frequency", std::monostate{}, "1", Effect::none},
    {"args_dict", std::monostate{}, "null", Effect::none},
};

constexpr Row<Model> kArguments[] = {
    {"tensor_model_parallel_size", FIELD(I, Model, tensor), "1", Effect::modelled, "", 1, 1024},
    {"pipeline_model_parallel_size", FIELD(I, Model, pipeline), "1", Effect::modelled, "", 1, 1024},
    {"use_distributed_optimizer", FIELD(bool, Model, distributed), "false"},
    {"sequence_parallel", FIELD(bool, Model, sequence_parallel), "false"},
    {"recompute_activations", FIELD(bool, Model, recompute_activations), "false"},
    {"recompute_granularity", FIELD(T, Model, granularity)},
    {"recompute_method", FIELD(T, Model, method)},
    {"recompute_num_layers", FIELD(O, Model, recompute_layers), "null", Effect::modelled, "", 1, 10000},
    {"num_layers", FIELD(O, Model, layers), "null", Effect::modelled, "", 1, 100000},
    {"hidden_size", FIELD(O, Model, hidden), "null", Effect::modelled, "", 1, 1 << 20},
    {"num_attention_heads", FIELD(O, Model, heads), "null", Effect::modelled, "", 1, 1 << 16},
    {"ffn_hidden_size", FIELD(O, Model, ffn), "null", Effect::modelled, "", 1, 1 << 22},
    {"group_query_attention", FIELD(bool, Model, groups_queries), "false"},
    {"num_query_groups", FIELD(O, Model, groups), "null", Effect::modelled, "", 1, 1 << 16},
    {"padded_vocab_size", FIELD(O, Model, vocabulary), "null", Effect::modelled, "", 1, 1 << 24},
    {"make_vocab_size_divisible_by", FIELD(I, Model, vocabulary_multiple), "128", Effect::modelled, "", 1, 1 << 16},
    {"untie_embeddings_and_output_weights", FIELD(bool, Model, untied), "false"},
    {"seq_length", FIELD(I, Model, sequence_length), "1024", Effect::modelled, "", 2, 1 << 22},
    {"max_new_tokens", FIELD(I, Model, new_tokens), "512", Effect::modelled, "", 1, 1 << 22},
    {"max_position_embeddings", FIELD(I, Model, positions), "4096", Effect::modelled, "", 1, 1 << 24},
    {"gpu_memory_utilization", FIELD(double, Model, utilization), "0"},
    {"max_num_batched_tokens", FIELD(I, Model, batched_tokens), "32768", Effect::modelled, "", 1, 1 << 24},
    {"swap_space", FIELD(I, Model, swap_gib), "4", Effect::modelled, "", 0, 1 << 16},
    {"", std::monostate{}, "null", Effect::none},
};
#undef FIELD
// clang-format on

std::string at(const Model& model) {
  return "models." + model.name + ".";
}

}  // namespace

std::vector<Key> keys() {
  std::vector<Key> out;
  settings::append_keys(out, "runtime.", std::span<const Row<Settings>>(kRuntime));
  settings::append_keys(out, "", std::span<const Row<Settings>>(kRoot));
  for (const std::string_view name : kModels) {
    const std::string section = "models." + std::string(name) + ".";
    settings::append_keys(out, section, std::span<const Row<Model>>(kSection));
    settings::append_keys(out, section + "args.", std::span<const Row<Model>>(kArguments));
  }
  return out;
}

void read_settings(Values& values, Settings& s) {
  settings::read_section(values, "runtime.", std::span<const Row<Settings>>(kRuntime), s.release, s);
  settings::read_section(values, "", std::span<const Row<Settings>>(kRoot), s.release, s);
  for (std::size_t i = 0; i < kModels.size(); ++i) {
    Model& m = s.models[i];
    m.name = kModels[i];
    m.trained = i == kPpoPolicy || i == kPpoValue;
    m.exists = values.given("models." + m.name);
    if (!m.exists) continue;
    settings::read_section(values, at(m), std::span<const Row<Model>>(kSection), s.release, m);
    settings::read_section(values, at(m) + "args.", std::span<const Row<Model>>(kArguments), s.release, m);
  }
}

bool assign(Settings& s, const Setting& setting) {
  const std::string_view key = setting.key;
  if (key.starts_with("runtime."))
    return settings::assign(s, std::span<const Row<Settings>>(kRuntime), key.substr(8), setting.value);
  for (Model& m : s.models) {
    const std::string section = at(m);
    if (!key.starts_with(section)) continue;
    if (key.starts_with(section + "args."))
      return settings::assign(m, std::span<const Row<Model>>(kArguments), key.substr(section.size() + 5), setting.value);
    return settings::assign(m, std::span<const Row<Model>>(kSection), key.substr(section.size()), setting.value);
  }
  return settings::assign(s, std::span<const Row<Settings>>(kRoot), key, setting.value);
}

std::string Settings::group_of(std::string_view model) const {
  for (const std::string& group : colocation) {
    if (group.find(',') == std::string::npos) continue;
    const std::string padded = "," + group + ",";
    if (padded.find("," + std::string(model) + ",") != std::string::npos) return group;
  }
  return {};
}

}  // namespace headroom::chatlearn::rlhf
