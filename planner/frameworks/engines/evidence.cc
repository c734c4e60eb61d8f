#include "planner/frameworks/engines/evidence.h"

namespace headroom::engines {
namespace {

/// Of the releases whose logs print every figure.
constexpr Version kFirstLogged{0, 6, 5}, kAfterLogged{0, 20, 0};

Evidence of_vllm_growth(const Engine& engine, const EngineReport& start) {
  if (engine.tensor == 1)
    return {"non-torch growth", start.non_torch, Standing::recorded, "logs of one GPU and of pipelines on H100"};
  if (engine.allreduce_workspaces)
    return {"non-torch growth", start.non_torch, Standing::inferred,
            "logs of 0.19 on two and four H100; that the fabric rounds to 512 MiB fits them, and was not queried"};
  return {"non-torch growth", start.non_torch, Standing::recorded,
          "logs of two H100: cuBLAS and one communicator"};
}

std::vector<Evidence> of_vllm(const Engine& engine, const EngineReport& start) {
  const Version release = parse_version(engine.release).value_or(kAfterLogged);
  const bool logged = release >= kFirstLogged && release < kAfterLogged;
  const Standing shown = logged ? Standing::recorded : Standing::inferred;
  const std::string newer = "logs of 0.6 to 0.19, carried on to this release";
  return {
      {"context and communicators", start.before, Standing::recorded,
       "measured on H100 and H200; logs of 0.19 by tensor ranks, stages and experts"},
      {"weights", start.weights, Standing::recorded, "the model's tensors, and the buffers that logs show"},
      {"activation peak", start.activation_peak, shown,
       logged ? "logs of this line: sampler's copies, a layer's tensors, kept workspaces" : newer},
      of_vllm_growth(engine, start),
      {"KV cache", start.kv_cache, shown, "what the figures above leave of the share; bytes a token as logs print"},
      {"graphs", start.graphs, shown, logged ? "logs of 8 to 80 layers on H100" : newer},
      {"asleep", start.asleep, engine.tensor == 1 ? Standing::recorded : Standing::inferred,
       engine.tensor == 1 ? "device memory beside sleeping engines on A100 and L4"
                          : "the sum of what nothing frees; no log shows it"},
  };
}

std::vector<Evidence> of_sglang(const EngineReport& start) {
  return {
      {"context and communicators", start.before, Standing::recorded, "free memory in logs on H100 and H200"},
      {"weights", start.weights, Standing::recorded, "the model's tensors; free memory before and after loading"},
      {"KV cache", start.kv_cache, Standing::recorded, "four logs: free memory less the share that is left"},
      {"graphs", start.graphs, Standing::recorded, "logs of 3, 4 and 52 sizes"},
      {"asleep", start.asleep, Standing::inferred, "the sum of what nothing frees; no log shows it"},
  };
}

}  // namespace

std::string_view word(Standing standing) {
  switch (standing) {
    case Standing::recorded:
      return "recorded";
    case Standing::read:
      return "read in source";
    case Standing::inferred:
      return "inferred";
  }
  return "";
}

std::vector<Evidence> evidence(const Engine& engine, const EngineReport& start) {
  if (engine.kind == EngineKind::vllm) return of_vllm(engine, start);
  if (engine.kind == EngineKind::sglang) return of_sglang(start);
  return {};
}

}  // namespace headroom::engines
