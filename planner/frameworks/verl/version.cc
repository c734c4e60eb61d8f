#include "planner/frameworks/verl/version.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace headroom::verl {
namespace {

/// `key` (with `value` as its text, when given) stands in releases from `since` up to, not including,
/// `until`.
struct Clue {
  std::string_view key;
  std::string_view value;
  Version since, until;
};

constexpr std::array kClues = {
    Clue{"trainer.use_v1", "", {0, 9, 0}, kNever},
    Clue{"trainer.v1", "", {0, 9, 0}, kNever},
    Clue{"reward.reward_model.enable", "", {0, 7, 1}, kNever},
    Clue{"reward.reward_model.model_path", "", {0, 7, 1}, kNever},
    Clue{"reward.num_workers", "", {0, 7, 1}, kNever},
    Clue{"reward_model.enable", "", kOldest, {0, 7, 1}},
    Clue{"reward_model.model.path", "", kOldest, {0, 7, 1}},
    Clue{"reward_model.reward_manager", "", kOldest, {0, 7, 1}},
    Clue{"critic.fsdp", "", {0, 8, 0}, kNever},
    Clue{"critic.model.fsdp_config", "", kOldest, {0, 8, 0}},
    Clue{"trainer.use_legacy_worker_impl", "", {0, 5, 0}, {0, 8, 0}},
    Clue{"actor_rollout_ref.rollout.update_weights_bucket_megabytes", "", {0, 5, 0}, {0, 7, 1}},
    Clue{"actor_rollout_ref.rollout.checkpoint_engine", "", {0, 7, 1}, kNever},
    Clue{"actor_rollout_ref.rollout.load_format", "dummy_dtensor", kOldest, {0, 6, 0}},
    Clue{"actor_rollout_ref.rollout.load_format", "dummy_megatron", kOldest, {0, 6, 0}},
    Clue{"actor_rollout_ref.rollout.load_format", "dummy_hf", kOldest, {0, 6, 0}},
    Clue{"actor_rollout_ref.rollout.mode", "sync", kOldest, {0, 7, 0}},
    Clue{"actor_rollout_ref.rollout.nnodes", "", {0, 7, 0}, kNever},
    Clue{"actor_rollout_ref.rollout.logprobs_mode", "", {0, 7, 0}, kNever},
    Clue{"actor_rollout_ref.actor.fsdp_config.model_dtype", "", {0, 6, 0}, kNever},
    Clue{"actor_rollout_ref.actor.fsdp_config.grad_offload", "", kOldest, {0, 4, 0}},
    Clue{"actor_rollout_ref.actor.checkpoint.contents", "", kOldest, {0, 5, 0}},
    Clue{"actor_rollout_ref.actor.ppo_micro_batch_size", "", kOldest, {0, 8, 0}},
    Clue{"critic.ppo_micro_batch_size", "", kOldest, {0, 8, 0}},
    Clue{"actor_rollout_ref.rollout.layered_summon", "", {0, 4, 0}, kNever},
    Clue{"actor_rollout_ref.actor.calculate_sum_pi_squared", "", {0, 8, 0}, kNever},
    Clue{"actor_rollout_ref.model.tiled_mlp", "", {0, 7, 0}, kNever},
    Clue{"actor_rollout_ref.model.mtp", "", {0, 8, 0}, kNever},
    Clue{"distillation", "", {0, 8, 0}, kNever},
    Clue{"trainer.val_generations_to_log_to_wandb", "", kOldest, {0, 4, 0}},
    Clue{"ray_init", "", kOldest, {0, 6, 0}},
    Clue{"ray_kwargs", "", {0, 6, 0}, kNever},
    Clue{"model_engine", "", {0, 8, 0}, kNever},
};

/// The releases, oldest first, each with the libraries of its published container image.
struct Release {
  Version verl;
  std::string_view torch, vllm, sglang, transformers;
};

constexpr std::array kReleases = {
    Release{{0, 3, 0}, "2.6.0", "0.8.3", "0.4.6", "4.51.0"},
    Release{{0, 4, 0}, "2.6.0", "0.8.5", "0.4.6", "4.51.0"},
    Release{{0, 5, 0}, "2.7.1", "0.10.0", "0.4.10", "4.55.4"},
    Release{{0, 6, 0}, "2.8.0", "0.11.0", "0.5.2", "4.56.0"},
    Release{{0, 7, 0}, "2.9.0", "0.12.0", "0.5.6", "4.57.0"},
    Release{{0, 7, 1}, "2.10.0", "0.17.0", "0.5.9", "5.2.0"},
    Release{{0, 8, 0}, "2.10.0", "0.18.0", "0.5.9", "5.3.0"},
    Release{{0, 9, 0}, "2.11.0", "0.24.0", "0.5.12", "5.10.0"},
};

bool matches(const Layers& layers, const Clue& clue) {
  const auto found = layers.get(clue.key);
  if (!found || !*found || !(*found)->given || (*found)->value.is_null()) return false;
  return clue.value.empty() || (*found)->value.text() == clue.value;
}

}  // namespace

InferredVersion infer_version(const Layers& layers, const std::string& vllm) {
  InferredVersion out;
  Version since = kOldest, until = kNever;
  std::string_view since_key, until_key;
  for (const Clue& clue : kClues) {
    if (!matches(layers, clue)) continue;
    if (clue.since > since) {
      since = clue.since;
      since_key = clue.key;
    }
    if (clue.until < until) {
      until = clue.until;
      until_key = clue.key;
    }
  }
  if (since >= until) {
    Notice notice{.file = {}, .line = 0, .key = std::string(until_key), .message = {}};
    layers.locate(until_key, notice.file, notice.line);
    notice.message = fmt::format(
        "is a key of verl before {}, but {} is one of {} and later; read as the later one "
        "(headroom.versions.verl says which)",
        to_string(until), since_key, to_string(since));
    out.conflicts.push_back(std::move(notice));
    until = kNever;
  }
  const auto given = parse_version(vllm);
  if (since == kOldest && until == kNever && !given) return out;
  // The newest release that the keys allow and whose image is no newer than the vLLM that the user runs; the
  // oldest that they allow when every image is newer.
  bool found = false;
  for (const Release& release : kReleases) {
    if (release.verl < since || release.verl >= until) continue;
    if (found && given && *parse_version(release.vllm) > *given) break;
    out.version = release.verl;
    found = true;
  }
  if (given) out.because = fmt::format("vLLM {}", vllm);
  const auto because = [&](std::string_view key, std::string_view word, const Version& version) {
    if (!out.because.empty()) out.because += ", ";
    out.because += fmt::format("{} is there {} {}", key, word, to_string(version));
  };
  if (!since_key.empty()) because(since_key, "since", since);
  if (!until_key.empty() && until != kNever) because(until_key, "until", until);
  return out;
}

void complete_versions(const Version& verl, Versions& versions) {
  const Release* shipped = &kReleases.front();
  for (const Release& release : kReleases)
    if (release.verl <= verl) shipped = &release;
  const auto complete = [](std::string& version, std::string_view known) {
    if (version.empty()) version = known;
  };
  complete(versions.framework, to_string(verl));
  complete(versions.torch, shipped->torch);
  complete(versions.vllm, shipped->vllm);
  complete(versions.sglang, shipped->sglang);
  complete(versions.transformers, shipped->transformers);
}

}  // namespace headroom::verl
