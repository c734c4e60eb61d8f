#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/architecture/architecture.h"
#include "models/architecture/lora.h"
#include "models/base/bytes.h"
#include "models/base/dtype.h"
#include "models/sharding/megatron_form.h"
#include "models/sharding/parallel.h"

namespace headroom {

/// How numbers are stored and computed.
struct Precision {
  DType weights = DType::bf16;     ///< storage of the (sharded) parameters
  DType compute = DType::bf16;     ///< of matrix products and activations
  bool autocast = false;           ///< compute dtype through torch.autocast rather than stored weights
  std::optional<DType> master;     ///< separate master copy kept by the optimizer
  DType gradients = DType::bf16;   ///< of `.grad` (of the shard, when sharded)
  DType reduce = DType::fp32;      ///< of gradient reduction
  bool gradient_scaler = false;    ///< fp16 loss scaling
  std::int64_t skipped_steps = 0;  ///< the first steps overflow and are skipped, while the loss scale falls
  /// Storage of frozen linear weights under adapters: nf4, bitsandbytes' four bits with two levels of scales (QLoRA);
  /// none: as `weights`. The head, embeddings and norms stay as they are.
  std::optional<DType> frozen;
  bool operator==(const Precision&) const = default;
};

/// data_parallel: PyTorch's DistributedDataParallel. zero0: DeepSpeed's engine around an unsharded model (its own
/// mixed-precision optimizer, flat weights). low_level_zero1 and 2, gemini: ColossalAI's.
enum class ShardingKind {
  none,
  data_parallel,
  fsdp1,
  fsdp2,
  zero0,
  zero1,
  zero2,
  zero3,
  low_level_zero1,
  low_level_zero2,
  gemini,
  megatron
};

constexpr bool is_low_level_zero(ShardingKind kind) {
  return kind == ShardingKind::low_level_zero1 || kind == ShardingKind::low_level_zero2;
}

/// What becomes of Gemini's gathered chunks that are idle. resident: they stay. fixed: they are spread over the
/// GPUs again. host: they go to the host, where the optimizer works.
enum class GeminiPlacement { resident, fixed, host };

constexpr bool is_zero(ShardingKind kind) {
  return kind == ShardingKind::zero0 || kind == ShardingKind::zero1 || kind == ShardingKind::zero2 ||
         kind == ShardingKind::zero3;
}

/// Ranks on which a model made on the host has shapes only (PyTorch's meta device) until it was wrapped.
enum class MetaRanks { none, others, all };  ///< others: all but the first

/// How weights, gradients and optimizer states are spread over data-parallel ranks, and when they are
/// gathered.
struct Sharding {
  ShardingKind kind = ShardingKind::none;
  std::int64_t group = 0;  ///< ranks a shard group; 0: all data-parallel ranks. Fewer: hybrid sharding
  bool reshard_after_forward = true;
  bool cpu_offload = false;  ///< parameters (and gradients, optimizer) live on the host; units are streamed
  bool forward_prefetch = false;
  bool defer_gradient_sync = false;  ///< gradients stay unsharded until the last micro-batch
  /// The root unit stays unsharded after a forward: FSDP1 after one without backward, FSDP2 after each, until
  /// its backward or the end of the pass.
  bool root_stays_gathered = false;
  /// FSDP2: passes without gradients begin with every unit unsharded; a layer is sharded again when it ran.
  bool gathers_whole_forward = false;
  /// FSDP2: a tied head is made and sharded as a weight of its own, and tied to the shards once they move.
  bool ties_after_sharding = false;
  bool embedding_wrapped = true;  ///< FSDP2: embeddings are units where the head is not tied to them
  bool layers_wrapped = true;  ///< each decoder layer is a unit; false: the whole model is one
  bool trainable_leaves_wrapped = false;  ///< LoRA: each adapter leaf is its own unit
  bool head_wrapped = false;  ///< FSDP2: a head that is not tied is a unit, as the embedding is
  MetaRanks meta = MetaRanks::none;
  // ZeRO (DeepSpeed): sizes in elements
  std::int64_t reduce_bucket = 500'000'000, allgather_bucket = 500'000'000;
  std::int64_t prefetch_bucket = 50'000'000, max_live_parameters = 1'000'000'000;
  std::int64_t persistence_threshold = 100'000;
  std::int64_t max_reuse_distance = 1'000'000'000;
  bool contiguous_gradients = true, overlap_communication = false;
  bool offload_optimizer = false, offload_parameters = false, pin_memory = false;
  bool sharded_as_built = false;     ///< ZeRO 3: the model is spread as it is made (zero.Init), never whole
  bool gathers_to_generate = false;  ///< ZeRO 3: a trainer's own generation has every weight gathered
  /// The engine divides gradients of its model's outputs by the micro-batches of a step, each in a copy.
  bool divides_output_gradients = false;
  // ... and what differs between releases of DeepSpeed (planner/frameworks/settings/deepspeed.h)
  bool late_buckets = false;        ///< ZeRO 1 and 2: buckets are made with a backward's first gradient
  bool checks_bf16 = false;         ///< ZeRO 1 and 2: bf16 gradients too are looked through for infinities
  bool flattens_on_device = false;  ///< ZeRO 1 and 2: weights are joined on the device, not on the host
  bool whole_bf16_states = false;   ///< ZeRO 0: bf16 is stepped as fp16 is, its states whole on every GPU
  bool gathers_in_place = false;    ///< ZeRO 3: a parameter gathered alone becomes what was gathered
  bool distributed_optimizer = true;  ///< Megatron
  bool finds_unused = false;  ///< DistributedDataParallel: find_unused_parameters, whose buckets stay as they are made
  // ColossalAI
  bool joins_lists = false;  ///< collectives take lists of tensors, and cloned parts of gradients (up to 0.3)
  GeminiPlacement placement = GeminiPlacement::fixed;
  bool gradient_chunks = false;  ///< Gemini: gradients add up in chunks of their own
  bool operator==(const Sharding&) const = default;
};

/// How Megatron-Core's experts get their tokens: an all-to-all of what each rank routes, an all-gather of
/// every rank's tokens, or DeepEP's and HybridEP's exchange ("flex"), which sends a token once to each rank.
enum class MegatronDispatcher { all_to_all, all_gather, flex };

/// Megatron-Core's own switches; defaults are TransformerConfig's.
struct MegatronSwitches {
  MegatronLayers layers = MegatronLayers::transformer_engine;
  bool gradient_accumulation_fusion = false;  ///< weight gradients go into the gradient buffer directly
  bool fused_activation = false;              ///< one kernel for gate, activation and product
  bool linear_offset = true;                  ///< not fused: an offset is added to the linear half (0.15 on)
  bool fused_rotary = false;
  bool deallocates_outputs = false;         ///< a stage's output is dropped once it was sent
  bool context_all_to_all = false;          ///< context parallelism exchanges heads; false: a ring
  bool precision_aware = false;             ///< optimizer: see `Optimizer::states`; no fp32 master copy
  bool fused_cross_entropy = false;         ///< Megatron's own cross-entropy, compiled
  bool overlaps_gradients = false;          ///< gradients are reduced bucket by bucket during the backward
  bool wraps_on_own_stream = false;         ///< gradients are accumulated on a stream of their own
  double expert_imbalance = 1;              ///< tokens that a rank's experts receive, by a rank's fair share
  MegatronDispatcher dispatcher = MegatronDispatcher::all_to_all;
  bool grouped_experts = true;              ///< one product for all of a rank's experts (TransformerEngine)
  bool fused_permutation = true;            ///< TransformerEngine's kernels move tokens to experts and back
  bool fp8 = false;             ///< products in FP8; weights are kept in bf16 and quantised anew each step
  bool fp8_parameters = false;  ///< ... and weights are kept in FP8 alone
  std::int64_t mtp_layers = 0;  ///< multi-token prediction: layers behind the last one
  bool mtp_trained = true;      ///< ... and passes run them and form their losses; false: they are only held
  std::int64_t vocabulary_multiple = 1;     ///< the vocabulary is padded to it
  bool vocabulary_multiple_a_rank = false;  ///< ... times the tensor-parallel size
  bool operator==(const MegatronSwitches&) const = default;
};

enum class RecomputeKind { none, full, selective };

/// Gradient checkpointing.
struct Recompute {
  RecomputeKind kind = RecomputeKind::none;
  bool reentrant = false;
  std::int64_t every = 1;            ///< full: every n-th layer; Megatron's `uniform` group size
  std::int64_t layers = 0;           ///< Megatron's `block`: how many layers of a stage; 0: all
  std::vector<std::string> modules;  ///< selective: core_attn, mlp, moe, layernorm …; self_attn of Transformers
  bool offload_inputs = false;       ///< layer inputs go to pinned host memory between forward and backward
  bool operator==(const Recompute&) const = default;
};

enum class OptimizerKind { adamw, sgd };
enum class OptimizerImplementation { foreach_, fused, loop, apex, cpu, eight_bit };

struct Optimizer {
  OptimizerKind kind = OptimizerKind::adamw;
  OptimizerImplementation implementation = OptimizerImplementation::foreach_;
  std::optional<DType> states;  ///< dtype of the moments; none: of the optimized weights
  /// Bytes an element that Adam itself keeps of a master copy beside the weights (TransformerEngine's FusedAdam): 4 of
  /// an fp32 copy, 2 of the bits that bf16 weights lack.
  std::int64_t master_bytes = 0;
  bool clip = true;
  double cpu_fraction = 0;  ///< Megatron's hybrid optimizer: part that lives on the host for good
  bool operator==(const Optimizer&) const = default;
};

/// How token log-probabilities are formed from the logits.
enum class TokenLogprob {
  log_softmax,
  cross_entropy,
  logsumexp,
  flash_cross_entropy,
  selective_log_softmax,
  fused_linear
};

/// How long a trainer's variables hold the logits of a micro-batch: until its backward is done, until its optimizer
/// step is (of the last one of a step), until those of the next micro-batch take their place.
enum class LogitsEnd { backward, step, next };

enum class Entropy { none, forward, backward };  ///< backward: it is part of the loss

struct LossSpec {
  TokenLogprob token_logprob = TokenLogprob::log_softmax;
  bool logits_fp32 = false;
  bool divides_logits = true;               ///< by a temperature, in the packed loop
  bool temperature_copy = false;            ///< logits are divided out of place: a second copy
  bool collects_chunks = false;             ///< log-probs of all tokens, by chunks, stand whole before the choice
  bool scales_samples = false;              ///< generation divides its scores by a temperature
  bool keeps_logits = false;                ///< the caller holds the logits until `logits_end`
  LogitsEnd logits_end = LogitsEnd::backward;
  bool overwrites_logits = true;  ///< flash_cross_entropy's gradients take the logits' place where nobody needs them
  Entropy logprob_entropy = Entropy::none;  ///< in the log-prob pass
  Entropy train_entropy = Entropy::none;    ///< in the update
  bool entropy_compiled = false;
  std::int64_t entropy_chunk = 0;  ///< rows; 0: all at once
  bool entropy_recomputed = false;
  std::int64_t chunk =
      0;            ///< rows a chunk of fused or chunked log-probs; fused with 0: no logits are ever formed
  bool kl = false;  ///< a KL term with the reference's log-probs
  bool sum_pi_squared = false;      ///< Σ p² over the vocabulary is computed in the update
  bool keeps_outputs = false;       ///< each micro-batch's outputs live until the optimizer step
  bool keeps_unused_graph = false;  ///< an entropy that the loss does not use has a graph, until `logits_end`
  // PPO-ptx: texts that every update also learns.
  std::int64_t text_sequences = 0, text_tokens = 0;
  std::int64_t score_sequences = 0;  ///< whose logits a scoring forward makes at once; 0: the whole batch's
  std::string reference;  ///< a role of the process that scores each micro-batch between its forward and its backward
  bool operator==(const LossSpec&) const = default;
};

enum class AttentionImplementation { sdpa, flash, eager, flash_varlen, transformer_engine };

/// The kernel that scaled_dot_product_attention is held to (torch.nn.attention.sdpa_kernel); by_gpu:
/// PyTorch's own order for the GPU and the operands.
enum class AttentionKernel { by_gpu, cudnn, flash, efficient, math };

/// Sequences (or packed tokens) of one forward.
struct MicroBatch {
  std::int64_t sequences = 0;  ///< fixed: sequences a rank; 0 with a token budget
  std::int64_t tokens =
      0;  ///< budget a GPU; times ulysses and context sizes it bounds one packed micro-batch; 0: fixed
  std::int64_t round_to = 1;  ///< packed tokens are padded up to a multiple
  double overshoot =
      0;  ///< part by which a packed micro-batch may exceed its budget (balanced by compute, not by tokens)
  bool operator==(const MicroBatch&) const = default;
};

struct LoopKind;

/// A model with a part to play: actor, ref, critic, reward.
struct Role {
  std::string name;
  std::string model_name;  ///< as the user wrote it
  std::shared_ptr<const Architecture> model;
  HeadKind head = HeadKind::language_model;
  bool trained = false;
  std::string shares_weights_of;       ///< LoRA reference: the actor's weights with adapters off
  bool inputs_require_grad = false;    ///< enable_input_require_grads() is called; recomputation calls it anyway
  std::string takes_place_of;          ///< Megatron: its weights are copied into that role's modules to run
  bool training_mode_forward = false;  ///< forwards without gradients run in train mode (dropout stays on)
  bool dropout = false;                ///< the family's dropout is on
  Precision precision;
  Parallel parallel;
  Sharding sharding;
  MegatronSwitches megatron;
  Recompute recompute;
  bool activation_offload = false;  ///< save_on_cpu around forward and loss
  Optimizer optimizer;
  std::optional<LoraSpec> lora;
  LossSpec loss;
  AttentionImplementation attention = AttentionImplementation::sdpa;
  AttentionKernel attention_kernel = AttentionKernel::by_gpu;  ///< one for all roles of a process
  const LoopKind* loop =
      nullptr;                  ///< of a trainer whose code is its own (loop_kind.h); null: plain or packed
  bool attention_mask = false;  ///< an explicit mask is passed
  bool padded = false;          ///< ... which has zeros: prompts are shorter than the cap
  bool fused_kernels = false;   ///< Liger: fused norm, rotary and SwiGLU
  bool packed = false;          ///< micro-batches are packed tokens without padding; false: rectangles
  std::int64_t mini_batch = 0;  ///< sequences an optimizer step, global; 0: the batch's
  std::int64_t epochs = 0;      ///< passes over the batch; 0: the batch's
  MicroBatch train, forward;
  bool empties_each_micro_batch =
      false;  ///< torch.cuda.empty_cache() after each micro-batch's forward without gradients or backward
  bool loads_on_every_rank =
      false;  ///< at init every rank holds the whole model on the host, not only one a shard group
  bool built_on_host = false;  ///< the model is made on the host and comes to the device after that: module
                               ///< by module, or as it is sharded; false: whole on the device first
  bool loaded_into_cache = false;  ///< Transformers' loader: room for all weights is taken at once and given
                                   ///< back to the cache, into which they come
  bool offload_pinned = true;            ///< offloaded weights lie in pinned host memory
  bool offload_optimizer_pinned = true;  ///< ... optimizer states
  bool model_in_shared_memory = false;   ///< the model's files are first copied to /dev/shm
  bool operator==(const Role&) const = default;
};

}  // namespace headroom
