#include "planner/frameworks/nemo_rl/release.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace headroom::nemo_rl {
namespace {

/// A key that the files of a release and all later ones have. `whole`: the base file of that release has it,
/// so that its absence from a whole configuration tells an older one.
struct Clue {
  std::string_view key;
  Release since;
  bool whole;
};

constexpr std::array kClues = {
    Clue{"policy.sequence_packing", {0, 3, 0}, false},
    Clue{"policy.megatron_cfg", {0, 3, 0}, false},
    Clue{"policy.dtensor_cfg._v2", {0, 4, 0}, false},
    Clue{"policy.offload_optimizer_for_logprob", {0, 5, 0}, true},
    Clue{"policy.generation.vllm_cfg.kv_cache_dtype", {0, 5, 0}, false},
    Clue{"loss_fn.force_on_policy_ratio", {0, 5, 0}, false},
    Clue{"policy.dtensor_cfg.lora_cfg", {0, 5, 0}, false},
    Clue{"checkpointing.save_optimizer", {0, 6, 0}, true},
    Clue{"policy.draft", {0, 6, 0}, false},
    Clue{"grpo.adv_estimator", {0, 6, 0}, false},
    Clue{"policy.megatron_cfg.use_linear_ce_fusion_loss", {0, 7, 0}, false},
    Clue{"policy.megatron_cfg.use_fused_linear_logprobs", {0, 8, 0}, false},
    Clue{"policy.megatron_cfg.cuda_graph_impl", {0, 8, 0}, true},
    Clue{"policy.generation.refit_transport", {0, 8, 0}, false},
    Clue{"data_plane", {0, 8, 0}, false},
    Clue{"on_policy_distillation", {0, 8, 0}, false},
    Clue{"ppo", {0, 8, 0}, false},
};

/// Keys that went away with a release.
constexpr std::array kGone = {
    Clue{"policy.fsdp_offload_enabled", {0, 3, 0}, false},
    Clue{"policy.activation_checkpointing_enabled", {0, 3, 0}, false},
    Clue{"policy.generation.mcore_generation_config.unified_memory_level", {0, 7, 0}, false},
    Clue{"policy.megatron_cfg.use_linear_ce_fusion_loss", {0, 8, 0}, false},
};

struct Libraries {
  Release nemo;
  std::string_view torch, vllm;
};

constexpr std::array kReleases = {
    Libraries{{0, 2, 1}, "2.6.0", "0.8.4"},   Libraries{{0, 3, 1}, "2.7.0", "0.9.0"},
    Libraries{{0, 4, 0}, "2.7.1", "0.10.0"},  Libraries{{0, 5, 0}, "2.9.0", "0.11.2"},
    Libraries{{0, 6, 0}, "2.10.0", "0.17.1"}, Libraries{{0, 7, 0}, "2.11.0", "0.20.0"},
    Libraries{kHead, "2.11.0", "0.20.0"},
};

}  // namespace

InferredRelease infer_release(const Layers& layers) {
  Release oldest = kReleases.front().nemo, before = settings::kNever;
  std::string because;
  const auto tell = [&](std::string_view key) {
    because = fmt::format("{}{}{}", because, because.empty() ? "" : ", ", key);
  };
  for (const Clue& clue : kClues)
    if (clue.since > oldest && layers.given(clue.key)) oldest = clue.since, because.clear(), tell(clue.key);
  for (const Clue& clue : kGone)
    if (clue.since < before && layers.given(clue.key)) before = clue.since, tell(clue.key);
  const bool whole = layers.given("policy.dtensor_cfg") && layers.given("policy.megatron_cfg") &&
                     layers.given("policy.max_grad_norm") && layers.given("checkpointing.enabled");
  for (const Clue& clue : kClues)
    if (whole && clue.whole && clue.since < before && !layers.given(clue.key))
      before = clue.since, tell(fmt::format("no {}", clue.key));
  InferredRelease out{.release = oldest, .because = because};
  for (const Libraries& known : kReleases)
    if (known.nemo >= oldest && known.nemo < before) out.release = known.nemo;
  return out;
}

void complete_versions(const Release& release, Versions& versions) {
  const Libraries* found = &kReleases.front();
  for (const Libraries& known : kReleases)
    if (known.nemo <= release) found = &known;
  if (versions.framework.empty())
    versions.framework = release >= kHead ? "main" : to_string(release);
  if (versions.torch.empty()) versions.torch = found->torch;
  if (versions.vllm.empty()) versions.vllm = found->vllm;
}

}  // namespace headroom::nemo_rl
