#include <algorithm>

#include "planner/frameworks/chatlearn/settings.h"

namespace headroom::chatlearn {
namespace {

using settings::Effect;
using settings::Key;
using settings::Row;

template <typename S>
constexpr Row<S> none(std::string_view key, std::string_view why = {}) {
  return {.key = key, .effect = Effect::none, .note = why};
}

// clang-format off
constexpr Row<Settings> kRuntime[] = {
    {.key = "train_backend", .member = [](Settings& s) -> std::string& { return s.train_backend; }},
    {.key = "rollout_backend", .member = [](Settings& s) -> std::string& { return s.rollout_backend; }, .fallback = "vllm"},
    {.key = "model_type", .member = [](Settings& s) -> std::string& { return s.model_type; }, .fallback = "llm"},
    {.key = "colocation", .member = [](Settings& s) -> std::vector<std::string>& { return s.colocation; }},
    {.key = "sample_per_episode", .member = [](Settings& s) -> std::int64_t& { return s.samples_an_episode; }, .fallback = "512", .least = 1},
    {.key = "train_micro_batch_size", .member = [](Settings& s) -> std::int64_t& { return s.micro_batch; }, .fallback = "8", .least = 1},
    {.key = "train_global_batch_size", .member = [](Settings& s) -> std::int64_t& { return s.global_batch; }, .fallback = "512", .least = 1},
    {.key = "num_inference_per_prompt", .member = [](Settings& s) -> std::int64_t& { return s.answers; }, .fallback = "32", .least = 1},
    {.key = "num_training_epoch", .member = [](Settings& s) -> std::int64_t& { return s.epochs; }, .fallback = "1", .least = 1, .most = 10000},
    {.key = "save_episode_interval", .member = [](Settings& s) -> std::int64_t& { return s.save_interval; }, .fallback = "0", .least = 0},
    {.key = "use_partial_rollout", .member = [](Settings& s) -> bool& { return s.partial_rollout; }, .fallback = "false"},
    none<Settings>("eval_episode_interval"), none<Settings>("bucket_size_mb_in_memory_manager", "with the distributed optimizer a buffer is one bucket"),
    none<Settings>(""),
};

constexpr Row<Settings> kRoot[] = {
    {.key = "headroom.gpu", .member = [](Settings& s) -> std::string& { return s.gpu; }},
    {.key = "headroom.resumed", .member = [](Settings& s) -> bool& { return s.resumed; }, .fallback = "false"},
    {.key = "headroom.gpus_per_node", .member = [](Settings& s) -> std::int64_t& { return s.gpus_per_node; }, .fallback = "8", .least = 1, .most = 1024},
    none<Settings>("headroom.versions"), none<Settings>("env_args"),
};

/// Of every model with GPUs.
constexpr Row<Model> kModel[] = {
    {.key = "num_gpu", .member = [](Model& m) -> std::int64_t& { return m.gpus; }, .fallback = "0", .least = 0, .most = 1'000'000},
    {.key = "generation_batch_size", .member = [](Model& m) -> std::int64_t& { return m.generation_batch; }, .fallback = "1", .least = 1},
    {.key = "free_gpu_memory.offload_weights", .member = [](Model& m) -> bool& { return m.free.weights; }, .fallback = "false"},
    {.key = "load", .member = [](Model& m) -> std::string& { return m.load; }},
    none<Model>("free_gpu_memory.free_grad_buffers"), none<Model>("free_gpu_memory.offload_optimizer_states"),
    {.key = "trainable", .effect = Effect::none, .note = "follows from the model's part"},
    none<Model>("gpu_per_process"), none<Model>("cpu_per_process"), none<Model>("num_cpu"), none<Model>("seed"),
};

constexpr Row<Model> kPasses[] = {
    {.key = "packing", .member = [](Model& m) -> bool& { return m.packing; }, .fallback = "false"},
    {.key = "max_token_in_packing", .member = [](Model& m) -> std::int64_t& { return m.packed_tokens; }, .fallback = "32768", .least = 1},
};

constexpr Row<Model> kFsdp[] = {
    {.key = "ulysses_sequence_parallel_size", .member = [](Model& m) -> std::int64_t& { return m.ulysses; }, .fallback = "1", .least = 1, .most = 4096},
    {.key = "meta_init", .member = [](Model& m) -> bool& { return m.meta_init; }, .fallback = "false"},
    {.key = "use_expandable_segments", .member = [](Model& m) -> bool& { return m.expandable; }, .fallback = "false"},
    {.key = "fsdp_size", .effect = Effect::none, .note = "is the number of GPUs, whatever it says"},
    {.key = "gradient_checkpointing", .effect = Effect::none, .note = "is always on"},
    {.key = "groupgemm", .effect = Effect::none, .note = "another kernel of the experts"},
};

constexpr Row<Model> kMegatron[] = {
    {.key = "tensor_model_parallel_size", .member = [](Model& m) -> std::int64_t& { return m.tensor; }, .fallback = "1", .least = 1},
    {.key = "pipeline_model_parallel_size", .member = [](Model& m) -> std::int64_t& { return m.pipeline; }, .fallback = "1", .least = 1},
    {.key = "virtual_pipeline_model_parallel_size", .member = [](Model& m) -> std::int64_t& { return m.virtual_pipeline; }, .fallback = "1", .least = 1},
    {.key = "expert_model_parallel_size", .member = [](Model& m) -> std::int64_t& { return m.expert; }, .fallback = "1", .least = 1},
    {.key = "expert_tensor_parallel_size", .member = [](Model& m) -> std::int64_t& { return m.expert_tensor; }, .fallback = "1", .least = 1},
    {.key = "context_parallel_size", .member = [](Model& m) -> std::int64_t& { return m.context; }, .fallback = "1", .least = 1},
    {.key = "sequence_parallel", .member = [](Model& m) -> bool& { return m.sequence_parallel; }, .fallback = "true"},
    {.key = "use_distributed_optimizer", .member = [](Model& m) -> bool& { return m.distributed; }, .fallback = "false"},
    {.key = "gradient_accumulation_fusion", .member = [](Model& m) -> bool& { return m.accumulation_fusion; }, .fallback = "false"},
    {.key = "deallocate_pipeline_outputs", .member = [](Model& m) -> bool& { return m.deallocates; }, .fallback = "false"},
    {.key = "recompute_granularity", .member = [](Model& m) -> std::string& { return m.granularity; }},
    {.key = "recompute_method", .member = [](Model& m) -> std::string& { return m.method; }},
    {.key = "recompute_num_layers", .member = [](Model& m) -> std::optional<std::int64_t>& { return m.recompute_layers; }, .least = 1},
    {.key = "recompute_modules", .member = [](Model& m) -> std::vector<std::string>& { return m.recompute_modules; }},
    {.key = "decoder_first_pipeline_num_layers", .member = [](Model& m) -> std::optional<std::int64_t>& { return m.first_stage_layers; }, .least = 1},
    {.key = "decoder_last_pipeline_num_layers", .member = [](Model& m) -> std::optional<std::int64_t>& { return m.last_stage_layers; }, .least = 1},
    {.key = "use_expandable_segments", .member = [](Model& m) -> bool& { return m.expandable; }, .fallback = "false"},
};

/// Of the model that learns: others have neither gradients nor an optimizer.
constexpr Row<Model> kTrained[] = {
    {.key = "free_gpu_memory.free_grad_buffers", .member = [](Model& m) -> bool& { return m.free.gradients; }, .fallback = "false"},
    {.key = "free_gpu_memory.offload_optimizer_states", .member = [](Model& m) -> bool& { return m.free.optimizer; }, .fallback = "false"},
    {.key = "entropy_coef", .member = [](Model& m) -> double& { return m.entropy_coefficient; }, .fallback = "0.0"},
    {.key = "optimizer.clip_grad", .member = [](Model& m) -> double& { return m.clip_grad; }, .fallback = "1"},
    none<Model>("optimizer"),
};

/// Of a model that does not learn, before the rows of all: what only gradients and a backward would feel.
constexpr Row<Model> kFrozen[] = {
    none<Model>("use_distributed_optimizer"), none<Model>("gradient_accumulation_fusion"), none<Model>("deallocate_pipeline_outputs"),
    none<Model>("recompute_granularity"), none<Model>("recompute_method"), none<Model>("recompute_num_layers"),
    none<Model>("recompute_modules"),
};

constexpr Row<Model> kEngine[] = {
    {.key = "tensor_model_parallel_size", .member = [](Model& m) -> std::int64_t& { return m.engine_tensor; }, .fallback = "1", .least = 1},
    {.key = "gpu_memory_utilization", .member = [](Model& m) -> double& { return m.utilization; }, .fallback = "0.8"},
    {.key = "max_num_batched_tokens", .member = [](Model& m) -> std::int64_t& { return m.batched_tokens; }, .fallback = "32768", .least = 1},
    {.key = "max_prompt_tokens_length", .member = [](Model& m) -> std::int64_t& { return m.prompt_length; }, .fallback = "1024", .least = 1, .most = 1 << 24},
    {.key = "max_response_tokens_length", .member = [](Model& m) -> std::int64_t& { return m.response_length; }, .fallback = "2048", .least = 1, .most = 1 << 24},
    {.key = "max_new_tokens", .member = [](Model& m) -> std::int64_t& { return m.response_length; }, .fallback = "null", .least = 1, .most = 1 << 24},
    {.key = "enforce_eager", .member = [](Model& m) -> bool& { return m.enforce_eager; }, .fallback = "false"},
    none<Model>(""),
};

constexpr Row<Settings> kOthers[] = {none<Settings>("models.reward", "rules on the CPU"), none<Settings>("models.rollout_manager"),
                                     none<Settings>("models.partial_rollout_manager"), none<Settings>("models.policy_trainer"),
                                     none<Settings>("models.ref_policy")};
// clang-format on

template <typename Visit>
void visit_model(const Settings& s, const std::string& at, Model& model, bool trains, Visit visit) {
  visit(at, trains ? std::span<const Row<Model>>(kTrained) : std::span<const Row<Model>>(kFrozen), model);
  visit(at, std::span<const Row<Model>>(kModel), model);
  visit(at, std::span<const Row<Model>>(kPasses), model);
  visit(at, s.megatron ? std::span<const Row<Model>>(kMegatron) : std::span<const Row<Model>>(kFsdp), model);
}

template <typename Visit>
void visit_sections(Settings& s, Visit visit) {
  visit(std::string("runtime_args."), std::span<const Row<Settings>>(kRuntime), s);
  visit(std::string(), std::span<const Row<Settings>>(kRoot), s);
  visit_model(s, "models.policy_trainer.", s.trainer, true, visit);
  visit_model(s, "models.ref_policy.", s.reference, false, visit);
  visit(std::string("models.policy."), std::span<const Row<Model>>(kModel), s.policy);
  visit(std::string("models.policy."), std::span<const Row<Model>>(kEngine), s.policy);
  visit(std::string(), std::span<const Row<Settings>>(kOthers), s);
}

}  // namespace

bool Settings::colocated(std::string_view model) const {
  // A flat list is one group; a list of comma-joined names holds several.
  if (colocation.size() < 2 && (colocation.empty() || colocation.front().find(',') == std::string::npos))
    return false;
  return std::any_of(colocation.begin(), colocation.end(), [&](const std::string& group) {
    std::string_view rest = group;
    while (true) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      std::string_view name = rest.substr(0, comma);
      while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
      while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
      if (name == model) return true;
      if (comma == rest.size()) return false;
      rest.remove_prefix(comma + 1);
    }
  });
}

std::vector<Key> keys_of(const Settings& settings) {
  std::vector<Key> out;
  Settings copy = settings;
  visit_sections(copy, [&]<typename S>(const std::string& at, std::span<const Row<S>> rows, S&) {
    settings::append_keys(out, at, rows);
  });
  return out;
}

void read_settings(Values& values, Settings& s) {
  visit_sections(s, [&]<typename S>(const std::string& at, std::span<const Row<S>> rows, S& into) {
    settings::read_section(values, at, rows, s.release, into);
  });
}

bool assign(Settings& s, const Setting& setting) {
  bool done = false;
  visit_sections(s, [&]<typename S>(const std::string& at, std::span<const Row<S>> rows, S& into) {
    if (done || !setting.key.starts_with(at)) return;
    done = settings::assign(into, rows, std::string_view(setting.key).substr(at.size()), setting.value);
  });
  return done;
}

}  // namespace headroom::chatlearn
