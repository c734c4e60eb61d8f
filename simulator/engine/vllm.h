#pragma once

#include "simulator/engine/account.h"

namespace headroom::engine {

/// vLLM's start-up, in its order: a snapshot of free memory against ceil(total × utilization); weights; a
/// profile (forward of max_batched_tokens, then sampling); the rest of the requested memory becomes KV
/// blocks.
///
/// Differences between releases are fields of Engine: whether other processes' memory is taken out of the KV
/// cache (counts_others), whether graphs are (graphs_in_budget), how the profile samples
/// (sampler_rows_factor, sampler_scratch), and what outlives it.
Account vllm_account(const Engine& engine, const ModelSizes& sizes, const Host& host, const Work& work);

}  // namespace headroom::engine
