#include "simulator/engine/sglang.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulator/engine/coefficients.h"
#include "simulator/engine/communication.h"
#include "simulator/engine/graphs.h"
#include "simulator/engine/profile.h"

namespace headroom::engine {
namespace {

/// The table from requests to their tokens' slots: a row of the longest request (and four tokens) each, made
/// after the KV pool and outside the fraction.
Bytes request_table(const Engine& engine) {
  const std::int64_t length = engine.max_length > 0 ? engine.max_length : engine.model->decoder.max_positions;
  return bytes_of(DType::int32, engine.max_sequences * (length + 4));
}

std::optional<std::string> start_failure(const Engine& engine, Bytes static_bytes, Bytes free,
                                         const Account& account) {
  if (static_bytes - account.weights - account.growth <= 0)
    return fmt::format(
        "SGLang does not start: weights take {}, mem_fraction_static {} of the free {} is {}; free more of "
        "the GPU or "
        "raise it",
        format_gib(account.weights), engine.utilization, format_gib(std::max<Bytes>(0, free)),
        format_gib(std::max<Bytes>(0, static_bytes)));
  const Bytes rest = free - std::max(static_bytes, account.weights + account.kv);
  const Bytes needed = account.activation + account.graphs + account.workspaces;
  if (needed > rest)
    return fmt::format(
        "SGLang runs out of memory: {} is left beside weights and KV cache, activations and graphs take {}; "
        "lower "
        "mem_fraction_static",
        format_gib(std::max<Bytes>(0, rest)), format_gib(needed));
  return std::nullopt;
}

/// What layers with a state take before the KV cache: as much as `mamba_full_memory_ratio` (0.9, its default)
/// gives them beside it, in slots of one sequence each and one more. The radix cache keeps states too:
/// requests may use every third slot.
struct StatePool {
  Bytes bytes = 0;
  std::int64_t requests = 0;
};
StatePool state_pool(const ModelSizes& sizes, Bytes budget) {
  constexpr double kRatio = 0.9;
  constexpr std::int64_t kSlotsARequest = 3;
  const Bytes slot = sizes.state * sizes.state_layers;
  if (slot == 0) return {};
  const auto share = static_cast<Bytes>(static_cast<double>(budget) * (kRatio / (1 + kRatio)));
  const std::int64_t slots = std::max<std::int64_t>(0, (share - slot) / slot);
  return {.bytes = (slots + 1) * slot, .requests = slots / kSlotsARequest};
}

}  // namespace

Account sglang_account(const Engine& engine, const ModelSizes& sizes, const Host& host, const Work& work) {
  Account account;
  account.sleep_level = engine.sleep_level;
  account.context = host.context + host.cublas_handle;
  account.communicators = host.communicators.value_or(communicators_at_start(engine, sizes, host));
  account.weights = sizes.weights;
  const std::int64_t tokens = std::min(work.sequences * work.prompt, engine.max_batched_tokens);
  account.activation = activation_peak(engine, sizes, host, tokens, work.sequences) -
                       kept_workspaces(engine, sizes, host, tokens);
  account.profiled_activation = 0;                                // no profile decides the KV cache
  account.growth = host.shares_process ? 0 : host.first_kernels;  // loaded with the weights
  account.workspaces =
      kept_workspaces(engine, sizes, host, engine.max_batched_tokens) + request_table(engine);
  account.graphs = sglang_graphs(engine, sizes, host);
  account.leftover = kAsleepLeftover;
  const Bytes free = host.total - host.others - account.context - account.communicators;
  account.requested = static_cast<Bytes>(engine.utilization * static_cast<double>(free));
  // What loading took is told by free memory: kernels loaded meanwhile count as weights.
  const Bytes budget = engine.kv_bytes.value_or(account.requested - account.weights - account.growth);
  const StatePool states = state_pool(sizes, std::max<Bytes>(0, budget));
  const Bytes block = std::max<Bytes>(1, sizes.page * sizes.attention_layers);
  account.blocks = engine.blocks_override.value_or(std::max<Bytes>(0, budget - states.bytes) / block);
  account.kv = account.blocks * sizes.page * sizes.attention_layers + states.bytes;
  account.tokens = account.blocks * engine.block_size;
  account.failure = start_failure(engine, account.weights + account.growth + budget, free, account);
  account.wanted = std::min(engine.max_sequences, work.sequences);
  const auto held = [&](std::int64_t length) {
    const double kv =
        static_cast<double>(account.blocks) / static_cast<double>(ceil_div(length, engine.block_size));
    return states.bytes > 0 ? std::min(kv, static_cast<double>(states.requests)) : kv;
  };
  if (work.length > 0) account.at_once = static_cast<std::int64_t>(held(work.length));
  account.concurrency = held(engine.max_length > 0 ? engine.max_length : engine.model->decoder.max_positions);
  return account;
}

}  // namespace headroom::engine
