#include "simulator/engine/sglang.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulator/engine/coefficients.h"

namespace headroom::engine {
namespace {

/// Decode graphs are captured for batch sizes up to max_sequences.
Bytes graph_bytes(const Engine& engine, const ModelSizes& sizes) {
  const std::vector<std::int64_t> captured = capture_sizes(engine);
  const auto count = std::count_if(captured.begin(), captured.end(),
                                   [&](std::int64_t size) { return size <= engine.max_sequences; });
  return count == 0 ? 0 : kGraphPool + count * kSglangGraph * sizes.layers / kGraphReferenceDepth;
}

std::optional<std::string> start_failure(const Engine& engine, Bytes static_bytes, Bytes free,
                                         const Account& account) {
  if (static_bytes - account.weights <= 0)
    return fmt::format(
        "SGLang does not start: weights take {}, mem_fraction_static {} of the free {} is {}; free more of "
        "the GPU or "
        "raise it",
        format_gib(account.weights), engine.utilization, format_gib(std::max<Bytes>(0, free)),
        format_gib(std::max<Bytes>(0, static_bytes)));
  const Bytes rest = free - std::max(static_bytes, account.weights + account.kv);
  if (account.activation + account.graphs > rest)
    return fmt::format(
        "SGLang runs out of memory: {} is left beside weights and KV cache, activations and graphs take {}; "
        "lower "
        "mem_fraction_static",
        format_gib(std::max<Bytes>(0, rest)), format_gib(account.activation + account.graphs));
  return std::nullopt;
}

}  // namespace

Account sglang_account(const Engine& engine, const ModelSizes& sizes, const Host& host, const Work& work) {
  const bool sharded = engine.tensor * engine.pipeline > 1;
  Account account;
  account.sleep_level = engine.sleep_level;
  account.context = host.context;
  account.communicators = host.communicators.value_or(sharded ? kEngineCommunicators : 0);
  account.weights = sizes.weights;
  const std::int64_t tokens = std::min(work.sequences * work.prompt, engine.max_batched_tokens);
  account.activation = std::max(forward_peak(sizes, engine.tensor, tokens),
                                sampler_peak(engine, sizes, std::min(work.sequences, engine.max_sequences)));
  account.profiled_activation = 0;  // no profile decides the KV cache
  account.growth = sharded ? kProfiledGrowthSharded : kProfiledGrowthAlone;
  account.graphs = graph_bytes(engine, sizes);
  account.leftover = kAsleepLeftover;
  const Bytes free = host.total - host.others - account.context - account.communicators;
  account.requested = static_cast<Bytes>(engine.utilization * static_cast<double>(free));
  const Bytes budget = engine.kv_bytes.value_or(account.requested - account.weights);
  account.blocks = engine.blocks_override.value_or(std::max<Bytes>(0, budget) / sizes.page / sizes.layers);
  account.kv = account.blocks * sizes.page * sizes.layers;
  account.tokens = account.blocks * engine.block_size;
  account.failure = start_failure(engine, account.weights + budget, free, account);
  account.wanted = std::min(engine.max_sequences, work.sequences);
  if (work.length > 0) account.at_once = account.blocks / ceil_div(work.length, engine.block_size);
  return account;
}

}  // namespace headroom::engine
