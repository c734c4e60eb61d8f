#pragma once

#include <cstdint>
#include <vector>

#include "simulator/engine/account.h"
#include "simulator/engine/sizes.h"

namespace headroom::engine {

/// Batch sizes for which vLLM captures CUDA graphs: the engine's own list, or 1, 2, 4, every 8 below 256,
/// every 16 above, up to twice the sequences and at most 512.
std::vector<std::int64_t> capture_sizes(const Engine& engine);

/// Device memory of vLLM's captured graphs. All graphs share a pool, so the largest first capture decides its
/// size: a piecewise graph's tensors at the largest size, or a full graph's, which on Hopper (FlashAttention
/// 3) holds the accumulators of keys and values read in up to 32 parts: parts × size × heads × elements in
/// fp32. Each further graph takes so much of the driver's memory a layer. With full and piecewise graphs,
/// sizes up to max_sequences are captured twice; all once more where adapters are served.
Bytes vllm_graphs(const Engine& engine, const ModelSizes& sizes, const Host& host);

/// The largest batch of SGLang's decode graphs where the engine does not state it: by the card's memory.
std::int64_t sglang_largest_graph(const Engine& engine, Bytes total_memory);

/// SGLang's decode graphs, one a batch size: the first few bring the pool and the buffers that all share.
Bytes sglang_graphs(const Engine& engine, const ModelSizes& sizes, const Host& host);

}  // namespace headroom::engine
