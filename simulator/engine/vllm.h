#pragma once

#include "simulator/engine/account.h"

namespace headroom::engine {

/// vLLM's start-up, in its order: a snapshot of free memory against ceil(total × utilization); weights; a
/// profile (forward of max_batched_tokens, then sampling); the rest of the requested memory becomes KV
/// blocks.
///
/// Version differences are fields of Engine: whether other processes' memory is taken out of the KV cache
/// (counts_others), whether graphs are (graphs_in_budget), how many rows sampling keeps
/// (sampler_rows_factor).
Account vllm_account(const Engine& engine, const ModelSizes& sizes, const Host& host, const Work& work);

/// Device memory of the captured graphs: a pool and so much a graph. With full and piecewise graphs, sizes up
/// to max_sequences are captured twice. `graph_kernel` as in Host.
Bytes vllm_graphs(const Engine& engine, const ModelSizes& sizes, Bytes graph_kernel);

}  // namespace headroom::engine
