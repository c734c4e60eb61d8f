#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "models/architecture/family.h"
#include "planner/frameworks/deepspeed_chat/loop.h"
#include "planner/frameworks/deepspeed_chat/settings.h"
#include "simulator/job/actions.h"

namespace headroom::deepspeed_chat {
namespace {

/// In the order in which the script builds them.
std::vector<const char*> roles_of(const Settings& s) {
  std::vector<const char*> out = {"actor", "ref", "critic", "reward"};
  if (s.ema) out.insert(out.begin() + 2, "ema");
  return out;
}

ShardingKind sharding_of(std::int64_t stage) {
  constexpr ShardingKind kKinds[] = {ShardingKind::zero0, ShardingKind::zero1, ShardingKind::zero2,
                                     ShardingKind::zero3};
  return kKinds[stage];
}

/// Scripts switch the actor's dropout off by the names that most configurations give it. The critic's stays
/// as its family has it.
bool has_dropout(const Settings& s, const Role& role) {
  const std::optional<bool>& said = role.name == "critic" ? s.critic_dropout : s.actor_dropout;
  if (role.trained && said) return *said || family_facts(role.model->family).own_dropout_names;
  return role.name != "actor" || family_facts(role.model->family).own_dropout_names;
}

Role make_role(const Settings& s, const std::string& name) {
  Role role;
  role.name = name;
  role.loop = &kChatLoop;
  const bool body = name == "actor" || name == "ref" || name == "ema";
  const std::int64_t stage = body ? s.zero_stage : s.critic_stage;
  role.trained = name == "actor" || name == "critic";
  role.model = body ? s.actor : s.critic;
  role.model_name = role.model->family;
  role.head = body ? HeadKind::language_model : HeadKind::scalar;
  role.precision.weights = role.precision.compute = role.precision.gradients = role.precision.reduce =
      s.dtype;
  role.precision.gradient_scaler = s.dtype == DType::fp16;
  if (s.dtype == DType::fp16) role.precision.skipped_steps = skipped_steps(s.initial_scale_power);
  role.training_mode_forward = role.trained;
  role.dropout = has_dropout(s, role);
  role.attention_mask = true;
  role.attention = cases::default_attention(*role.model);
  role.padded = s.padded;
  Sharding& sharding = role.sharding;
  // Engines that only evaluate are spread like the trained ones at stage 3, else not at all.
  sharding.kind = sharding_of(role.trained || stage == 3 ? stage : 0);
  sharding.persistence_threshold = s.persistence_threshold;
  sharding.overlap_communication = true;
  if (!role.trained)
    sharding.offload_parameters = stage == 3 && (body ? s.offload_reference : s.offload_reward);
  if (role.trained) {
    sharding.overlap_communication = s.overlap_communication;
    sharding.contiguous_gradients = s.contiguous_gradients;
    sharding.reduce_bucket = s.reduce_bucket;
    sharding.allgather_bucket = s.allgather_bucket;
    sharding.prefetch_bucket = s.prefetch_bucket;
    sharding.max_live_parameters = s.max_live_parameters;
    sharding.max_reuse_distance = s.max_reuse_distance;
    sharding.offload_optimizer = s.offload;
    sharding.offload_parameters = s.offload && stage == 3;
    sharding.pin_memory = s.pin_memory;
    role.optimizer.implementation = s.offload ? OptimizerImplementation::cpu : OptimizerImplementation::apex;
    if (body ? s.grad_ckpt : s.critic_ckpt) role.recompute.kind = RecomputeKind::full;
    if (const std::int64_t rank = body ? s.actor_lora : s.critic_lora; rank > 0) {
      LoraSpec lora;
      lora.rank = rank;
      lora.targets = body ? s.actor_targets : s.critic_targets;
      lora.dtype = s.dtype;
      lora.rest_trains = !s.only_lora;
      role.lora = lora;
    }
    if (s.training_batch > 0) role.train.sequences = std::min(s.training_batch, s.batch);
    role.forward.sequences = s.training_batch > 0 ? s.batch : 0;
    if (s.accumulation > 1)
      role.mini_batch = (s.training_batch > 0 ? std::min(s.training_batch, s.batch) : s.batch) * s.accumulation * s.world;
  }
  return role;
}

/// Engines of stages 1 to 3, and the bf16 optimizer of stage 0, report memory when they are done, which
/// resets the peak counters.
bool reports_memory(const Role& role) {
  return role.sharding.kind != ShardingKind::zero0 || (role.trained && role.precision.weights == DType::bf16);
}

/// Each engine in turn.
std::vector<PhaseSpec> start_of(const Settings& s, const Job& job) {
  std::vector<PhaseSpec> out;
  for (const Role& role : job.roles) {
    if (s.reads_counters && !out.empty()) out.push_back(between_phases({role_action(Verb::empty_cache, "actor")}));
    PhaseSpec init = make_phase(PhaseKind::init, {role_action(Verb::build, role.name)}, "init_" + role.name);
    if (s.reads_counters && reports_memory(role)) init.actions.push_back(role_action(Verb::reset_peaks, role.name));
    out.push_back(std::move(init));
  }
  return out;
}

/// The hybrid engine empties the cache as it takes gathered weights, and as it gives its workspace back.
PhaseSpec generation_of(const Settings& s) {
  Action generate = role_action(Verb::generate, "actor");
  generate.engine = "rollout";
  PhaseSpec out = make_phase(PhaseKind::generate, {generate}, "generate");
  const Action empty = role_action(Verb::empty_cache, "actor");
  if (s.hybrid && s.zero_stage == 3) out.actions.insert(out.actions.begin(), empty);
  if (s.hybrid && s.releases_cache) out.actions.push_back(empty);
  return out;
}

void add_experience(const Settings& s, std::vector<PhaseSpec>& out) {
  const PhaseSpec phases[] = {
      between_phases({call_action("actor", "take_batch")}),
      generation_of(s),
      between_phases({call_action("actor", "make_mask")}),
      make_phase(PhaseKind::actor_logprob, {call_action("actor", "keep_logits")}, "actor_logprob"),
      make_phase(PhaseKind::ref_logprob, {call_action("ref", "keep_logits")}, "ref_logprob"),
      make_phase(PhaseKind::reward, {role_action(Verb::forward, "reward", Output::rewards)}, "reward"),
      make_phase(PhaseKind::critic_values, {role_action(Verb::forward, "critic", Output::values)},
                 "critic_values"),
      make_phase(PhaseKind::actor_logprob, {call_action("actor", "gather_logprobs")}, "gather_logprobs"),
      between_phases({call_action("actor", "drop_outputs")}),
      make_phase(PhaseKind::actor_logprob, {}, "experience_end"),
  };
  for (const PhaseSpec& phase : phases) {
    out.push_back(phase);
    if (s.fp32_loss && phase.name == "gather_logprobs")
      out.back().actions.insert(out.back().actions.begin(), call_action("actor", "widen_logits"));
  }
}

void add_update(const Settings& s, std::vector<PhaseSpec>& out) {
  out.push_back(make_phase(PhaseKind::train_actor, {role_action(Verb::train, "actor")}, "train_actor"));
  out.push_back(make_phase(PhaseKind::train_critic, {role_action(Verb::train, "critic")}, "train_critic"));
  out.push_back(between_phases({call_action("actor", "end_update")}));
  if (s.ema) out.push_back(make_phase(PhaseKind::train_actor, {call_action("ema", "average")}, "moving_average"));
}

/// Experiences of all generation batches, then an update of each part of them, as often as there are epochs.
std::vector<PhaseSpec> step_of(const Settings& s) {
  std::vector<PhaseSpec> out;
  for (std::int64_t i = 0; i < s.generation_batches; ++i) add_experience(s, out);
  for (std::int64_t i = 0; i < micro_batches_of(s); ++i) add_update(s, out);
  for (PhaseSpec& p : out) {
    const bool training = p.kind == PhaseKind::train_actor || p.kind == PhaseKind::train_critic;
    p.empties_cache = p.reported && p.name != "gather_logprobs" &&
                      (s.empty_cache == "all" || (s.empty_cache == "inference" && !training));
  }
  return out;
}

}  // namespace

namespace {

Engine engine_of(const Settings& s) {
  Engine engine = cases::generation_by(s.actor);
  if (!s.hybrid) return engine;
  engine.kind = EngineKind::hybrid;
  engine.weights = engine.kv = s.dtype;
  engine.tensor = s.inference_tensor;
  engine.max_sequences = s.batch * s.inference_tensor;
  engine.max_length = s.prompt + s.response;
  engine.sleep_level = s.releases_cache ? 1 : 0;
  engine.sync.kind = s.unpinned ? WeightExport::layers : WeightExport::full_parameters;
  std::int64_t layer = 0;
  for (const Tensor& tensor : s.actor->tensors)
    if (tensor.layer == 0 && !tensor.buffer) layer += tensor.count();
  engine.sync.bucket = layer * element_size(s.dtype) * s.gathered_layers;
  return engine;
}

}  // namespace

std::int64_t micro_batches_of(const Settings& s) {
  const std::int64_t parts = s.training_batch > 0 ? ceil_div(s.batch, s.training_batch) : 1;
  return parts * s.generation_batches * s.epochs;
}

Job make_job(const Settings& s) {
  Job job = cases::frame(s.name, "deepspeed-chat", s, s.world);
  job.algorithm = Algorithm::ppo;
  job.versions.deepspeed = "0.16.4";
  for (const char* role : roles_of(s)) job.roles.push_back(make_role(s, role));
  Process trainer = cases::trainer_of(job, s);
  // DeepSpeed clones the world's group; stage 3 works in both.
  trainer.communicators = s.zero_stage == 3 || s.critic_stage == 3 ? 2 : 1;
  job.processes.push_back(trainer);
  job.engines.push_back(engine_of(s));
  job.batch.prompts = s.batch * s.world;
  job.batch.mini_batch = s.batch * s.world;
  job.batch.prompt_length = s.prompt;
  job.batch.response_length = s.response;
  const std::int64_t skipped = job.roles.front().precision.skipped_steps;
  // Where gradients of several steps' batches add up, an optimizer step comes once in so many steps.
  const std::int64_t rounds = ceil_div(std::min(s.accumulation, kShownAccumulation), micro_batches_of(s));
  job.steps = s.steps_given ? s.steps : static_cast<int>((s.steps + skipped) * rounds);
  job.start = start_of(s, job);
  job.step = step_of(s);
  return job;
}

void note_skipped_steps(Job& job) {
  const std::int64_t skipped = job.roles.front().precision.skipped_steps;
  if (skipped == 0) return;
  job.assumptions.push_back(
      fmt::format("the first {} steps overflow fp16 and are skipped, while the loss scale falls", skipped));
  if (job.steps <= skipped)
    job.not_modelled.push_back(fmt::format(
        "the optimizer's states: each of the {} steps is taken to overflow; --steps {} reaches one that runs",
        job.steps, skipped + 1));
}

}  // namespace headroom::deepspeed_chat
