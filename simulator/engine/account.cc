#include "simulator/engine/account.h"

#include <algorithm>

#include "simulator/engine/sglang.h"
#include "simulator/engine/vllm.h"

namespace headroom::engine {

Breakdown resident(const Account& account, Residency state) {
  Breakdown out;
  if (state == Residency::absent) return out;
  if (state == Residency::asleep && account.sleep_level == 0) state = Residency::awake;
  out[Component::context] = account.context;
  out[Component::communicators] = account.communicators;
  out[Component::engine_graphs] = account.graphs;
  out[Component::engine_other] = account.growth;
  if (state == Residency::asleep || state == Residency::weights_only)
    out[Component::engine_other] += account.leftover;
  if (state != Residency::asleep || account.keeps_weights) out[Component::engine_weights] = account.weights;
  if (state == Residency::awake) {
    out[Component::engine_kv] = account.kv;
    out[Component::engine_other] += account.activation;
  }
  if (state == Residency::starting) {
    // The profile runs before there is a KV cache or a graph; then those come and its activations are gone.
    if (account.profiled_activation > account.kv + account.graphs) {
      out[Component::engine_graphs] = 0;
      out[Component::engine_other] += account.profiled_activation;
    } else {
      out[Component::engine_kv] = account.kv;
    }
  }
  return out;
}

Bytes host_resident(const Account& account, Residency state) {
  return state == Residency::asleep && account.sleep_level == 1 && !account.keeps_weights ? account.weights
                                                                                          : 0;
}

Bytes forward_peak(const ModelSizes& sizes, std::int64_t tensor, std::int64_t tokens) {
  constexpr std::int64_t kHiddenCopies = 2;  // hidden state and residual
  constexpr std::int64_t kMlpCopies = 3;     // gate, up and their product
  const std::int64_t dense = kMlpCopies * ceil_div(sizes.mlp_hidden, tensor) + kHiddenCopies * sizes.hidden;
  const std::int64_t experts =
      sizes.experts_per_token * (2 * ceil_div(sizes.expert_hidden, tensor) + sizes.hidden);
  return bytes_of(DType::bf16, tokens * (dense + experts));
}

Bytes sampler_peak(const Engine& engine, const ModelSizes& sizes, std::int64_t rows) {
  const double copies = engine.sampler_rows_factor + (engine.processed_logprobs ? 1 : 0);
  return static_cast<Bytes>(copies * static_cast<double>(bytes_of(DType::fp32, rows * sizes.vocabulary)));
}

std::vector<std::int64_t> capture_sizes(const Engine& engine) {
  if (!engine.graphs) return {};
  const std::int64_t most =
      std::min(std::min<std::int64_t>(2 * engine.max_sequences, 512), engine.max_batched_tokens);
  std::vector<std::int64_t> sizes = engine.capture_sizes;
  if (sizes.empty()) {
    sizes = {1, 2, 4};
    for (std::int64_t size = 8; size < 256; size += 8) sizes.push_back(size);
    for (std::int64_t size = 256; size <= 512; size += 16) sizes.push_back(size);
    std::erase_if(sizes, [most](std::int64_t size) { return size > most; });
  }
  return sizes;
}

Result<Account> account(const Engine& engine, const Host& host, const Work& work) {
  HEADROOM_ASSIGN(const ModelSizes sizes, model_sizes(engine));
  Account out = engine.kind == EngineKind::sglang ? sglang_account(engine, sizes, host, work)
                                                  : vllm_account(engine, sizes, host, work);
  out.keeps_weights = engine.sleep_keeps_weights;
  return out;
}

}  // namespace headroom::engine
