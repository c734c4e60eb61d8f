#include <algorithm>

#include "planner/frameworks/verl/job.h"

namespace headroom::verl {
namespace {

/// How far a packed micro-batch may exceed its budget: verl balances micro-batches by compute (24576·len +
/// len²), not by tokens; for sequences much shorter than the budget that is a few per cent.
constexpr double kOvershoot = 0.05;

/// Rows that verl's chunked linear cross entropy handles at once.
constexpr std::int64_t kFusedChunk = 512;

Precision fsdp_precision(const Settings& s, const Worker& w, bool reference) {
  Precision out;
  // The shard is stored in model_dtype; gradients and Adam follow it. Units are gathered in param_dtype.
  const bool half_reference = reference && !s.after(0, 6, 0);
  out.weights = w.fsdp.model_dtype.value_or(half_reference ? DType::bf16 : DType::fp32);
  out.gradients = out.weights;
  out.compute = w.fsdp.param_dtype;
  out.autocast = true;
  out.reduce = w.fsdp.reduce_dtype;
  out.gradient_scaler = w.fsdp.param_dtype == DType::fp16 && !reference;
  return out;
}

Sharding fsdp_sharding(const Settings& s, const Worker& w, bool reference) {
  const bool tied = w.model.architecture != nullptr && w.model.architecture->decoder.tied_embeddings;
  const Fsdp& f = w.fsdp;
  Sharding out;
  out.kind = w.strategy == Strategy::fsdp2 ? ShardingKind::fsdp2 : ShardingKind::fsdp1;
  out.group = f.fsdp_size > 0 && f.fsdp_size < s.gpus() ? f.fsdp_size : 0;
  out.reshard_after_forward = f.reshard_after_forward;
  // FSDP2 is told to prefetch since 0.8.
  out.forward_prefetch = f.forward_prefetch && (out.kind == ShardingKind::fsdp1 || s.after(0, 8, 0));
  out.layers_wrapped = !f.wrap_disabled || out.kind == ShardingKind::fsdp2;
  // Forward-only models are offloaded whatever their own flag says; FSDP2's policy offloads trained ones.
  out.cpu_offload = reference || (out.kind == ShardingKind::fsdp2 && f.offload_policy);
  out.pin_memory = out.cpu_offload;
  // The engine of 0.8 and later reshards a root after a forward only when a shard group size is written down.
  out.root_stays_gathered = out.kind == ShardingKind::fsdp1 && s.after(0, 8, 0) && f.fsdp_size <= 1;
  out.defer_gradient_sync = !reference && s.after(0, 9, 0) && f.no_sync;
  out.trainable_leaves_wrapped = w.lora.rank > 0 && !reference;
  // Fused kernels read the head's weight without calling the head.
  out.head_wrapped = out.kind == ShardingKind::fsdp2 && !tied && s.after(0, 7, 1) && !s.fused_kernels;
  if (!tied) out.meta = MetaRanks::others;
  return out;
}

Optimizer make_optimizer(const OptimizerSettings& o, bool on_host) {
  Optimizer out;
  std::string name = o.optimizer;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name == "sgd") out.kind = OptimizerKind::sgd;
  if (name.find("8bit") != std::string::npos) out.implementation = OptimizerImplementation::eight_bit;
  if (o.fused) out.implementation = OptimizerImplementation::fused;
  if (on_host) out.implementation = OptimizerImplementation::cpu;
  out.states = o.states;
  out.cpu_fraction = o.cpu_fraction;
  return out;
}

MicroBatch micro_batch(const Settings& s, const Worker& w, const Packing& pass) {
  MicroBatch out;
  if (pass.dynamic) {
    out.tokens = pass.tokens;
    out.overshoot = kOvershoot;
  } else {
    out.sequences = pass.micro.value_or(1);
  }
  const bool megatron = w.strategy == Strategy::megatron;
  const bool padded = megatron ? w.megatron.pad_to_length : w.fsdp.pad_to_length;
  if (padded && s.after(0, 8, 0))
    out.round_to = megatron ? w.megatron.pad_to_length_bucket : w.fsdp.pad_to_length_bucket;
  return out;
}

void set_attention(Role& role, const Worker& w) {
  role.packed = w.model.remove_padding || w.strategy == Strategy::megatron;
  const std::string& asked = w.model.attention;
  if (w.strategy == Strategy::megatron) {
    // Megatron's own layers come with its own attention.
    role.attention = w.megatron.switches.layers == MegatronLayers::local ? AttentionImplementation::eager
                                                                        : AttentionImplementation::transformer_engine;
  } else if (asked == "eager") {
    role.attention = AttentionImplementation::eager;
  } else if (asked == "sdpa") {
    role.attention = AttentionImplementation::sdpa;
  } else {
    role.attention = role.packed ? AttentionImplementation::flash_varlen : AttentionImplementation::flash;
  }
  role.attention_mask = !role.packed;
}

void set_recompute(Role& role, const Worker& w) {
  Recompute& out = role.recompute;
  if (w.strategy == Strategy::megatron) {
    const Megatron& m = w.megatron;
    if (m.recompute_granularity == "full") {
      out.kind = RecomputeKind::full;
      if (m.recompute_method == "block") {
        out.layers = m.recompute_layers;
      } else {
        out.every = std::max<std::int64_t>(1, m.recompute_layers);
      }
    } else if (m.recompute_granularity == "selective") {
      out.kind = RecomputeKind::selective;
      out.modules = m.recompute_modules;
    }
    return;
  }
  if (w.model.gradient_checkpointing) {
    out.kind = RecomputeKind::full;
  }
  out.offload_inputs = w.model.activation_offload;
}

void set_megatron(Role& role, const Worker& w, bool forward_only) {
  const Megatron& m = w.megatron;
  role.parallel.tensor = m.tensor;
  role.parallel.pipeline = m.pipeline;
  role.parallel.virtual_pipeline = m.virtual_pipeline;
  role.parallel.context = m.context;
  role.parallel.expert = m.expert;
  role.parallel.expert_tensor = m.expert_tensor;
  role.parallel.sequence = m.sequence_parallel && m.tensor > 1;
  role.parallel.first_stage_layers = m.first_stage_layers;
  role.parallel.last_stage_layers = m.last_stage_layers;
  role.parallel.account_for_embedding = m.account_for_embedding;
  role.parallel.account_for_loss = m.account_for_loss;
  role.megatron = m.switches;
  role.megatron.precision_aware = w.optimizer.main_grads.has_value();
  if (w.model.mtp && w.model.architecture != nullptr)
    role.megatron.mtp_layers = w.model.architecture->decoder.next_token_layers;
  role.megatron.mtp_trained = w.model.mtp_trained;
  role.precision = Precision{};
  role.sharding = Sharding{};
  role.sharding.kind = ShardingKind::megatron;
  role.sharding.distributed_optimizer = m.distributed_optimizer;
  if (forward_only) return;
  role.precision.master = DType::fp32;
  role.precision.gradients = w.optimizer.main_grads.value_or(DType::fp32);
  role.precision.reduce = m.gradients_fp32 ? DType::fp32 : DType::bf16;
}

/// What every role has in common.
Role base(const Settings& s, const Worker& w, const std::string& name, HeadKind head, bool forward_only) {
  Role role;
  role.name = name;
  role.model_name = w.model.path;
  role.model = w.model.architecture;
  role.head = head;
  role.trained = !forward_only;
  role.parallel.ulysses = w.ulysses;
  if (w.strategy == Strategy::megatron) {
    set_megatron(role, w, forward_only);
  } else {
    role.precision = fsdp_precision(s, w, forward_only);
    role.sharding = fsdp_sharding(s, w, forward_only);
  }
  set_attention(role, w);
  role.fused_kernels = w.model.liger;
  role.forward = micro_batch(s, w, w.forward);
  role.train = forward_only ? role.forward : micro_batch(s, w, w.train);
  // One rank a shard group reads the checkpoint; with tied embeddings meta tensors are not used at all.
  role.loads_on_every_rank = w.model.architecture != nullptr && w.model.architecture->decoder.tied_embeddings;
  role.built_on_host = w.strategy != Strategy::megatron;
  role.offload_pinned = w.strategy != Strategy::fsdp2 || !s.after(0, 6, 0);
  role.model_in_shared_memory = w.model.use_shm;
  if (forward_only) return role;
  set_recompute(role, w);
  role.optimizer = make_optimizer(w.optimizer, role.sharding.cpu_offload);
  role.mini_batch = w.mini_batch * s.n;
  role.epochs = w.epochs;
  if (w.lora.rank > 0) {
    LoraSpec lora;
    lora.rank = w.lora.rank;
    lora.targets = w.lora.targets;
    lora.dtype = role.precision.weights;
    role.lora = lora;
    role.inputs_require_grad = true;
  }
  return role;
}

LossSpec token_loss(const Settings& s, const Worker& w) {
  LossSpec out;
  if (w.strategy == Strategy::megatron) {
    // The model returns its logits in fp32; they are divided, and the cross-entropy works, in place. The
    // fused kernel is Triton's.
    out.logits_fp32 = !s.fused_kernels;
    if (s.fused_kernels) out.token_logprob = TokenLogprob::fused_linear;
    return out;
  }
  if (s.fused_kernels) {
    out.token_logprob = TokenLogprob::fused_linear;
    out.chunk = s.fused_triton ? 0 : kFusedChunk;
  } else {
    out.token_logprob = s.flash_cross_entropy ? TokenLogprob::flash_cross_entropy : TokenLogprob::selective_log_softmax;
  }
  // Since 0.9 logits are divided by the temperature out of place; the originals live until the outputs exist.
  out.temperature_copy = s.after(0, 9, 0) && !s.fused_kernels;
  return out;
}

LossSpec actor_loss(const Settings& s) {
  LossSpec out = token_loss(s, s.actor);
  if (s.logprob_entropy) out.logprob_entropy = Entropy::forward;
  if (s.entropy_coeff != 0) {
    out.train_entropy = Entropy::backward;
  } else if (s.calculate_entropy) {
    out.train_entropy = Entropy::forward;
  }
  // Padded logits go through the plain function, whatever is asked for.
  const bool packed = s.actor.model.remove_padding || s.actor.strategy == Strategy::megatron;
  out.entropy_compiled = s.torch_compile && packed;
  out.entropy_recomputed = s.entropy_checkpointing && packed;
  // The engine workers recompute by chunks of the function's own size, whatever size is asked for.
  const bool own_chunk = out.entropy_recomputed && s.after(0, 8, 0);
  out.entropy_chunk = s.entropy_chunking && packed ? own_chunk ? 2048 : s.entropy_chunk : 0;
  out.kl = s.use_kl_loss;
  out.sum_pi_squared = s.calculate_sum_pi_squared;
  // The first engine release kept every micro-batch's outputs, unused ones with their graph.
  out.keeps_outputs = s.after(0, 8, 0) && !s.after(0, 9, 0);
  // The fused function's entropy has no graph of its own: what it shows follows the log-probs', as recorded.
  const bool own_graph = out.token_logprob != TokenLogprob::fused_linear || out.keeps_outputs;
  out.keeps_unused_graph = out.train_entropy == Entropy::forward && own_graph;
  // Before there were engine workers, it was a variable of the loop over micro-batches.
  if (out.keeps_unused_graph && !s.after(0, 8, 0)) out.logits_end = LogitsEnd::next;
  return out;
}

}  // namespace

std::vector<Role> make_roles(const Settings& s) {
  std::vector<Role> roles;
  Role actor = base(s, s.actor, "actor", HeadKind::language_model, false);
  actor.loss = actor_loss(s);
  roles.push_back(std::move(actor));
  if (s.ref.exists) {
    const bool shared = s.actor.lora.rank > 0;
    Role ref = base(s, shared ? s.actor : s.ref, "ref", HeadKind::language_model, true);
    if (shared) {
      ref.shares_weights_of = "actor";
      ref.sharding = roles.front().sharding;
      ref.precision = roles.front().precision;
      ref.forward = micro_batch(s, s.ref, s.ref.forward);
    }
    ref.loss = token_loss(s, s.ref);
    roles.push_back(std::move(ref));
  }
  if (s.critic.exists) {
    Role critic = base(s, s.critic, "critic", HeadKind::token_classification, false);
    critic.loss.keeps_outputs = s.after(0, 8, 0) && !s.after(0, 9, 0);
    roles.push_back(std::move(critic));
  }
  if (s.reward.exists) roles.push_back(base(s, s.reward, "reward", HeadKind::token_classification, true));
  return roles;
}

}  // namespace headroom::verl
