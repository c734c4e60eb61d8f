#include "simulator/engine/vllm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "simulator/engine/coefficients.h"

namespace headroom::engine {
namespace {

Bytes activation_peak(const Engine& engine, const ModelSizes& sizes, std::int64_t tokens, std::int64_t rows) {
  // The two follow each other: the larger counts, not the sum.
  return std::max(
      forward_peak(sizes, engine.tensor, std::min(tokens, engine.max_batched_tokens)),
      sampler_peak(engine, sizes, std::min({rows, engine.max_sequences, engine.max_batched_tokens})));
}

/// Bytes left for KV blocks out of the requested memory.
Bytes kv_budget(const Engine& engine, const Host& host, const Account& account) {
  if (engine.kv_bytes) return *engine.kv_bytes;
  Bytes left = account.requested - account.weights - account.profiled_activation - account.growth;
  if (engine.graphs_in_budget) left -= account.graphs;
  if (engine.counts_others) left -= host.others + account.context + account.communicators;
  return left;
}

void take_blocks(const Engine& engine, const ModelSizes& sizes, Bytes budget, Account& account) {
  account.blocks =
      engine.blocks_override.value_or(std::max<Bytes>(0, budget) / sizes.page / sizes.group_layers);
  account.kv = account.blocks * sizes.page * sizes.group_layers;
  account.tokens = account.blocks / std::max<std::int64_t>(1, sizes.full_groups + sizes.sliding_groups) *
                   engine.block_size;
}

std::optional<std::string> start_failure(const Engine& engine, const ModelSizes& sizes, const Host& host,
                                         Bytes budget, const Account& account) {
  // Releases that take other processes' memory out of the KV cache do not compare it beforehand.
  const Bytes free = host.total - host.others - account.context - account.communicators;
  if (!engine.kv_bytes && !engine.counts_others && free < account.requested)
    return fmt::format(
        "vLLM does not start: {} free of {}, {} asked for by gpu_memory_utilization {}; offload the trainer "
        "or lower "
        "it",
        format_gib(std::max<Bytes>(0, free)), format_gib(host.total), format_gib(account.requested),
        engine.utilization);
  if (account.blocks <= 0)
    return fmt::format(
        "vLLM does not start: no memory left for KV blocks ({} short); raise gpu_memory_utilization or "
        "tensor "
        "parallelism",
        format_gib(std::max<Bytes>(0, -budget)));
  const std::int64_t needed = blocks_of_request(sizes, engine, engine.max_length);
  if (engine.max_length > 0 && needed > account.blocks)
    return fmt::format(
        "vLLM does not start: one request of {} tokens needs {} of KV cache, {} is there; lower the maximum "
        "length or "
        "raise gpu_memory_utilization",
        engine.max_length, format_gib(needed * sizes.page * sizes.group_layers), format_gib(account.kv));
  return std::nullopt;
}

}  // namespace

Bytes vllm_graphs(const Engine& engine, const ModelSizes& sizes, Bytes graph_kernel) {
  const std::vector<std::int64_t> captured = capture_sizes(engine);
  if (captured.empty()) return 0;
  std::int64_t graphs = static_cast<std::int64_t>(captured.size());
  if (engine.full_and_piecewise_graphs)
    graphs += std::count_if(captured.begin(), captured.end(),
                            [&](std::int64_t size) { return size <= engine.max_sequences; });
  const Bytes driver = graph_kernel > 0 ? kGraphKernelsALayer * (graph_kernel - kGraphKernel) : 0;
  return kGraphPool + graphs * sizes.layers * driver +
         graphs * kGraphAtReferenceDepth * sizes.layers / kGraphReferenceDepth;
}

Account vllm_account(const Engine& engine, const ModelSizes& sizes, const Host& host, const Work& work) {
  const bool sharded = engine.tensor * engine.pipeline > 1;
  Account account;
  account.sleep_level = engine.sleep_level;
  account.context = host.context;
  account.communicators = host.communicators.value_or(sharded ? kEngineCommunicators : 0);
  account.weights = sizes.weights;
  account.profiled_activation =
      activation_peak(engine, sizes, engine.max_batched_tokens, engine.max_sequences);
  account.activation = std::min(account.profiled_activation,
                                activation_peak(engine, sizes, work.sequences * work.prompt, work.sequences));
  account.growth = sharded ? kProfiledGrowthSharded : kProfiledGrowthAlone;
  account.graphs = vllm_graphs(engine, sizes, host.graph_kernel);
  account.leftover = kAsleepLeftover;
  account.requested = static_cast<Bytes>(std::ceil(engine.utilization * static_cast<double>(host.total)));
  const Bytes budget = kv_budget(engine, host, account);
  take_blocks(engine, sizes, budget, account);
  account.failure = start_failure(engine, sizes, host, budget, account);
  account.wanted = std::min(engine.max_sequences, work.sequences);
  if (work.length > 0) account.at_once = account.blocks / blocks_of_request(sizes, engine, work.length);
  return account;
}

}  // namespace headroom::engine
