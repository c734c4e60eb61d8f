#include "planner/frameworks/trl/release.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace headroom::trl {
namespace {

/// vLLM as TRL's own requirements have it (the newest one allowed), the others of the same days.
struct Libraries {
  Release trl;
  std::string_view torch, transformers, vllm, deepspeed;
};
constexpr std::array kReleases = {
    Libraries{{0, 12, 2}, "2.5.1", "4.46.3", "0.6.4", "0.15.4"},
    Libraries{{0, 13, 0}, "2.5.1", "4.47.1", "0.6.5", "0.16.2"},
    Libraries{{0, 14, 0}, "2.5.1", "4.48.2", "0.7.0", "0.16.3"},
    Libraries{{0, 15, 2}, "2.6.0", "4.49.0", "0.7.3", "0.16.4"},
    Libraries{{0, 16, 1}, "2.6.0", "4.50.3", "0.8.2", "0.16.5"},
    Libraries{{0, 17, 0}, "2.6.0", "4.51.3", "0.8.4", "0.16.7"},
    Libraries{{0, 18, 2}, "2.7.0", "4.52.4", "0.9.0", "0.17.0"},
    Libraries{{0, 19, 1}, "2.7.0", "4.53.0", "0.9.1", "0.17.1"},
    Libraries{{0, 20, 0}, "2.7.1", "4.54.1", "0.10.0", "0.17.4"},
    Libraries{{0, 21, 0}, "2.7.1", "4.55.0", "0.10.0", "0.17.5"},
    Libraries{{0, 22, 2}, "2.8.0", "4.56.0", "0.10.1", "0.17.5"},
    Libraries{{0, 23, 1}, "2.8.0", "4.56.2", "0.10.2", "0.17.6"},
    Libraries{{0, 24, 0}, "2.8.0", "4.57.1", "0.10.2", "0.18.1"},
    Libraries{{0, 25, 1}, "2.8.0", "4.57.1", "0.10.2", "0.18.2"},
    Libraries{{0, 26, 2}, "2.9.0", "4.57.3", "0.11.2", "0.18.3"},
    Libraries{{0, 27, 2}, "2.9.1", "4.57.6", "0.12.0", "0.18.4"},
    Libraries{{0, 28, 0}, "2.9.1", "4.57.6", "0.12.0", "0.18.5"},
    Libraries{{0, 29, 1}, "2.9.1", "4.57.6", "0.12.0", "0.18.7"},
    Libraries{{1, 0, 0}, "2.10.0", "4.57.6", "0.17.1", "0.18.8"},
    Libraries{{1, 1, 0}, "2.10.0", "4.57.6", "0.17.1", "0.18.8"},
    Libraries{{1, 2, 0}, "2.10.0", "5.5.0", "0.18.0", "0.18.9"},
    Libraries{{1, 5, 1}, "2.11.0", "5.8.0", "0.18.0", "0.18.9"},
    Libraries{{1, 6, 0}, "2.11.0", "5.11.0", "0.19.0", "0.19.0"},
    Libraries{{1, 7, 1}, "2.11.0", "5.13.0", "0.23.0", "0.19.0"},
    Libraries{{1, 8, 0}, "2.11.0", "5.15.0", "0.23.0", "0.19.0"},
    Libraries{kHead, "2.11.0", "5.17.0", "0.24.0", "0.19.0"},
};

/// The releases that have the key, over all its rows.
struct Span {
  Release since = settings::kNever, until = settings::kFirst;
};
Span span_of(std::span<const settings::Key> keys, const std::string& path) {
  Span out;
  for (const settings::Key& key : keys) {
    if (key.path != path) continue;
    out.since = std::min(out.since, key.since);
    out.until = std::max(out.until, key.until);
  }
  return out;
}

}  // namespace

InferredRelease infer_release(const Layers& layers, std::span<const settings::Key> keys) {
  InferredRelease out{.release = kHead, .because = {}};
  Release oldest = settings::kFirst, before = settings::kNever;
  for (const Layers::Leaf& leaf : layers.given_leaves()) {
    const Span has = span_of(keys, leaf.key);
    if (has.until <= has.since) continue;
    // A key that came later than another one went stays a warning.
    const bool newer = has.since > oldest && has.since < before,
               older = has.until < before && has.until > oldest;
    if (newer) oldest = has.since;
    if (older) before = has.until;
    if (newer || older) out.because += (out.because.empty() ? "" : ", ") + leaf.key;
  }
  for (const Libraries& known : kReleases)
    if (known.trl >= oldest && known.trl < before) out.release = known.trl;
  if (out.release < before) return out;
  for (const Libraries& known : kReleases)
    if (known.trl < before) out.release = known.trl;
  return out;
}

void complete_versions(const Release& release, Versions& versions) {
  const Libraries* found = &kReleases.front();
  for (const Libraries& known : kReleases)
    if (known.trl <= release) found = &known;
  if (versions.framework.empty()) versions.framework = to_string(release);
  if (versions.torch.empty()) versions.torch = found->torch;
  if (versions.transformers.empty()) versions.transformers = found->transformers;
  if (versions.vllm.empty()) versions.vllm = found->vllm;
  if (versions.deepspeed.empty()) versions.deepspeed = found->deepspeed;
}

}  // namespace headroom::trl
