#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/architecture/architecture.h"
#include "models/base/bytes.h"
#include "models/base/dtype.h"

namespace headroom {

enum class EngineKind {
  transformers,  ///< `generate` inside the trainer, with the trainer's weights
  vllm,
  sglang,
  hybrid,  ///< DeepSpeed's hybrid engine, inside the trainer
};

/// How a trainer's weights reach an engine that lives in another process.
enum class WeightExport {
  per_tensor,          ///< each tensor is gathered, sent and freed
  sharded_state_dict,  ///< FSDP1: every unit is gathered once and leaves a sharded copy, then tensor by
                       ///< tensor
  full_parameters,     ///< all units are gathered at once and kept until everything is sent
  layers,              ///< one unit at a time is gathered, sent and freed
};

struct WeightSync {
  WeightExport kind = WeightExport::per_tensor;
  Bytes bucket = 0;            ///< transfer buffer in the trainer process; 0: tensors are passed one by one
  DType dtype = DType::bf16;   ///< in which tensors are gathered and sent
  bool adapters_only = false;  ///< LoRA: only adapters after the first time
  bool every_rank = false;  ///< to GPUs of a pool of its own: all trainers belong to the group that is sent to
  bool operator==(const WeightSync&) const = default;
};

/// A rollout or reward engine and the settings that decide its memory. What differs between releases of its
/// library are fields, set by readers from the facts of planner/frameworks/engines.
struct Engine {
  std::string name = "rollout";
  EngineKind kind = EngineKind::transformers;
  std::string role = "actor";  ///< whose weights it serves
  std::string release;         ///< of its library, whose facts are set below; empty: none are
  std::string model_name;
  std::shared_ptr<const Architecture> model;
  std::int64_t tensor = 1, pipeline = 1, data = 1, expert = 1;
  DType weights = DType::bf16, kv = DType::bf16;
  double utilization = 0.9;       ///< vLLM: of total memory; SGLang: of free memory
  std::optional<Bytes> kv_bytes;  ///< set outright instead of utilization
  std::optional<std::int64_t> blocks_override;
  std::int64_t block_size = 16;
  std::int64_t max_sequences = 256, max_batched_tokens = 8192;
  std::int64_t max_length = 0;              ///< tokens of one request; 0: the model's maximum
  bool graphs = true;                       ///< CUDA graphs are captured
  std::vector<std::int64_t> capture_sizes;  ///< empty: the engine's default list
  bool graphs_in_budget = true;             ///< the graph estimate is taken out of the KV cache
  bool counts_others = false;               ///< old vLLM: other processes' memory counts against the engine
  bool full_and_piecewise_graphs = true;    ///< both kinds are captured; false: piecewise alone
  double sampler_rows_factor = 3.5;  ///< fp32 [rows, vocabulary] copies alive while sampling (profiling run)
  bool sampler_scratch = true;       ///< beside them a fp32 row of the vocabulary for each multiprocessor
  bool processed_logprobs = false;
  std::int64_t hidden_copies = 4;  ///< [tokens, hidden] tensors alive at a forward's widest moment
  bool keeps_expert_workspace = true;   ///< the experts' workspace outlives the profile, and sleep
  bool chunks_experts = false;          ///< experts take at most 32,768 tokens at once
  bool workspace_sleeps = false;        ///< the experts' workspace lies in the pool that sleep gives back
  bool keeps_profiled_graphs = true;    ///< a graph is captured while profiling; what it leaves is growth
  bool allreduce_workspaces = true;     ///< those of fused all-reduce, where ranks and fabric have it
  bool allreduce_beside_groups = true;  ///< also with data parallelism or a pipeline
  bool few_graphs = false;      ///< SGLang 0.4: the decode graphs' list is the shorter one
  bool split_kv_graphs = true;  ///< a full graph holds accumulators of keys and values read in parts
  bool schedules_ahead = false;  ///< the host prepares a step while the one before runs
  double host_work = 1;          ///< of Python a step, relative to vLLM's second engine
  std::int64_t lora_slots = 0, lora_rank = 0;
  bool experts_take_adapters = true;  ///< routed experts have slots for adapters too
  int sleep_level = 2;               ///< 0: never sleeps; 1: weights to the host; 2: weights dropped
  bool sleep_keeps_weights = false;  ///< sleeping drops the KV cache only
  bool loads_weights = false;        ///< from disk at start rather than by the first sync
  Bytes host_swap = 0;
  WeightSync sync;
  bool operator==(const Engine&) const = default;
};

}  // namespace headroom
