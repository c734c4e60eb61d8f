#include "planner/frameworks/deepspeed_chat/ppo.h"
#include "planner/frameworks/settings/knobs.h"
#include "simulator/engine/hybrid.h"

namespace headroom::deepspeed_chat::ppo {
namespace {

using settings::shown;
using Keys = std::vector<Setting>;
using Texts = std::vector<std::string>;
using Row = settings::KnobRow<Settings>;

bool always(const Settings&) {
  return true;
}
bool fused(const Settings& s) {
  return s.hybrid && has_hybrid_kernels(*s.actor.model);
}

/// Without sharding nothing can be offloaded.
Texts stages(const Settings& s) {
  Texts out{"1", "2", "3"};
  if (!s.offload) out.insert(out.begin(), "0");
  return out;
}

Texts sizes(std::int64_t current) {
  std::vector<std::int64_t> out = settings::doublings(1, 32);
  out.push_back(current);
  return settings::texts(std::move(out));
}

std::int64_t number(const std::string& text) {
  return std::max<std::int64_t>(1, Document::scalar(text).as_int().value_or(1));
}

// clang-format off
const Row kRows[] = {
    {"actor_zero_stage", "what DeepSpeed spreads of the actor over the GPUs: 1 optimizer states, 2 gradients, 3 weights, the reference's too", false, always,
     [](const Settings& s) { return shown(s.actor.zero_stage); },
     [](const Settings& s) { return s.inference_tensor > 1 ? Texts{"3"} : stages(s); },
     [](const Settings&, const std::string& v) { return Keys{{"actor_zero_stage", v}}; }},
    {"critic_zero_stage", "... of the critic; at 3 the reward model's weights too", false, always,
     [](const Settings& s) { return shown(s.critic.zero_stage); }, stages,
     [](const Settings&, const std::string& v) { return Keys{{"critic_zero_stage", v}}; }},
    {"offload", "both optimizers live on the host, at stage 3 the weights too", false, [](const Settings& s) { return s.actor.zero_stage > 0 && s.critic.zero_stage > 0; },
     [](const Settings& s) { return shown(s.offload); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"offload", v}}; }},
    {"actor_gradient_checkpointing", "the actor's layers are recomputed in the backward", false, always,
     [](const Settings& s) { return shown(s.actor.checkpointing); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"actor_gradient_checkpointing", v}}; }},
    {"critic_gradient_checkpointing", "the critic's layers are recomputed in the backward", false, always,
     [](const Settings& s) { return shown(s.critic.checkpointing); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"critic_gradient_checkpointing", v}}; }},
    {"training_batch", "sequences a GPU trains on at once; those of an optimizer step stay", false, always,
     [](const Settings& s) { return shown(std::min(s.trained(), s.generated())); },
     [](const Settings& s) { return settings::texts(settings::divisors(s.generated())); },
     [](const Settings& s, const std::string& v) {
       const std::int64_t step = std::min(s.trained(), s.generated()) * s.accumulation;
       return Keys{{s.old_training_batch ? "per_device_mini_train_batch_size" : "per_device_training_batch_size", v},
                   {"gradient_accumulation_steps", shown(std::max<std::int64_t>(1, step / number(v)))}};
     }},
    {"generation_batch", "prompts a GPU generates and scores at once; those of a step stay", false, [](const Settings& s) { return s.generated() > 1; },
     [](const Settings& s) { return shown(s.generated()); },
     [](const Settings& s) { return settings::texts(settings::divisors(s.generated() * s.old_generation_batches.value_or(s.generation_batches))); },
     [](const Settings& s, const std::string& v) {
       const std::int64_t all = s.generated() * s.old_generation_batches.value_or(s.generation_batches);
       return Keys{{s.old_generation_batch ? "per_device_train_batch_size" : "per_device_generation_batch_size", v},
                   {s.old_generation_batches ? "generation_batch_numbers" : "generation_batches", shown(all / number(v))}};
     }},
    {"hybrid_engine", "inference kernels generate, in a workspace of their own", false, [](const Settings& s) { return has_hybrid_kernels(*s.actor.model) && s.inference_tensor == 1; },
     [](const Settings& s) { return shown(s.hybrid); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"enable_hybrid_engine", v}}; }},
    {"release_inference_cache", "that workspace is given back after each generation", false, fused,
     [](const Settings& s) { return shown(s.releases_cache); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"release_inference_cache", v}}; }},
    {"unpin_actor_parameters", "stage 3 gathers the actor layer by layer to generate", false, [](const Settings& s) { return fused(s) && s.actor.zero_stage == 3 && s.inference_tensor == 1; },
     [](const Settings& s) { return shown(s.unpinned); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"unpin_actor_parameters", v}}; }},
    {"inference_tensor_parallel", "GPUs that share the actor's layers in generation", false, [](const Settings& s) { return fused(s) && s.actor.zero_stage == 3; },
     [](const Settings& s) { return shown(s.inference_tensor); },
     [](const Settings& s) {
       std::vector<std::int64_t> out;
       const std::int64_t heads = s.actor.model->decoder.layer(0).attention.heads;
       for (const std::int64_t d : settings::divisors(std::min<std::int64_t>(s.gpus, 8)))
         if (s.gpus % d == 0 && heads % d == 0) out.push_back(d);
       return settings::texts(std::move(out));
     },
     [](const Settings&, const std::string& v) { return Keys{{"inference_tp_size", v}}; }},
    {"gather_partition", "layers gathered at once to be cut for generation", false, [](const Settings& s) { return fused(s) && s.inference_tensor > 1; },
     [](const Settings& s) { return shown(s.gathered_layers); }, [](const Settings& s) { return sizes(s.gathered_layers); },
     [](const Settings&, const std::string& v) { return Keys{{"tp_gather_partition_size", v}}; }},
    {"offload_reference", "the reference's weights are on the host", false, [](const Settings& s) { return s.actor.zero_stage == 3; },
     [](const Settings& s) { return shown(s.offload_reference); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"offload_reference_model", v}}; }},
    {"offload_reward", "the reward model's weights are on the host", false, [](const Settings& s) { return s.critic.zero_stage == 3; },
     [](const Settings& s) { return shown(s.offload_reward); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"offload_reward_model", v}}; }},
    {"ema", "a running mean of the actor is kept as a model of its own", true, [](const Settings& s) { return s.ema; },
     [](const Settings& s) { return shown(s.ema); }, [](const Settings&) { return settings::flags(); },
     [](const Settings&, const std::string& v) { return Keys{{"enable_ema", v}}; }},
    {"actor_lora", "rank of the actor's adapters; 0: every weight trains", true, [](const Settings& s) { return s.actor.lora_rank > 0; },
     [](const Settings& s) { return shown(s.actor.lora_rank); }, [](const Settings& s) { return settings::texts({0, 8, 16, 32, 64, 128, s.actor.lora_rank}); },
     [](const Settings&, const std::string& v) { return Keys{{"actor_lora_dim", v}}; }},
};
// clang-format on

const settings::KnobTable<Settings> kTable{"DeepSpeed-Chat", kRows, assign, make_job};

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

}  // namespace headroom::deepspeed_chat::ppo
