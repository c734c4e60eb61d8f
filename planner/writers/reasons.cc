#include "planner/writers/reasons.h"

#include <array>

namespace headroom::writers {

std::string_view reason(Component component) {
  static constexpr std::array<std::string_view, kComponents> kReasons = {
      "model weights (or this rank's shard): shard over more GPUs, offload between phases",
      "gradients: shard them, fewer micro-batches between reductions",
      "fp32 copies that the optimizer steps on: shard or offload the optimizer",
      "optimizer states, there from the first step on: shard or offload them",
      "tensors kept for the backward pass: recompute layers, smaller micro-batches, sequence parallelism",
      "the output head's [tokens, vocabulary] products: smaller micro-batches, fused or chunked losses",
      "keys and values of generation inside the trainer: fewer sequences at once",
      "short-lived tensors inside operations: smaller micro-batches",
      "buffers of collectives: smaller buckets",
      "weights gathered from their shards for the moment: reshard after forward, smaller units",
      "copies on the way between host and device, or between trainer and engine: smaller buckets",
      "reserved by PyTorch's allocator and not in use: empty the cache between phases, expandable segments",
      "CUDA contexts, one a process",
      "NCCL's buffers, by communicator",
      "library workspaces",
      "the rollout engine's weights: more tensor parallelism, sleep while training",
      "the rollout engine's KV cache: lower its memory utilization",
      "the rollout engine's CUDA graphs: fewer capture sizes, or eager mode",
      "the rollout engine's activations and buffers: fewer tokens and sequences a step",
      "everything else",
  };
  return kReasons[static_cast<std::size_t>(component)];
}

}  // namespace headroom::writers
