#include "planner/frameworks/settings/knobs.h"

#include <fmt/format.h>

#include "planner/frameworks/nemo_rl/job.h"
#include "planner/frameworks/nemo_rl/read.h"

namespace headroom::nemo_rl {
namespace {

using settings::shown;
using Keys = std::vector<Setting>;
using Texts = std::vector<std::string>;
using Row = settings::KnobRow<Settings>;

bool megatron(const Settings& s) {
  return s.policy.runs_megatron();
}
bool dtensor(const Settings& s) {
  return !megatron(s) && s.policy.dtensor.enabled;
}
bool budgets(const Settings& s) {
  return s.policy.packing.enabled || s.policy.dynamic.enabled;
}
std::string budget_section(const Settings& s) {
  return s.policy.packing.enabled ? "policy.sequence_packing." : "policy.dynamic_batching.";
}
const Budget& budget(const Settings& s) {
  return s.policy.packing.enabled ? s.policy.packing : s.policy.dynamic;
}
std::int64_t model_ranks(const Settings& s) {
  const Megatron& m = s.policy.megatron;
  return megatron(s) ? m.tensor * m.pipeline * m.context : s.policy.dtensor.tensor * s.policy.dtensor.context;
}
/// Sequences of a rank in one optimizer step.
std::int64_t share(const Settings& s) {
  return std::max<std::int64_t>(1, s.policy.global_batch * model_ranks(s) / s.train_gpus());
}

Texts budget_values(const Settings& s, std::int64_t current) {
  std::vector<std::int64_t> out{current};
  for (std::int64_t n : settings::doublings(1, std::min<std::int64_t>(share(s), 64)))
    out.push_back(n * s.policy.length);
  return settings::texts(std::move(out));
}

bool heads_allow(const Settings& s, std::int64_t size) {
  if (s.policy.architecture == nullptr) return true;
  for (const LayerGroup& group : s.policy.architecture->decoder.groups) {
    const Attention& a = group.layer.attention;
    if (a.heads % size != 0 || (a.kv_heads % size != 0 && size % a.kv_heads != 0)) return false;
  }
  return true;
}

Texts tensor_values(const Settings& s, std::int64_t gpus, std::int64_t current) {
  std::vector<std::int64_t> out{current};
  for (std::int64_t d : settings::divisors(gpus))
    if (heads_allow(s, d)) out.push_back(d);
  return settings::texts(std::move(out));
}

Texts pipeline_values(const Settings& s) {
  std::vector<std::int64_t> out{s.policy.megatron.pipeline};
  if (s.policy.architecture != nullptr && !s.policy.megatron.first_stage_layers)
    for (std::int64_t d : settings::divisors(s.train_gpus()))
      if (s.policy.architecture->decoder.layers % d == 0) out.push_back(d);
  return settings::texts(std::move(out));
}

// clang-format off
const Row kRows[] = {
    {"activation_checkpointing", "layers are recomputed in the backward", false, [](const Settings&) { return true; },
     [](const Settings& s) { return shown(megatron(s) ? s.policy.megatron.activation_checkpointing : s.policy.dtensor.activation_checkpointing); },
     [](const Settings&) { return settings::flags(); },
     [](const Settings& s, const std::string& v) { return Keys{{megatron(s) ? "policy.megatron_cfg.activation_checkpointing" : "policy.dtensor_cfg.activation_checkpointing", v}}; }, settings::recomputation()},
    {"cpu_offload", "weights, gradients and optimizer live on the host", false, dtensor,
     [](const Settings& s) { return shown(s.policy.dtensor.cpu_offload); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"policy.dtensor_cfg.cpu_offload", v}}; }, settings::layout()},
    {"optimizer_cpu_offload", "the optimizer lives on the host", false, [](const Settings& s) { return megatron(s) && s.since(0, 4); },
     [](const Settings& s) { return shown(s.policy.megatron.optimizer_cpu_offload); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) {
       return Keys{{"policy.megatron_cfg.optimizer.optimizer_cpu_offload", v},
                   {"policy.megatron_cfg.optimizer.optimizer_offload_fraction", v == "true" ? "1.0" : "0.0"}};
     }, settings::layout()},
    {"tensor_parallel", "GPUs that split each matrix of the policy", false, [](const Settings&) { return true; },
     [](const Settings& s) { return shown(megatron(s) ? s.policy.megatron.tensor : s.policy.dtensor.tensor); },
     [](const Settings& s) { return tensor_values(s, s.train_gpus_per_node(), megatron(s) ? s.policy.megatron.tensor : s.policy.dtensor.tensor); },
     [](const Settings& s, const std::string& v) {
       return Keys{{megatron(s) ? "policy.megatron_cfg.tensor_model_parallel_size" : "policy.dtensor_cfg.tensor_parallel_size", v},
                   {"policy.make_sequence_length_divisible_by", v}};
     }, settings::layout()},
    {"sequence_parallel", "norms are split over the tensor-parallel GPUs too", false,
     [](const Settings& s) { return megatron(s) && s.policy.megatron.tensor > 1; },
     [](const Settings& s) { return shown(s.policy.megatron.sequence_parallel); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"policy.megatron_cfg.sequence_parallel", v}}; }, settings::passes()},
    {"pipeline_parallel", "stages of the policy's layers", false, megatron,
     [](const Settings& s) { return shown(s.policy.megatron.pipeline); }, pipeline_values,
     [](const Settings&, const std::string& v) { return Keys{{"policy.megatron_cfg.pipeline_model_parallel_size", v}}; }, settings::layout()},
    {"micro_batch", "sequences a GPU trains on at once", false, [](const Settings& s) { return !budgets(s); },
     [](const Settings& s) { return shown(s.policy.micro_batch); },
     [](const Settings& s) { std::vector<std::int64_t> out = settings::divisors(share(s)); out.push_back(s.policy.micro_batch); return settings::texts(std::move(out)); },
     [](const Settings&, const std::string& v) { return Keys{{"policy.train_micro_batch_size", v}}; }, settings::training_size()},
    {"log_prob_micro_batch", "sequences a GPU takes log-probs of at once", false, [](const Settings& s) { return !budgets(s) && s.generates(); },
     [](const Settings& s) { return shown(s.policy.logprob_batch); },
     [](const Settings& s) { std::vector<std::int64_t> out = settings::doublings(1, 64); out.push_back(s.policy.logprob_batch); return settings::texts(std::move(out)); },
     [](const Settings&, const std::string& v) { return Keys{{"policy.logprob_batch_size", v}}; }, settings::scoring_size()},
    {"token_budget", "tokens a GPU trains on at once", false, budgets,
     [](const Settings& s) { return shown(budget(s).train_tokens); }, [](const Settings& s) { return budget_values(s, budget(s).train_tokens); },
     [](const Settings& s, const std::string& v) { return Keys{{budget_section(s) + "train_mb_tokens", v}}; }, settings::training_size()},
    {"log_prob_token_budget", "tokens a GPU takes log-probs of at once", false, [](const Settings& s) { return budgets(s) && s.generates(); },
     [](const Settings& s) { return shown(budget(s).logprob_tokens); }, [](const Settings& s) { return budget_values(s, budget(s).logprob_tokens); },
     [](const Settings& s, const std::string& v) { return Keys{{budget_section(s) + "logprob_mb_tokens", v}}; }, settings::scoring_size()},
    {"defer_fp32_logits", "logits stay in 16 bits until their log-probs are formed, in chunks", false, [](const Settings& s) { return megatron(s) && s.generates(); },
     [](const Settings& s) { return shown(s.policy.megatron.defer_fp32_logits); }, [](const Settings&) { return settings::flags(); },
     [](const Settings& s, const std::string& v) {
       const std::int64_t chunk = s.policy.logprob_chunk.value_or(2048);
       return Keys{{"policy.megatron_cfg.defer_fp32_logits", v}, {"policy.logprob_chunk_size", v == "true" ? shown(chunk) : "null"}};
     }, settings::passes()},
    {"gpu_memory_utilization", "share of the GPU that the engine may take", false, [](const Settings& s) { return s.generates() && s.policy.generation.backend == "vllm"; },
     [](const Settings& s) { return shown(s.policy.generation.utilization); }, [](const Settings& s) { return settings::fractions(s.policy.generation.utilization); },
     [](const Settings&, const std::string& v) { return Keys{{"policy.generation.vllm_cfg.gpu_memory_utilization", v}}; }, settings::engine_share()},
    {"rollout_tensor_parallel", "GPUs that share one engine", false, [](const Settings& s) { return s.generates() && s.policy.generation.backend == "vllm"; },
     [](const Settings& s) { return shown(s.policy.generation.tensor); },
     [](const Settings& s) { return tensor_values(s, s.separate() ? s.generation_gpus_per_node() : s.gpus_per_node, s.policy.generation.tensor); },
     [](const Settings&, const std::string& v) { return Keys{{"policy.generation.vllm_cfg.tensor_parallel_size", v}}; }, settings::engine_ranks()},
    {"enforce_eager", "no CUDA graphs", false, [](const Settings& s) { return s.generates() && s.policy.generation.backend == "vllm" && s.since(0, 3); },
     [](const Settings& s) { return shown(s.policy.generation.enforce_eager); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"policy.generation.vllm_cfg.enforce_eager", v}}; }, settings::engine_eager()},
    {"refit_buffer", "GiB of the buffers that weights are sent through", false, [](const Settings& s) { return s.generates() && !s.separate() && s.since(0, 7); },
     [](const Settings& s) { return s.policy.refit_buffer_gb > 0 ? shown(s.policy.refit_buffer_gb) : std::string("null"); },
     [](const Settings&) { return Texts{"null", "2", "4", "8"}; },
     [](const Settings&, const std::string& v) { return Keys{{"policy.refit_buffer_size_gb", v}}; }},
    {"precision_aware_optimizer", "the optimizer keeps 16 more bits of each weight instead of an fp32 copy", true, megatron,
     [](const Settings& s) { return shown(s.policy.megatron.precision_aware); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"policy.megatron_cfg.optimizer.use_precision_aware_optimizer", v}}; }},
};
// clang-format on

/// A knob's `null` buffer is what the release makes of the free memory.
bool assign_setting(Settings& s, const Setting& setting) {
  if (setting.key == "policy.refit_buffer_size_gb" && setting.value == "null") {
    s.policy.refit_buffer_gb = 0;
    return true;
  }
  if (setting.key == "policy.logprob_chunk_size" && setting.value == "null") {
    s.policy.logprob_chunk.reset();
    return true;
  }
  return assign(s, setting);
}

const settings::KnobTable<Settings> kTable{"NeMo RL", kRows, assign_setting, make_job};

}  // namespace

std::vector<Knob> knobs(const ReadJob& read) {
  return kTable.knobs(read);
}
Result<Job> with(const ReadJob& read, std::span<const Choice> choices) {
  return kTable.with(read, choices);
}
Result<std::vector<Setting>> settings_for(const ReadJob& read, std::span<const Choice> choices) {
  return kTable.settings_of(read, choices);
}

}  // namespace headroom::nemo_rl
