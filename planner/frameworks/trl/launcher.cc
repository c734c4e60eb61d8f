#include "planner/frameworks/trl/launcher.h"

#include <algorithm>
#include <array>
#include <utility>

namespace headroom::trl {
namespace {

constexpr std::string_view kSection = "accelerate.";

/// Accelerate's flags that its files have too, at the top or in the maps of DeepSpeed and FSDP.
constexpr std::array<std::string_view, 27> kFlags = {"distributed_type",
                                                     "num_processes",
                                                     "num_machines",
                                                     "mixed_precision",
                                                     "multi_gpu",
                                                     "use_deepspeed",
                                                     "use_fsdp",
                                                     "zero_stage",
                                                     "offload_optimizer_device",
                                                     "offload_param_device",
                                                     "zero3_init_flag",
                                                     "zero3_save_16bit_model",
                                                     "deepspeed_config_file",
                                                     "deepspeed_moe_layer_cls_names",
                                                     "gradient_clipping",
                                                     "fsdp_version",
                                                     "fsdp_reshard_after_forward",
                                                     "fsdp_sharding_strategy",
                                                     "fsdp_offload_params",
                                                     "fsdp_auto_wrap_policy",
                                                     "fsdp_transformer_layer_cls_to_wrap",
                                                     "fsdp_forward_prefetch",
                                                     "fsdp_activation_checkpointing",
                                                     "fsdp_cpu_ram_efficient_loading",
                                                     "fsdp_state_dict_type",
                                                     "machine_rank",
                                                     "dynamo_backend"};

/// Of those the ones that decide nothing here.
constexpr std::array<std::string_view, 22> kOthers = {"compute_environment",
                                                      "debug",
                                                      "downcast_bf16",
                                                      "enable_cpu_affinity",
                                                      "main_training_function",
                                                      "rdzv_backend",
                                                      "same_network",
                                                      "tpu_env",
                                                      "tpu_use_cluster",
                                                      "tpu_use_sudo",
                                                      "use_cpu",
                                                      "gpu_ids",
                                                      "main_process_ip",
                                                      "main_process_port",
                                                      "deepspeed_multinode_launcher",
                                                      "deepspeed_hostfile",
                                                      "fsdp_backward_prefetch",
                                                      "fsdp_sync_module_states",
                                                      "fsdp_use_orig_params",
                                                      "fsdp_min_num_params",
                                                      "fsdp_backward_prefetch_policy",
                                                      "num_cpu_threads_per_process"};

bool is_flag(std::string_view name) {
  return std::find(kFlags.begin(), kFlags.end(), name) != kFlags.end() ||
         std::find(kOthers.begin(), kOthers.end(), name) != kOthers.end() ||
         name.starts_with("parallelism_config");
}

struct Shipped {
  std::string_view name, text;
};
/// By what they say, in Accelerate's own words.
constexpr std::array<Shipped, 7> kShipped = {{
    {"single_gpu", "{distributed_type: 'NO', mixed_precision: bf16, num_processes: 8}"},
    {"multi_gpu", "{distributed_type: MULTI_GPU, mixed_precision: bf16, num_processes: 8}"},
    {"zero1",
     "{distributed_type: DEEPSPEED, mixed_precision: bf16, num_processes: 8, deepspeed_config: {zero_stage: "
     "1, "
     "zero3_init_flag: false, gradient_accumulation_steps: 1}}"},
    {"zero2",
     "{distributed_type: DEEPSPEED, mixed_precision: bf16, num_processes: 8, deepspeed_config: {zero_stage: "
     "2, "
     "zero3_init_flag: false, offload_optimizer_device: none, offload_param_device: none}}"},
    {"zero3",
     "{distributed_type: DEEPSPEED, mixed_precision: bf16, num_processes: 8, deepspeed_config: {zero_stage: "
     "3, "
     "zero3_init_flag: true, zero3_save_16bit_model: true, offload_optimizer_device: none, "
     "offload_param_device: none}}"},
    {"fsdp1",
     "{distributed_type: FSDP, mixed_precision: bf16, num_processes: 8, fsdp_config: {fsdp_version: 1, "
     "fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP, fsdp_reshard_after_forward: FULL_SHARD, "
     "fsdp_forward_prefetch: true, fsdp_state_dict_type: FULL_STATE_DICT}}"},
    {"fsdp2",
     "{distributed_type: FSDP, mixed_precision: bf16, num_processes: 8, fsdp_config: {fsdp_version: 2, "
     "fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP, fsdp_reshard_after_forward: true, "
     "fsdp_state_dict_type: FULL_STATE_DICT}}"},
}};

}  // namespace

bool is_accelerate_file(const Document& document) {
  return document.find("distributed_type") != nullptr || document.find("compute_environment") != nullptr;
}

bool is_deepspeed_file(const Document& document) {
  return document.find("zero_optimization") != nullptr ||
         document.find("train_micro_batch_size_per_gpu") != nullptr;
}

std::string key_of_flag(const std::string& name) {
  return is_flag(name) ? std::string(kSection) + name : name;
}

std::string_view flag_of_key(std::string_view key) {
  return key.starts_with(kSection) ? key.substr(kSection.size()) : key;
}

Document with_accelerate_keys(const Document& document) {
  const bool own = is_accelerate_file(document);
  Document out = Document::map(document.line()), launcher = Document::map(document.line());
  const auto nested = [&](const Document& map, std::string_view prefix) {
    for (const auto& [name, value] : map.entries())
      launcher.set(prefix.empty() || name.starts_with(prefix) ? name : std::string(prefix) + name, value);
  };
  for (const auto& [name, value] : document.entries()) {
    if (own && value.is_map() && name == "deepspeed_config")
      nested(value, "");
    else if (own && value.is_map() && name == "fsdp_config")
      nested(value, "fsdp_");
    else if (own || is_flag(name))
      launcher.set(name, value);
    else
      out.add_entry(name, value);
  }
  if (!launcher.entries().empty()) out.set("accelerate", std::move(launcher));
  return out;
}

std::string_view shipped_configuration(std::string_view name) {
  for (const Shipped& one : kShipped)
    if (one.name == name) return one.text;
  return {};
}

Result<Document> with_maps(Document document, const std::string& file) {
  for (const char* key : {"gradient_checkpointing_kwargs", "model_init_kwargs", "accelerator_config",
                          "generation_kwargs", "fsdp_config", "parallelism_config"}) {
    const Document* value = document.find(key);
    if (value == nullptr || !value->is_scalar() || !value->text().starts_with('{')) continue;
    HEADROOM_ASSIGN(Document map, parse_document(value->text(), file));
    document.set(key, std::move(map));
  }
  return document;
}

}  // namespace headroom::trl
