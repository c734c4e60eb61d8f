#include <fmt/format.h>

#include "planner/frameworks/deepspeed_chat/models.h"
#include "planner/frameworks/deepspeed_chat/ppo.h"
#include "planner/frameworks/settings/deepspeed.h"
#include "simulator/engine/hybrid.h"

namespace headroom::deepspeed_chat::ppo {
namespace {

/// Updates a step that are still run one by one.
constexpr std::int64_t kMostUpdates = 64;

std::optional<bool> dropout_of(const Model& model) {
  if (model.disable_dropout) return false;
  if (!model.dropout.empty()) return Document::scalar(model.dropout).as_double().value_or(1) != 0;
  return model.model->decoder.dropout > 0;
}

/// The run as a case of the third step states it.
deepspeed_chat::Settings case_of(const Settings& s) {
  deepspeed_chat::Settings out;
  out.actor = s.actor.model;
  out.critic = s.critic.model;
  out.device = s.gpu;
  out.dtype = s.dtype == "bf16" ? DType::bf16 : DType::fp16;
  out.world = s.gpus;
  out.steps = s.steps;
  out.batch = s.generated();
  out.training_batch = s.trained() < s.generated() ? s.trained() : 0;
  out.generation_batches = s.old_generation_batches.value_or(s.generation_batches);
  out.epochs = s.epochs;
  out.accumulation = s.accumulation;
  out.prompt = s.prompt;
  out.response = s.response;
  out.zero_stage = s.actor.zero_stage;
  out.critic_stage = s.critic.zero_stage;
  out.grad_ckpt = s.actor.checkpointing;
  out.critic_ckpt = s.critic.checkpointing;
  out.actor_dropout = dropout_of(s.actor);
  out.critic_dropout = dropout_of(s.critic);
  out.actor_targets = adapted_modules(*s.actor.model, s.actor.lora_scope);
  out.critic_targets = adapted_modules(*s.critic.model, s.critic.lora_scope);
  out.actor_lora = out.actor_targets.empty() ? 0 : s.actor.lora_rank;
  out.critic_lora = out.critic_targets.empty() ? 0 : s.critic.lora_rank;
  out.only_lora = s.only_lora;
  out.offload = s.offload;
  out.offload_reference = s.offload_reference;
  out.offload_reward = s.offload_reward;
  out.ema = s.ema;
  out.fp32_loss = s.fp32_loss;
  out.reads_counters = false;
  out.hybrid = s.hybrid && has_hybrid_kernels(*s.actor.model);
  out.unpinned = s.unpinned;
  out.releases_cache = s.releases_cache;
  out.inference_tensor = out.hybrid ? s.inference_tensor : 1;
  out.gathered_layers = s.gathered_layers;
  return out;
}

/// What the script itself refuses, and DeepSpeed.
Status check(const Settings& s, const deepspeed_chat::Settings& run) {
  const auto refuse = [](std::string key, std::string message) {
    return fail(Error{.message = std::move(message), .file = {}, .key = std::move(key)});
  };
  if (s.offload && (s.actor.zero_stage == 0 || s.critic.zero_stage == 0))
    return refuse("offload", "expected actor_zero_stage and critic_zero_stage 1 to 3: without sharding there is no offload");
  if (s.inference_tensor > 1 && s.actor.zero_stage != 3)
    return refuse("inference_tp_size", "expected 1, or actor_zero_stage 3, whose weights the ranks share in generation");
  if (s.gpus % s.inference_tensor != 0)
    return refuse("inference_tp_size", fmt::format("expected a divisor of {} GPUs, found {}", s.gpus, s.inference_tensor));
  if (s.hybrid && s.offload && s.actor.zero_stage == 2 && s.critic.zero_stage == 2 && s.actor.lora_rank == 0)
    return refuse("offload", "expected no offload with the hybrid engine at stage 2 of both models: the script refuses it");
  if (micro_batches_of(run) > kMostUpdates)
    return refuse("generation_batches", fmt::format("expected at most {} updates a step (parts of a generated batch x "
                                                    "generation_batches x ppo_epochs), found {}",
                                                    kMostUpdates, micro_batches_of(run)));
  return {};
}

}  // namespace

Result<Job> make_job(const Settings& s) {
  const deepspeed_chat::Settings run = case_of(s);
  HEADROOM_TRY(check(s, run));
  Job job = deepspeed_chat::make_job(run);
  job.versions = s.versions;
  job.resumed = s.resumed;
  for (Role& role : job.roles) {
    const bool body = role.name == "actor" || role.name == "ref" || role.name == "ema";
    role.model_name = body ? s.actor.path : s.critic.path;
    settings::set_deepspeed_release(s.versions.deepspeed, true, role.sharding);
    role.loads_on_every_rank = (body ? s.actor : s.critic).zero_stage < 3;
  }
  if (s.resumed)
    for (const char* role : {"actor", "critic"}) {
      PhaseSpec& last = job.start.back();
      Action states;
      states.verb = Verb::create_states;
      states.role = role;
      last.actions.push_back(states);
    }
  job.assumptions.insert(job.assumptions.end(), s.assumptions.begin(), s.assumptions.end());
  job.not_modelled.insert(job.not_modelled.end(), s.not_modelled.begin(), s.not_modelled.end());
  note_skipped_steps(job);
  HEADROOM_TRY(validate_job(job));
  return job;
}

}  // namespace headroom::deepspeed_chat::ppo
