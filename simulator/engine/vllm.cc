#include "simulator/engine/vllm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "simulator/engine/coefficients.h"
#include "simulator/engine/communication.h"
#include "simulator/engine/graphs.h"
#include "simulator/engine/profile.h"

namespace headroom::engine {
namespace {

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
  const std::int64_t groups = sizes.full_groups + sizes.sliding_groups + sizes.state_groups;
  account.tokens = account.blocks / std::max<std::int64_t>(1, groups) * sizes.block;
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

Account vllm_account(const Engine& engine, const ModelSizes& sizes, const Host& host, const Work& work) {
  Account account;
  account.sleep_level = engine.sleep_level;
  account.context = host.context;
  account.communicators = host.communicators.value_or(communicators_at_start(engine, sizes, host));
  account.weights = sizes.weights;
  account.profiled_activation =
      activation_peak(engine, sizes, host, engine.max_batched_tokens, engine.max_sequences);
  const std::int64_t tokens =
      std::min(std::max(work.sequences * work.prompt, work.sequences), engine.max_batched_tokens);
  account.activation = activation_peak(engine, sizes, host, tokens, work.sequences) -
                       kept_workspaces(engine, sizes, host, tokens);
  account.growth = growth_while_profiling(engine, host);
  account.workspaces = kept_workspaces(engine, sizes, host, engine.max_batched_tokens);
  if (engine.workspace_sleeps) account.sleeping_workspaces = account.workspaces - host.cublas_workspace;
  account.graphs = vllm_graphs(engine, sizes, host);
  account.leftover = kAsleepLeftover;
  account.requested = static_cast<Bytes>(std::ceil(engine.utilization * static_cast<double>(host.total)));
  const Bytes budget = kv_budget(engine, host, account);
  take_blocks(engine, sizes, budget, account);
  account.failure = start_failure(engine, sizes, host, budget, account);
  account.wanted = std::min(engine.max_sequences, work.sequences);
  const auto held = [&](std::int64_t length) {
    return static_cast<double>(account.blocks) /
           static_cast<double>(blocks_of_request(sizes, engine, length));
  };
  if (work.length > 0) account.at_once = static_cast<std::int64_t>(held(work.length));
  account.concurrency = held(engine.max_length > 0 ? engine.max_length : engine.model->decoder.max_positions);
  return account;
}

}  // namespace headroom::engine
