#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "simulator/job/job.h"

namespace headroom::jobfile {

/// The one description of a job file: every field of a Job with its name, unit, bounds and meaning. The
/// reader, the writer and the JSON Schema are visitors of it, so that they cannot drift apart.

/// What a field's number counts.
enum class Unit {
  none,
  bytes,     ///< written with a unit: 2GiB, 512MiB, 4096B
  fraction,  ///< 0 to 1
};

struct Info {
  std::string_view name;
  std::string_view meaning;
  std::int64_t least = 0;  ///< of integers
  std::int64_t most = std::int64_t{1} << 31;
  Unit unit = Unit::none;
  bool required = false;
};

/// A visitor has `template <typename T> void field(const Info&, T Struct::*)`, called once a field in the
/// order of the file, and `void model(const Info&)` where a model stands (by name: Role and Engine keep
/// `model_name`).
template <typename Struct>
struct Fields;

template <>
struct Fields<Versions> {
  template <typename V>
  static void visit(V& v) {
    v.field({.name = "framework", .meaning = "of the training framework"}, &Versions::framework);
    v.field({.name = "torch", .meaning = "of PyTorch"}, &Versions::torch);
    v.field({.name = "transformers", .meaning = "of Transformers"}, &Versions::transformers);
    v.field({.name = "vllm", .meaning = "of vLLM"}, &Versions::vllm);
    v.field({.name = "sglang", .meaning = "of SGLang"}, &Versions::sglang);
    v.field({.name = "deepspeed", .meaning = "of DeepSpeed"}, &Versions::deepspeed);
    v.field({.name = "megatron", .meaning = "of Megatron Core"}, &Versions::megatron);
    v.field({.name = "cuda", .meaning = "of the CUDA runtime"}, &Versions::cuda);
    v.field({.name = "nccl", .meaning = "of NCCL"}, &Versions::nccl);
  }
};

template <>
struct Fields<Pool> {
  template <typename V>
  static void visit(V& v) {
    v.field({.name = "name", .meaning = "what processes call the pool; the first pool trains"}, &Pool::name);
    v.field({.name = "nodes", .meaning = "machines", .least = 1, .most = 1'000'000}, &Pool::nodes);
    v.field({.name = "gpus_per_node", .meaning = "GPUs of one machine", .least = 1, .most = 1024},
            &Pool::gpus_per_node);
  }
};

template <>
struct Fields<Batch> {
  template <typename V>
  static void visit(V& v) {
    v.field(
        {.name = "prompts", .meaning = "prompts a step, all ranks together", .least = 1, .required = true},
        &Batch::prompts);
    v.field({.name = "samples", .meaning = "responses a prompt", .least = 1}, &Batch::samples);
    v.field({.name = "mini_batch",
             .meaning = "sequences an optimizer step, all ranks together; 0: all of the step's"},
            &Batch::mini_batch);
    v.field({.name = "epochs", .meaning = "passes over a step's sequences", .least = 1}, &Batch::epochs);
    v.field({.name = "generated_prompts",
             .meaning = "prompts that are generated for, when more than are trained on; 0: the same"},
            &Batch::generated_prompts);
    v.field({.name = "generated_ahead",
             .meaning = "steps whose responses are generated at the same time, ahead of training; 0: one"},
            &Batch::generated_ahead);
    v.field({.name = "prompt_length", .meaning = "tokens, the cap", .required = true}, &Batch::prompt_length);
    v.field({.name = "response_length", .meaning = "tokens, the cap"}, &Batch::response_length);
  }
};

template <>
struct Fields<ListedBatches> {
  template <typename V>
  static void visit(V& v) {
    v.field({.name = "step", .meaning = "from 0"}, &ListedBatches::step);
    v.field({.name = "role", .meaning = "whose pass it is", .required = true}, &ListedBatches::role);
    v.field({.name = "training", .meaning = "its update; false: its pass without gradients"},
            &ListedBatches::training);
    v.field({.name = "micro_batches",
             .meaning = "tokens of each sequence of each micro-batch of one rank",
             .least = 1,
             .required = true},
            &ListedBatches::micro_batches);
  }
};

template <>
struct Fields<Lengths> {
  template <typename V>
  static void visit(V& v) {
    v.field({.name = "mean_prompt", .meaning = "expected tokens of a prompt; 0: unknown"},
            &Lengths::mean_prompt);
    v.field({.name = "mean_response", .meaning = "expected tokens of a response; 0: unknown"},
            &Lengths::mean_response);
    v.field({.name = "max_total", .meaning = "tokens of the longest sequence met; 0: the cap"},
            &Lengths::max_total);
    v.field({.name = "max_response", .meaning = "tokens of the longest response met; 0: the cap"},
            &Lengths::max_response);
    v.field(
        {.name = "spread", .meaning = "deviation of the tokens of k sequences, over the square root of k"},
        &Lengths::spread);
    v.field({.name = "source", .meaning = "where the numbers come from"}, &Lengths::source);
    v.field({.name = "listed", .meaning = "passes whose sequences are known one by one"}, &Lengths::listed);
  }
};

template <>
struct Fields<Precision> {
  template <typename V>
  static void visit(V& v) {
    v.field({.name = "weights", .meaning = "storage of the (sharded) parameters"}, &Precision::weights);
    v.field({.name = "compute",
             .meaning = "of matrix products and activations; units of sharded weights are gathered in it"},
            &Precision::compute);
    v.field({.name = "autocast", .meaning = "torch.autocast runs around the forward"}, &Precision::autocast);
    v.field(
        {.name = "master", .meaning = "separate copy of the weights that the optimizer keeps; null: none"},
        &Precision::master);
    v.field({.name = "gradients", .meaning = "of .grad (of the shard, when sharded)"}, &Precision::gradients);
    v.field({.name = "reduce", .meaning = "of gradient reduction"}, &Precision::reduce);
    v.field({.name = "gradient_scaler", .meaning = "fp16 loss scaling"}, &Precision::gradient_scaler);
    v.field({.name = "skipped_steps", .meaning = "first steps that overflow and are skipped"},
            &Precision::skipped_steps);
    v.field({.name = "frozen",
             .meaning = "storage of frozen linear weights under adapters: nf4 (QLoRA); null: as weights"},
            &Precision::frozen);
  }
};

template <>
struct Fields<Parallel> {
  template <typename V>
  static void visit(V& v) {
    v.field({.name = "tensor", .meaning = "ranks that split each matrix", .least = 1}, &Parallel::tensor);
    v.field({.name = "pipeline", .meaning = "stages of layers", .least = 1}, &Parallel::pipeline);
    v.field({.name = "virtual_pipeline", .meaning = "interleaved parts of a stage", .least = 1},
            &Parallel::virtual_pipeline);
    v.field({.name = "context", .meaning = "ranks that split each sequence", .least = 1}, &Parallel::context);
    v.field({.name = "expert", .meaning = "ranks that split the experts", .least = 1}, &Parallel::expert);
    v.field({.name = "expert_tensor", .meaning = "ranks that split each expert's matrices; 0: as tensor"},
            &Parallel::expert_tensor);
    v.field({.name = "ulysses", .meaning = "ranks that split sequences, and heads in attention", .least = 1},
            &Parallel::ulysses);
    v.field({.name = "sequence", .meaning = "norms and dropout are split over tensor ranks too (Megatron)"},
            &Parallel::sequence);
    v.field({.name = "first_stage_layers", .meaning = "layers of the first stage; 0: even"},
            &Parallel::first_stage_layers);
    v.field({.name = "last_stage_layers", .meaning = "layers of the last stage; 0: even"},
            &Parallel::last_stage_layers);
    v.field({.name = "account_for_embedding",
             .meaning = "the embedding takes the place of a layer in the first stage"},
            &Parallel::account_for_embedding);
    v.field({.name = "account_for_loss", .meaning = "the loss takes the place of a layer in the last stage"},
            &Parallel::account_for_loss);
  }
};

template <>
struct Fields<Sharding> {
  template <typename V>
  static void visit(V& v) {
    constexpr std::int64_t kElements = std::int64_t{1} << 40;
    v.field({.name = "kind",
             .meaning = "how weights, gradients and optimizer states are spread over data-parallel ranks"},
            &Sharding::kind);
    v.field({.name = "group", .meaning = "ranks a shard group; 0: all"}, &Sharding::group);
    v.field({.name = "reshard_after_forward", .meaning = "gathered weights are freed after a unit's forward"},
            &Sharding::reshard_after_forward);
    v.field({.name = "cpu_offload", .meaning = "shards live on the host; units are streamed"},
            &Sharding::cpu_offload);
    v.field({.name = "forward_prefetch", .meaning = "the next unit is gathered while one computes"},
            &Sharding::forward_prefetch);
    v.field({.name = "defer_gradient_sync", .meaning = "gradients stay whole until the last micro-batch"},
            &Sharding::defer_gradient_sync);
    v.field({.name = "gathers_whole_forward",
             .meaning = "FSDP2: passes without gradients begin with every unit unsharded"},
            &Sharding::gathers_whole_forward);
    v.field({.name = "ties_after_sharding",
             .meaning = "FSDP2: a tied head is sharded as a weight of its own, and tied when shards move"},
            &Sharding::ties_after_sharding);
    v.field({.name = "embedding_wrapped",
             .meaning = "FSDP2: embeddings are units where the head is not tied to them"},
            &Sharding::embedding_wrapped);
    v.field({.name = "root_stays_gathered",
             .meaning = "FSDP1: the root unit stays whole after a forward without backward"},
            &Sharding::root_stays_gathered);
    v.field({.name = "layers_wrapped", .meaning = "each decoder layer is a unit; false: the model is one"},
            &Sharding::layers_wrapped);
    v.field({.name = "trainable_leaves_wrapped", .meaning = "each adapter leaf is a unit"},
            &Sharding::trainable_leaves_wrapped);
    v.field({.name = "head_wrapped", .meaning = "FSDP2: a head that is not tied is a unit"},
            &Sharding::head_wrapped);
    v.field({.name = "meta",
             .meaning = "ranks on which a model made on the host has shapes only until it was wrapped"},
            &Sharding::meta);
    v.field({.name = "reduce_bucket",
             .meaning = "ZeRO: elements of a reduction bucket",
             .least = 1,
             .most = kElements},
            &Sharding::reduce_bucket);
    v.field({.name = "allgather_bucket",
             .meaning = "ZeRO: elements gathered at once",
             .least = 1,
             .most = kElements},
            &Sharding::allgather_bucket);
    v.field({.name = "prefetch_bucket", .meaning = "ZeRO-3: elements fetched ahead", .most = kElements},
            &Sharding::prefetch_bucket);
    v.field(
        {.name = "max_live_parameters", .meaning = "ZeRO-3: elements gathered at most", .most = kElements},
        &Sharding::max_live_parameters);
    v.field({.name = "max_reuse_distance",
             .meaning = "ZeRO-3: parameters used again within so many elements stay gathered",
             .most = kElements},
            &Sharding::max_reuse_distance);
    v.field({.name = "persistence_threshold",
             .meaning = "ZeRO-3: smaller parameters are never sharded, elements",
             .most = kElements},
            &Sharding::persistence_threshold);
    v.field({.name = "contiguous_gradients", .meaning = "ZeRO: gradients are copied into one buffer"},
            &Sharding::contiguous_gradients);
    v.field(
        {.name = "overlap_communication", .meaning = "ZeRO: reduction overlaps the backward (two buckets)"},
        &Sharding::overlap_communication);
    v.field({.name = "offload_optimizer", .meaning = "ZeRO: optimizer states on the host"},
            &Sharding::offload_optimizer);
    v.field({.name = "offload_parameters", .meaning = "ZeRO-3: parameters on the host"},
            &Sharding::offload_parameters);
    v.field({.name = "pin_memory", .meaning = "what is offloaded lies in pinned memory"},
            &Sharding::pin_memory);
    v.field({.name = "sharded_as_built",
             .meaning = "ZeRO-3: the model is spread as it is made (zero.Init), never whole on a GPU"},
            &Sharding::sharded_as_built);
    v.field({.name = "gathers_to_generate",
             .meaning = "ZeRO-3: a trainer's own generation has every weight gathered"},
            &Sharding::gathers_to_generate);
    v.field({.name = "divides_output_gradients",
             .meaning = "ZeRO: gradients of the model's outputs are divided by a step's micro-batches, in a copy"},
            &Sharding::divides_output_gradients);
    v.field({.name = "late_buckets",
             .meaning = "ZeRO-1 and 2: buckets are made with a backward's first gradient (DeepSpeed 0.18.3)"},
            &Sharding::late_buckets);
    v.field({.name = "checks_bf16",
             .meaning = "ZeRO-1 and 2: bf16 gradients too are searched for infinities (DeepSpeed 0.17.1)"},
            &Sharding::checks_bf16);
    v.field({.name = "flattens_on_device",
             .meaning = "ZeRO-1 and 2: weights are joined on the device, not on the host (DeepSpeed 0.18.7)"},
            &Sharding::flattens_on_device);
    v.field({.name = "whole_bf16_states",
             .meaning = "ZeRO-0: bf16 is stepped as fp16 is, its states whole on every GPU (DeepSpeed 0.17.6)"},
            &Sharding::whole_bf16_states);
    v.field({.name = "finds_unused",
             .meaning = "DDP: find_unused_parameters, whose buckets of 25 MiB stay as they are made; else the first are one"},
            &Sharding::finds_unused);
    v.field({.name = "gathers_in_place",
             .meaning = "ZeRO-3: a parameter gathered alone becomes what was gathered (DeepSpeed 0.18.5)"},
            &Sharding::gathers_in_place);
    v.field({.name = "distributed_optimizer",
             .meaning = "Megatron: optimizer states are spread over data-parallel ranks"},
            &Sharding::distributed_optimizer);
    v.field({.name = "joins_lists",
             .meaning = "ColossalAI up to 0.3: collectives take lists of tensors, and cloned parts of gradients"},
            &Sharding::joins_lists);
    v.field({.name = "placement", .meaning = "Gemini: what becomes of gathered chunks that are idle"},
            &Sharding::placement);
    v.field({.name = "gradient_chunks", .meaning = "Gemini: gradients add up in chunks of their own"},
            &Sharding::gradient_chunks);
  }
};

template <>
struct Fields<MegatronSwitches> {
  template <typename V>
  static void visit(V& v) {
    using M = MegatronSwitches;
    v.field({.name = "layers", .meaning = "whose layers: TransformerEngine's or Megatron's own"}, &M::layers);
    v.field({.name = "gradient_accumulation_fusion",
             .meaning = "weight gradients go into the gradient buffer directly"},
            &M::gradient_accumulation_fusion);
    v.field({.name = "fused_activation", .meaning = "one kernel for gate, activation and product"},
            &M::fused_activation);
    v.field({.name = "linear_offset",
             .meaning = "not fused: an offset is added to the linear half (0.15 and later)"},
            &M::linear_offset);
    v.field({.name = "fused_rotary", .meaning = "one kernel for rotary positions"}, &M::fused_rotary);
    v.field({.name = "deallocates_outputs", .meaning = "a stage's output is dropped once it was sent"},
            &M::deallocates_outputs);
    v.field({.name = "context_all_to_all",
             .meaning = "context parallelism exchanges heads; false: a ring of key/value blocks"},
            &M::context_all_to_all);
    v.field({.name = "precision_aware", .meaning = "the optimizer keeps no fp32 copy of the weights"},
            &M::precision_aware);
    v.field({.name = "fused_cross_entropy", .meaning = "Megatron's own cross-entropy, compiled"},
            &M::fused_cross_entropy);
    v.field({.name = "overlaps_gradients",
             .meaning = "gradients are reduced bucket by bucket during the backward"},
            &M::overlaps_gradients);
    v.field({.name = "wraps_on_own_stream", .meaning = "gradients are accumulated on a stream of their own"},
            &M::wraps_on_own_stream);
    v.field({.name = "expert_imbalance",
             .meaning = "tokens that a rank's experts receive, by a rank's fair share"},
            &M::expert_imbalance);
    v.field({.name = "dispatcher", .meaning = "how experts get their tokens"}, &M::dispatcher);
    v.field({.name = "grouped_experts",
             .meaning = "one product for all of a rank's experts (TransformerEngine)"},
            &M::grouped_experts);
    v.field({.name = "fused_permutation",
             .meaning = "TransformerEngine's kernels move tokens to experts and back"},
            &M::fused_permutation);
    v.field({.name = "fp8", .meaning = "products in FP8; weights in bf16, quantised anew each step"}, &M::fp8);
    v.field({.name = "fp8_parameters", .meaning = "products in FP8, weights kept in FP8 alone"},
            &M::fp8_parameters);
    v.field({.name = "mtp_layers", .meaning = "multi-token prediction: layers behind the last one"},
            &M::mtp_layers);
    v.field({.name = "mtp_trained", .meaning = "passes run those layers and form their losses"}, &M::mtp_trained);
    v.field({.name = "vocabulary_multiple", .meaning = "the vocabulary is padded to it", .least = 1},
            &M::vocabulary_multiple);
    v.field({.name = "vocabulary_multiple_a_rank", .meaning = "... times the tensor-parallel size"},
            &M::vocabulary_multiple_a_rank);
  }
};

template <>
struct Fields<Recompute> {
  template <typename V>
  static void visit(V& v) {
    v.field({.name = "kind", .meaning = "gradient checkpointing"}, &Recompute::kind);
    v.field({.name = "reentrant", .meaning = "the reentrant implementation"}, &Recompute::reentrant);
    v.field({.name = "every", .meaning = "full: each n-th layer; Megatron's uniform group size", .least = 1},
            &Recompute::every);
    v.field({.name = "layers", .meaning = "Megatron's block: recomputed layers of a stage; 0: all"},
            &Recompute::layers);
    v.field({.name = "modules", .meaning = "selective: core_attn, mlp, moe, layernorm ..."},
            &Recompute::modules);
    v.field({.name = "offload_inputs", .meaning = "layer inputs go to pinned host memory until the backward"},
            &Recompute::offload_inputs);
  }
};

template <>
struct Fields<Optimizer> {
  template <typename V>
  static void visit(V& v) {
    v.field({.name = "kind", .meaning = "the algorithm"}, &Optimizer::kind);
    v.field({.name = "implementation", .meaning = "decides the step's temporaries"},
            &Optimizer::implementation);
    v.field({.name = "states", .meaning = "of the moments; null: as the optimized weights"},
            &Optimizer::states);
    v.field({.name = "master_bytes",
             .meaning = "an element that Adam itself keeps of a master copy beside the weights: 4 of an fp32 copy, 2 of "
                        "the bits that bf16 weights lack (TransformerEngine's FusedAdam)",
             .most = 4},
            &Optimizer::master_bytes);
    v.field({.name = "clip", .meaning = "gradients are clipped by norm"}, &Optimizer::clip);
    v.field({.name = "cpu_fraction",
             .meaning = "part that lives on the host for good (Megatron's hybrid optimizer)",
             .unit = Unit::fraction},
            &Optimizer::cpu_fraction);
  }
};

template <>
struct Fields<LoraSpec> {
  template <typename V>
  static void visit(V& v) {
    v.field({.name = "rank", .meaning = "of the adapters", .least = 1, .most = 65536, .required = true},
            &LoraSpec::rank);
    v.field({.name = "alpha", .meaning = "scale"}, &LoraSpec::alpha);
    v.field({.name = "targets", .meaning = "module names; all-linear"}, &LoraSpec::targets);
    v.field({.name = "saved_modules", .meaning = "modules trained whole besides"}, &LoraSpec::saved_modules);
    v.field({.name = "dtype", .meaning = "of the adapters"}, &LoraSpec::dtype);
    v.field({.name = "dropout", .meaning = "what an adapter is given is dropped out in training"},
            &LoraSpec::dropout);
    v.field({.name = "rest_trains", .meaning = "all but the weights beside adapters trains too"},
            &LoraSpec::rest_trains);
  }
};

template <>
struct Fields<LossSpec> {
  template <typename V>
  static void visit(V& v) {
    v.field({.name = "token_logprob", .meaning = "how token log-probabilities are formed from the logits"},
            &LossSpec::token_logprob);
    v.field({.name = "logits_fp32", .meaning = "logits are cast to fp32"}, &LossSpec::logits_fp32);
    v.field({.name = "divides_logits", .meaning = "logits are divided by a temperature (packed micro-batches)"},
            &LossSpec::divides_logits);
    v.field({.name = "temperature_copy", .meaning = "logits are divided out of place"},
            &LossSpec::temperature_copy);
    v.field({.name = "collects_chunks",
             .meaning = "fp32 log-probs of a pass without gradients are made by chunks and joined"},
            &LossSpec::collects_chunks);
    v.field({.name = "scales_samples", .meaning = "generation divides its scores by a temperature"},
            &LossSpec::scales_samples);
    v.field({.name = "keeps_logits", .meaning = "the caller holds the logits beyond the loss"},
            &LossSpec::keeps_logits);
    v.field({.name = "logits_end",
             .meaning = "... until their backward is done, their optimizer step, or the next micro-batch's stand"},
            &LossSpec::logits_end);
    v.field({.name = "overwrites_logits",
             .meaning = "flash_cross_entropy's gradients take the logits' place where nobody needs them"},
            &LossSpec::overwrites_logits);
    v.field({.name = "reference",
             .meaning = "a role of the process that scores each micro-batch between its forward and its backward"},
            &LossSpec::reference);
    v.field({.name = "logprob_entropy", .meaning = "entropy in the log-prob pass"},
            &LossSpec::logprob_entropy);
    v.field({.name = "train_entropy", .meaning = "entropy in the update; backward: it is part of the loss"},
            &LossSpec::train_entropy);
    v.field({.name = "entropy_compiled", .meaning = "by torch.compile"}, &LossSpec::entropy_compiled);
    v.field({.name = "entropy_chunk", .meaning = "rows at once; 0: all"}, &LossSpec::entropy_chunk);
    v.field({.name = "entropy_recomputed", .meaning = "in the backward"}, &LossSpec::entropy_recomputed);
    v.field({.name = "chunk",
             .meaning = "rows a chunk of fused or chunked log-probs; fused with 0: logits are never formed"},
            &LossSpec::chunk);
    v.field({.name = "kl", .meaning = "a KL term with the reference's log-probs"}, &LossSpec::kl);
    v.field(
        {.name = "sum_pi_squared", .meaning = "the sum of squared probabilities is computed in the update"},
        &LossSpec::sum_pi_squared);
    v.field({.name = "keeps_outputs", .meaning = "a micro-batch's outputs live until the optimizer step"},
            &LossSpec::keeps_outputs);
    v.field({.name = "keeps_unused_graph",
             .meaning = "an entropy that the loss does not use has a graph, which lives until logits_end"},
            &LossSpec::keeps_unused_graph);
    v.field({.name = "text_sequences", .meaning = "PPO-ptx: texts that every update also learns"},
            &LossSpec::text_sequences);
    v.field({.name = "text_tokens", .meaning = "their length"}, &LossSpec::text_tokens);
    v.field({.name = "score_sequences", .meaning = "scored at once by trainers that join logits; 0: the whole batch"},
            &LossSpec::score_sequences);
  }
};

template <>
struct Fields<MicroBatch> {
  template <typename V>
  static void visit(V& v) {
    v.field({.name = "sequences", .meaning = "fixed size: sequences a rank; 0 with a token budget"},
            &MicroBatch::sequences);
    v.field({.name = "tokens", .meaning = "budget of packed tokens a GPU; 0: fixed size"},
            &MicroBatch::tokens);
    v.field({.name = "round_to", .meaning = "packed tokens are padded up to a multiple", .least = 1},
            &MicroBatch::round_to);
    v.field({.name = "overshoot",
             .meaning = "part by which a packed micro-batch may exceed its budget",
             .unit = Unit::fraction},
            &MicroBatch::overshoot);
  }
};

template <>
struct Fields<Role> {
  template <typename V>
  static void visit(V& v) {
    v.field({.name = "name", .meaning = "actor, ref, critic, reward", .required = true}, &Role::name);
    v.model({.name = "model",
             .meaning = "a preset's name, a model's directory or a config.json",
             .required = true},
            &Role::model_name, &Role::model);
    v.field({.name = "head", .meaning = "what stands on top of the decoder"}, &Role::head);
    v.field({.name = "trained", .meaning = "it has gradients and an optimizer"}, &Role::trained);
    v.field({.name = "takes_place_of",
             .meaning = "Megatron: the weights are copied into that role's modules to run, which keep what FP8 makes of them"},
            &Role::takes_place_of);
    v.field({.name = "shares_weights_of",
             .meaning = "a LoRA reference: the role whose weights run with adapters off"},
            &Role::shares_weights_of);
    v.field({.name = "inputs_require_grad", .meaning = "embeddings require gradients where nothing is recomputed too"},
            &Role::inputs_require_grad);
    v.field({.name = "training_mode_forward", .meaning = "forwards without gradients run in train mode"},
            &Role::training_mode_forward);
    v.field({.name = "dropout", .meaning = "the family's dropout is on"}, &Role::dropout);
    v.field({.name = "precision", .meaning = "dtypes"}, &Role::precision);
    v.field({.name = "parallel", .meaning = "sizes of the parallel groups; data parallelism is what is left"},
            &Role::parallel);
    v.field({.name = "sharding", .meaning = "over data-parallel ranks"}, &Role::sharding);
    v.field({.name = "megatron", .meaning = "switches of Megatron Core"}, &Role::megatron);
    v.field({.name = "recompute", .meaning = "gradient checkpointing"}, &Role::recompute);
    v.field({.name = "activation_offload", .meaning = "saved activations go to the host"},
            &Role::activation_offload);
    v.field({.name = "optimizer", .meaning = "of a trained role"}, &Role::optimizer);
    v.field({.name = "lora", .meaning = "adapters; null: all weights are trained"}, &Role::lora);
    v.field({.name = "loss", .meaning = "what happens to the logits; of a role that shares weights: as its owner's"}, &Role::loss);
    v.field({.name = "attention", .meaning = "implementation"}, &Role::attention);
    v.field({.name = "trainer", .meaning = "whose loop runs it: a trainer's own, or plain"}, &Role::loop);
    v.field({.name = "attention_kernel", .meaning = "that scaled_dot_product_attention is held to"},
            &Role::attention_kernel);
    v.field({.name = "attention_mask", .meaning = "an explicit mask is passed"}, &Role::attention_mask);
    v.field({.name = "padded", .meaning = "the mask has zeros: prompts are shorter than the cap"},
            &Role::padded);
    v.field({.name = "fused_kernels", .meaning = "Liger's norm, rotary and SwiGLU"}, &Role::fused_kernels);
    v.field({.name = "packed", .meaning = "micro-batches are packed tokens; false: padded rectangles"},
            &Role::packed);
    v.field({.name = "mini_batch", .meaning = "sequences an optimizer step; 0: the batch's"},
            &Role::mini_batch);
    v.field({.name = "epochs", .meaning = "passes over a step's sequences; 0: the batch's"}, &Role::epochs);
    v.field({.name = "train", .meaning = "micro-batches of updates"}, &Role::train);
    v.field({.name = "forward", .meaning = "micro-batches of passes without gradients"}, &Role::forward);
    v.field({.name = "empties_each_micro_batch", .meaning = "the cache is emptied after each micro-batch"},
            &Role::empties_each_micro_batch);
    v.field(
        {.name = "loads_on_every_rank", .meaning = "at init every rank holds the whole model on the host"},
        &Role::loads_on_every_rank);
    v.field({.name = "built_on_host", .meaning = "the model is made on the host, then comes to the device"},
            &Role::built_on_host);
    v.field({.name = "loaded_into_cache",
             .meaning = "Transformers' loader takes room for all weights at once, then loads into it"},
            &Role::loaded_into_cache);
    v.field({.name = "offload_pinned", .meaning = "offloaded weights lie in pinned memory"},
            &Role::offload_pinned);
    v.field(
        {.name = "offload_optimizer_pinned", .meaning = "offloaded optimizer states lie in pinned memory"},
        &Role::offload_optimizer_pinned);
    v.field({.name = "model_in_shared_memory", .meaning = "the model's files are copied to /dev/shm first"},
            &Role::model_in_shared_memory);
  }
};

template <>
struct Fields<WeightSync> {
  template <typename V>
  static void visit(V& v) {
    v.field({.name = "kind", .meaning = "how weights are gathered for the engine"}, &WeightSync::kind);
    v.field({.name = "bucket",
             .meaning = "transfer buffer in the trainer; 0B: none",
             .most = std::int64_t{1} << 50,
             .unit = Unit::bytes},
            &WeightSync::bucket);
    v.field({.name = "dtype", .meaning = "in which tensors are gathered and sent"}, &WeightSync::dtype);
    v.field({.name = "adapters_only", .meaning = "only adapters after the first time"},
            &WeightSync::adapters_only);
    v.field({.name = "every_rank",
             .meaning = "an engine on a pool of its own receives from a group of all trainers, not from one"},
            &WeightSync::every_rank);
  }
};

template <>
struct Fields<Engine> {
  template <typename V>
  static void visit(V& v) {
    constexpr std::int64_t kBytes = std::int64_t{1} << 50;
    v.field({.name = "name", .meaning = "what processes and phases call it", .required = true},
            &Engine::name);
    v.field({.name = "kind", .meaning = "the serving library", .required = true}, &Engine::kind);
    v.field({.name = "role", .meaning = "whose weights it serves; empty: its own"}, &Engine::role);
    v.field({.name = "release",
             .meaning = "of its library; decides every field below that is left out; empty: as in versions"},
            &Engine::release);
    v.model({.name = "model", .meaning = "as of a role", .required = true}, &Engine::model_name,
            &Engine::model);
    v.field({.name = "tensor", .meaning = "ranks that split each matrix", .least = 1}, &Engine::tensor);
    v.field({.name = "pipeline", .meaning = "stages", .least = 1}, &Engine::pipeline);
    v.field({.name = "data", .meaning = "data-parallel ranks of one replica", .least = 1}, &Engine::data);
    v.field({.name = "expert", .meaning = "ranks that split the experts", .least = 1}, &Engine::expert);
    v.field({.name = "weights", .meaning = "dtype of the served weights"}, &Engine::weights);
    v.field({.name = "kv", .meaning = "dtype of the KV cache"}, &Engine::kv);
    v.field({.name = "utilization",
             .meaning = "vLLM: of total memory; SGLang: of free memory",
             .unit = Unit::fraction},
            &Engine::utilization);
    v.field({.name = "kv_bytes",
             .meaning = "KV cache set outright; null: what utilization leaves",
             .least = 1,
             .most = kBytes,
             .unit = Unit::bytes},
            &Engine::kv_bytes);
    v.field({.name = "blocks_override", .meaning = "KV blocks set outright; null: what fits", .least = 1},
            &Engine::blocks_override);
    v.field({.name = "block_size", .meaning = "tokens a KV block", .least = 1}, &Engine::block_size);
    v.field({.name = "max_sequences", .meaning = "that run at once", .least = 1}, &Engine::max_sequences);
    v.field({.name = "max_batched_tokens", .meaning = "of one prefill step", .least = 1},
            &Engine::max_batched_tokens);
    v.field({.name = "max_length", .meaning = "tokens of one request; 0: the model's maximum"},
            &Engine::max_length);
    v.field({.name = "graphs", .meaning = "CUDA graphs are captured"}, &Engine::graphs);
    v.field({.name = "capture_sizes",
             .meaning = "batch sizes of the graphs; empty: the engine's own list",
             .least = 1},
            &Engine::capture_sizes);
    v.field({.name = "graphs_in_budget", .meaning = "the graph estimate is taken out of the KV cache"},
            &Engine::graphs_in_budget);
    v.field({.name = "counts_others", .meaning = "other processes' memory counts against the engine"},
            &Engine::counts_others);
    v.field(
        {.name = "full_and_piecewise_graphs", .meaning = "both kinds are captured; false: piecewise alone"},
        &Engine::full_and_piecewise_graphs);
    v.field({.name = "sampler_rows_factor",
             .meaning = "fp32 [rows, vocabulary] copies alive in the profiling run of the sampler"},
            &Engine::sampler_rows_factor);
    v.field({.name = "sampler_scratch",
             .meaning = "beside them a fp32 row of the vocabulary for each multiprocessor"},
            &Engine::sampler_scratch);
    v.field({.name = "schedules_ahead", .meaning = "the host prepares a step while the one before runs"},
            &Engine::schedules_ahead);
    v.field({.name = "host_work", .meaning = "Python a step, relative to vLLM's second engine"},
            &Engine::host_work);
    v.field({.name = "hidden_copies",
             .meaning = "[tokens, hidden] tensors alive at a forward's widest moment",
             .most = 64},
            &Engine::hidden_copies);
    v.field({.name = "keeps_expert_workspace", .meaning = "the experts' workspace outlives the profile"},
            &Engine::keeps_expert_workspace);
    v.field({.name = "experts_take_adapters", .meaning = "routed experts have slots for adapters too"},
            &Engine::experts_take_adapters);
    v.field({.name = "chunks_experts", .meaning = "experts take at most 32,768 tokens at once"},
            &Engine::chunks_experts);
    v.field({.name = "workspace_sleeps", .meaning = "the experts' workspace is given back while the engine sleeps"},
            &Engine::workspace_sleeps);
    v.field({.name = "keeps_profiled_graphs", .meaning = "a graph is captured while profiling"},
            &Engine::keeps_profiled_graphs);
    v.field({.name = "allreduce_workspaces", .meaning = "all-reduce is fused with the norm, with workspaces"},
            &Engine::allreduce_workspaces);
    v.field({.name = "allreduce_beside_groups",
             .meaning = "also with data parallelism or a pipeline"},
            &Engine::allreduce_beside_groups);
    v.field({.name = "split_kv_graphs",
             .meaning = "full graphs hold accumulators of keys and values read in parts"},
            &Engine::split_kv_graphs);
    v.field({.name = "few_graphs", .meaning = "SGLang's decode graphs: the shorter list"},
            &Engine::few_graphs);
    v.field({.name = "processed_logprobs", .meaning = "log-probs of sampled tokens are returned"},
            &Engine::processed_logprobs);
    v.field({.name = "lora_slots", .meaning = "adapters served at once"}, &Engine::lora_slots);
    v.field({.name = "lora_rank", .meaning = "rank that slots are made for"}, &Engine::lora_rank);
    v.field({.name = "sleep_level",
             .meaning = "0: never sleeps; 1: weights to the host; 2: weights dropped",
             .most = 2},
            &Engine::sleep_level);
    v.field({.name = "sleep_keeps_weights", .meaning = "sleeping drops the KV cache only"},
            &Engine::sleep_keeps_weights);
    v.field({.name = "loads_weights", .meaning = "from disk at start rather than by the first sync"},
            &Engine::loads_weights);
    v.field({.name = "host_swap",
             .meaning = "host memory for swapped KV blocks, a GPU",
             .most = kBytes,
             .unit = Unit::bytes},
            &Engine::host_swap);
    v.field({.name = "sync", .meaning = "how the trainer's weights reach it"}, &Engine::sync);
  }
};

template <>
struct Fields<Process> {
  template <typename V>
  static void visit(V& v) {
    v.field({.name = "name", .meaning = "trainer, rollout, reward_engine", .required = true}, &Process::name);
    v.field({.name = "pool", .meaning = "on whose GPUs it runs, one process a GPU"}, &Process::pool);
    v.field({.name = "roles", .meaning = "that live in it"}, &Process::roles);
    v.field({.name = "engine", .meaning = "that it runs"}, &Process::engine);
    v.field({.name = "allocator_settings", .meaning = "its PYTORCH_CUDA_ALLOC_CONF"},
            &Process::allocator_settings);
    v.field({.name = "communicators", .meaning = "NCCL groups of more than one rank that it uses"},
            &Process::communicators);
  }
};

template <>
struct Fields<Action> {
  template <typename V>
  static void visit(V& v) {
    v.field({.name = "do", .meaning = "what happens", .required = true}, &Action::verb);
    v.field({.name = "role", .meaning = "to which role"}, &Action::role);
    v.field({.name = "engine", .meaning = "to which engine"}, &Action::engine);
    v.field({.name = "call", .meaning = "do: call: the procedure of the role's trainer"}, &Action::call);
    v.parts({.name = "parts",
             .meaning = "what is moved or dropped; what each rank saves of its own, where none are named all, or "
                        "the gathered model alone"},
            &Action::parts);
    v.field({.name = "output", .meaning = "of a forward"}, &Action::output);
    v.field({.name = "from_step_one", .meaning = "does nothing in the first step"}, &Action::from_step_one);
    v.field({.name = "gathered", .meaning = "save: the whole model is gathered on one host too"},
            &Action::gathered);
  }
};

template <>
struct Fields<When> {
  template <typename V>
  static void visit(V& v) {
    v.field({.name = "every", .meaning = "each n-th step", .least = 1}, &When::every);
    v.field({.name = "from", .meaning = "first step (from 0) that has it"}, &When::from);
    v.field({.name = "shift", .meaning = "every - 1: begins with the first step"}, &When::shift);
  }
};

template <>
struct Fields<PhaseSpec> {
  template <typename V>
  static void visit(V& v) {
    v.field(
        {.name = "phase", .meaning = "kind; phases of one kind share a name and a margin", .required = true},
        &PhaseSpec::kind);
    v.field({.name = "name", .meaning = "shown; empty: the kind's"}, &PhaseSpec::name);
    v.field({.name = "within", .meaning = "a later row of the same step whose peaks cover it too"},
            &PhaseSpec::within);
    v.field({.name = "when", .meaning = "in which steps"}, &PhaseSpec::when);
    v.field(
        {.name = "overlaps_next", .meaning = "runs at the same time as the next phase, in other processes"},
        &PhaseSpec::overlaps_next);
    v.field({.name = "reported", .meaning = "false: what happens between two phases"}, &PhaseSpec::reported);
    v.field({.name = "empties_cache", .meaning = "the cache is emptied when the phase is over"},
            &PhaseSpec::empties_cache);
    v.field({.name = "actions", .meaning = "in order"}, &PhaseSpec::actions);
  }
};

template <>
struct Fields<Job> {
  template <typename V>
  static void visit(V& v) {
    v.field({.name = "name", .meaning = "of the run, for reports"}, &Job::name);
    v.field({.name = "framework", .meaning = "whose configuration it was made from; informative"},
            &Job::framework);
    v.field({.name = "algorithm", .meaning = "for reports; the step says what happens"}, &Job::algorithm);
    v.field({.name = "versions", .meaning = "of libraries; empty: the newest known"}, &Job::versions);
    v.field({.name = "gpu", .meaning = "hardware profile: a name that `headroom gpus` lists, or a file"},
            &Job::gpu);
    v.field({.name = "device_memory",
             .meaning = "of a GPU as the driver reports it; 0B: the profile's",
             .most = std::int64_t{1} << 50,
             .unit = Unit::bytes},
            &Job::device_memory);
    v.field({.name = "pools", .meaning = "GPUs of one kind; default: one GPU"}, &Job::pools);
    v.field({.name = "batch", .meaning = "sizes of one step", .required = true}, &Job::batch);
    v.field({.name = "lengths", .meaning = "what sequences are expected to be, beside the caps"},
            &Job::lengths);
    v.field({.name = "roles", .meaning = "models with a part to play", .required = true}, &Job::roles);
    v.field({.name = "engines", .meaning = "rollout and reward engines"}, &Job::engines);
    v.field({.name = "processes",
             .meaning = "of each GPU; default: one trainer with all roles and one process an engine"},
            &Job::processes);
    v.field({.name = "start", .meaning = "phases before the first step; default: build everything"},
            &Job::start);
    v.field({.name = "step",
             .meaning = "phases of every step; default: generate, score, log-probs, update, sync"},
            &Job::step);
    v.field({.name = "steps", .meaning = "that are simulated", .least = 1, .most = 1000}, &Job::steps);
    v.field({.name = "resumed", .meaning = "optimizer states exist at start"}, &Job::resumed);
    v.field({.name = "rank", .meaning = "which of the GPUs that are counted alike is followed"}, &Job::rank);
    v.field({.name = "phase_marker",
             .meaning = "a tensor of so many bytes is made and dropped as each phase begins",
             .most = std::int64_t{1} << 40,
             .unit = Unit::bytes},
            &Job::phase_marker);
    v.field({.name = "records_history",
             .meaning = "PyTorch's memory history is recorded, with the stack of every allocation"},
            &Job::records_history);
    v.field({.name = "helpers", .meaning = "processes a node without a GPU"}, &Job::helpers);
    v.field({.name = "assumptions", .meaning = "what a reader took for granted; shown in reports"},
            &Job::assumptions);
    v.field({.name = "not_modelled",
             .meaning = "what no program models: a verdict is undetermined while not empty"},
            &Job::not_modelled);
  }
};

}  // namespace headroom::jobfile
