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
  out[Component::engine_other] = account.growth + account.workspaces;
  if (state == Residency::asleep || state == Residency::weights_only)
    out[Component::engine_other] += account.leftover;
  if (state == Residency::asleep) out[Component::engine_other] -= account.sleeping_workspaces;
  if (state != Residency::asleep || account.keeps_weights) out[Component::engine_weights] = account.weights;
  if (state == Residency::awake) {
    out[Component::engine_kv] = account.kv;
    out[Component::engine_other] += account.activation;
  }
  if (state == Residency::starting) {
    // The profile runs before there is a KV cache or a graph; then those come and its activations are gone.
    if (account.profiled_activation > account.kv + account.graphs) {
      out[Component::engine_graphs] = 0;
      out[Component::engine_other] = account.growth + account.profiled_activation;
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

Host host_of(const Hardware& hardware) {
  Host host;
  host.total = hardware.total_memory;
  host.context = hardware.context;
  host.cublas_handle = hardware.cublas_handle;
  host.cublas_workspace = hardware.cublas_workspace;
  host.first_kernels = hardware.kernels.first;
  host.graph_kernel = hardware.graph_kernel;
  host.multicast = hardware.links.multicast;
  host.multiprocessors = hardware.multiprocessors;
  host.capability = hardware.capability;
  host.nccl = hardware.nccl;
  return host;
}

Result<Account> account(const Engine& engine, const Host& host, const Work& work, const Stage& stage) {
  HEADROOM_ASSIGN(const ModelSizes sizes, model_sizes(engine, stage));
  Account out = engine.kind == EngineKind::sglang ? sglang_account(engine, sizes, host, work)
                                                  : vllm_account(engine, sizes, host, work);
  out.keeps_weights = engine.sleep_keeps_weights;
  return out;
}

Result<Account> account(const Engine& engine, const Host& host, const Work& work) {
  std::optional<Account> fullest;
  for (std::int64_t i = 0; i < engine.pipeline; ++i) {
    HEADROOM_ASSIGN(Account stage, account(engine, host, work, Stage{i, engine.pipeline}));
    if (!fullest || stage.blocks <= fullest->blocks) fullest = std::move(stage);
  }
  return *fullest;
}

}  // namespace headroom::engine
