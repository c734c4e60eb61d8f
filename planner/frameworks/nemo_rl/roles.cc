#include <algorithm>

#include "planner/frameworks/nemo_rl/adapters.h"
#include "planner/frameworks/nemo_rl/job.h"

namespace headroom::nemo_rl {
namespace {

/// A micro-batch of `budget` (or of `sequences`). Packed rows hold whole sequences, so the budget of the
/// longest ones is what they fill of it; FSDP2's workers then pad the row to `filled`.
MicroBatch micro_batch(const Policy& p, std::int64_t budget, std::int64_t sequences, std::int64_t filled) {
  MicroBatch out;
  if (!p.packing.enabled && !p.dynamic.enabled) {
    out.sequences = sequences;
    out.round_to = p.divisible_by;
    return out;
  }
  // A row lies on all context ranks together; the job's budget is a GPU's part of it.
  const std::int64_t context = p.runs_megatron() ? p.megatron.context : p.dtensor.context;
  out.tokens = ceil_div(std::max<std::int64_t>(1, budget / p.length) * p.length, context);
  out.round_to = p.packing.enabled ? filled : std::max<std::int64_t>(1, p.dynamic.round);
  return out;
}

void set_batches(const Settings& s, Role& role, const Policy& p, bool megatron) {
  const Budget& b = p.packing.enabled ? p.packing : p.dynamic;
  const std::int64_t rows = s.rows_a_sample();
  // Megatron's rows end with their last sequence. FSDP2's are padded to the training budget, since 0.6 in
  // passes without gradients too.
  const std::int64_t train = megatron ? 1 : std::max(b.train_tokens, b.train_tokens / p.length * p.length);
  role.train = micro_batch(p, b.train_tokens, p.micro_batch * rows, std::max<std::int64_t>(1, train));
  role.forward = micro_batch(p, b.logprob_tokens > 0 ? b.logprob_tokens : b.train_tokens,
                             p.logprob_batch * rows, s.since(0, 6) && !megatron ? train : 1);
  role.packed = p.packing.enabled || p.dynamic.enabled;
}

/// TransformerEngine's FusedAdam: moments in fp32 unless told otherwise; one step counter for all.
void set_fused_adam(Role& role, const Policy& p) {
  const auto moment = [](std::string_view word) {
    if (word.starts_with("torch.")) word.remove_prefix(6);
    return parse_dtype(word).value_or(DType::fp32);
  };
  const DType first = moment(p.moments), second = moment(p.square_moments);
  role.optimizer.implementation = OptimizerImplementation::apex;
  role.optimizer.states = element_size(first) > element_size(second) ? first : second;
  if (!p.keeps_master || role.precision.weights == DType::fp32) return;
  role.optimizer.master_bytes = p.keeps_remainders && role.precision.weights == DType::bf16 ? 2 : 4;
}

/// Automodel's own mixtures: weights are kept in the dtype that their initialisation has by default, bf16, whatever
/// they are loaded in; autocast is off, tables are units of their own, and units stay gathered until their backward.
void set_dealt_experts(Role& role, const Dtensor& d) {
  role.precision.weights = role.precision.gradients = DType::bf16;
  role.precision.autocast = false;
  role.parallel.expert = d.expert;
  role.sharding.reshard_after_forward = false;
  role.sharding.head_wrapped = true;
}

/// The first worker, and Automodel's before 0.6, wrap a layer's modules one by one; the others whole layers.
void set_recompute(const Settings& s, Role& role, const Dtensor& d) {
  if (d.deals_experts() || (d.second && s.since(0, 6))) {
    role.recompute.kind = RecomputeKind::full;
    return;
  }
  role.recompute.kind = RecomputeKind::selective;
  role.recompute.modules = {"layernorm", "self_attn", "mlp"};
}

void set_dtensor(const Settings& s, Role& role, const Policy& p, bool trained) {
  const Dtensor& d = p.dtensor;
  const bool fsdp1 = !d.enabled;
  role.precision.weights = DType::fp32;
  role.precision.gradients = DType::fp32;
  role.precision.compute = p.compute_type();
  role.precision.autocast = true;
  role.precision.reduce = DType::fp32;
  role.sharding.kind = fsdp1 ? ShardingKind::fsdp1 : ShardingKind::fsdp2;
  role.sharding.cpu_offload = fsdp1 ? p.fsdp1_offload : d.cpu_offload;
  role.built_on_host = true;
  role.sharding.meta = fsdp1 ? MetaRanks::others : MetaRanks::all;
  role.offload_pinned = role.offload_optimizer_pinned = false;  // `.to("cpu")`, tensor by tensor
  if (fsdp1) {
    if (trained && p.fsdp1_checkpointing) role.recompute.kind = RecomputeKind::full;
  } else {
    role.parallel.tensor = d.tensor;
    role.parallel.context = d.context;
    role.parallel.sequence = d.sequence_parallel && d.tensor > 1;
    if (d.replicate > 1) role.sharding.group = s.train_gpus() / d.tensor / d.context / d.replicate;
    if (trained && d.activation_checkpointing) set_recompute(s, role, d);
    role.fused_kernels = d.liger;
    if (d.deals_experts()) set_dealt_experts(role, d);
    // Layers are units and the rest is the root's, which is gathered once a pass. The first worker gathers
    // every unit before log-probabilities. Modules made empty lose their ties, which come back with weights.
    role.sharding.embedding_wrapped = false;
    role.sharding.root_stays_gathered = true;
    role.sharding.gathers_whole_forward = !d.second;
    role.sharding.ties_after_sharding = p.architecture->decoder.tied_embeddings &&
                                        role.head == HeadKind::language_model &&
                                        (!d.second || !s.since(0, 6));
  }
  role.attention =
      role.packed ? AttentionImplementation::flash_varlen : AttentionImplementation::sdpa;
  // GPT-OSS's learned logits have no fused form.
  for (const LayerGroup& group : p.architecture->decoder.groups)
    if (group.layer.attention.sinks) role.attention = AttentionImplementation::eager;
  role.loss.logits_fp32 = true;
  role.loss.token_logprob = TokenLogprob::log_softmax;
  // Chunks of a vocabulary that is split between ranks, and those of later releases, are reduced one by one.
  role.loss.collects_chunks = d.tensor == 1 && !s.since(0, 8);
  if (!trained) return;
  role.optimizer.implementation =
      Document::scalar(p.fused).as_bool().value_or(false)     ? OptimizerImplementation::fused
      : Document::scalar(p.foreach_).as_bool().value_or(true) ? OptimizerImplementation::foreach_
                                                              : OptimizerImplementation::loop;
  if (p.optimizer.find("FusedAdam") != std::string::npos) set_fused_adam(role, p);
  if (role.sharding.cpu_offload) role.optimizer.implementation = OptimizerImplementation::cpu;
  if (!d.enabled || !d.lora.enabled) return;
  LoraSpec lora;
  lora.rank = d.lora.dim;
  lora.targets = adapter_targets(d.lora, *p.architecture);
  lora.dtype = DType::fp32;
  role.lora = lora;
}

void set_recompute(const Settings& s, Role& role, const Megatron& m) {
  if (!m.activation_checkpointing) return;
  if (s.since(0, 6) && m.granularity == "selective") {
    role.recompute.kind = RecomputeKind::selective;
    role.recompute.modules =
        m.recompute_modules.empty() ? std::vector<std::string>{"core_attn"} : m.recompute_modules;
    return;
  }
  role.recompute.kind = RecomputeKind::full;  // uniform, one layer at a time
}

void set_megatron(const Settings& s, Role& role, const Policy& p, bool trained) {
  const Megatron& m = p.megatron;
  role.parallel.tensor = m.tensor;
  role.parallel.pipeline = m.pipeline;
  role.parallel.virtual_pipeline = m.virtual_pipeline;
  role.parallel.context = m.context;
  role.parallel.expert = m.expert;
  role.parallel.expert_tensor = m.expert_tensor;
  role.parallel.sequence = m.sequence_parallel && m.tensor > 1;
  role.parallel.first_stage_layers = m.first_stage_layers.value_or(0);
  role.parallel.last_stage_layers = m.last_stage_layers.value_or(0);
  role.parallel.account_for_embedding = m.account_for_embedding;
  role.parallel.account_for_loss = m.account_for_loss;
  role.megatron.fused_rotary = m.rope_fusion;
  role.megatron.fused_activation = m.activation_fusion;
  role.megatron.gradient_accumulation_fusion = m.accumulation_fusion;
  role.megatron.deallocates_outputs = true;
  role.megatron.overlaps_gradients = m.overlap_grad_reduce;
  role.megatron.fp8 = m.fp8;
  role.megatron.fp8_parameters = m.fp8 && m.fp8_parameters;
  role.megatron.mtp_layers = m.mtp_layers;
  role.megatron.fused_permutation = m.permute_fusion;
  role.megatron.dispatcher = m.deepep || m.dispatcher == "flex" ? MegatronDispatcher::flex
                             : m.dispatcher == "allgather"      ? MegatronDispatcher::all_gather
                                                                : MegatronDispatcher::all_to_all;
  role.megatron.precision_aware = m.precision_aware;
  role.megatron.vocabulary_multiple = 128;  // the bridge's make_vocab_size_divisible_by
  role.megatron.vocabulary_multiple_a_rank = true;
  if (m.peft.enabled && trained) {
    LoraSpec lora;
    lora.rank = m.peft.dim;
    lora.targets = m.peft.targets;
    lora.dtype = DType::bf16;
    role.lora = lora;
  }
  role.sharding.kind = ShardingKind::megatron;
  role.sharding.distributed_optimizer = m.distributed;
  role.precision.weights = role.precision.compute = p.compute_type();
  role.attention = AttentionImplementation::transformer_engine;
  role.packed = true;
  role.offload_pinned = true;
  role.loss.logits_fp32 = !m.defer_fp32_logits;
  if (m.fused_linear_logprobs) {
    role.loss.logits_fp32 = false;
    role.loss.token_logprob = TokenLogprob::fused_linear;
    role.loss.chunk = m.fused_chunk;
  }
  if (!trained) return;
  const DType gradients = m.grad_reduce_in_fp32 ? DType::fp32 : role.precision.weights;
  role.precision.gradients = m.precision_aware ? gradients : DType::fp32;
  role.precision.reduce = gradients;
  role.precision.master = DType::fp32;
  role.optimizer.kind = m.optimizer == "sgd" ? OptimizerKind::sgd : OptimizerKind::adamw;
  if (m.precision_aware) role.optimizer.states = m.exp_avg;
  if (m.optimizer_cpu_offload) role.optimizer.cpu_fraction = m.optimizer_offload_fraction;
  set_recompute(s, role, m);
}

Role make_role(const Settings& s, const Policy& p, const std::string& name, bool trained, HeadKind head) {
  Role role;
  role.name = name;
  role.model_name = p.model;
  role.model = p.architecture;
  role.head = head;
  role.trained = trained;
  const bool megatron = p.runs_megatron();
  set_batches(s, role, p, megatron);
  if (megatron)
    set_megatron(s, role, p, trained);
  else
    set_dtensor(s, role, p, trained);
  role.optimizer.clip = p.max_grad_norm > 0;
  if (p.logprob_chunk && role.loss.token_logprob != TokenLogprob::fused_linear)
    role.loss.chunk = *p.logprob_chunk;
  const std::int64_t all = s.generates() ? s.prompts * s.samples : p.global_batch * s.rows_a_sample();
  role.mini_batch = std::min(p.global_batch * s.rows_a_sample(), all);
  if (s.algorithm == Algorithm::ppo) role.epochs = s.ppo_epochs;
  return role;
}

}  // namespace

std::vector<Role> make_roles(const Settings& s) {
  std::vector<Role> roles;
  const HeadKind head =
      s.algorithm == Algorithm::rm ? HeadKind::sequence_classification : HeadKind::language_model;
  Role actor = make_role(s, s.policy, "actor", true, head);
  actor.loss.kl = s.algorithm != Algorithm::dpo && s.kl_penalty > 0 && !s.kl_in_reward;
  roles.push_back(std::move(actor));
  if (s.has_reference()) {
    // A copy of the policy's weights on the host that takes their place on the device.
    Role ref = make_role(s, s.policy, "ref", false, HeadKind::language_model);
    ref.offload_pinned = true;
    if (s.policy.runs_megatron()) ref.takes_place_of = "actor";
    if (s.algorithm == Algorithm::dpo) ref.forward = ref.train;
    roles.push_back(std::move(ref));
  }
  if (s.algorithm == Algorithm::ppo)
    roles.push_back(make_role(s, s.value, "critic", true, HeadKind::token_classification));
  if (s.algorithm == Algorithm::distillation)
    roles.push_back(make_role(s, s.teacher, "teacher", false, HeadKind::language_model));
  return roles;
}

}  // namespace headroom::nemo_rl
