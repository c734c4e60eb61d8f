#include "planner/cli/role_evidence.h"

#include <algorithm>

namespace headroom::cli {
namespace {

using engines::Standing;

constexpr auto kRecorded = Standing::recorded;
constexpr auto kRead = Standing::read;
constexpr auto kInferred = Standing::inferred;

bool local(const Role& r) { return r.megatron.layers == MegatronLayers::local; }
bool latent(const Role& r) { return r.model->decoder.attention().kind == AttentionKind::latent; }
bool mixture(const Role& r) {
  const auto& groups = r.model->decoder.groups;
  return std::any_of(groups.begin(), groups.end(),
                     [](const LayerGroup& group) { return group.layer.mlp.kind == MlpKind::experts; });
}
bool with_states(const Role& r) {
  const auto& groups = r.model->decoder.groups;
  return std::any_of(groups.begin(), groups.end(),
                     [](const LayerGroup& group) { return group.layer.state.heads > 0; });
}
bool recomputes(const Role& r) { return r.recompute.kind != RecomputeKind::none; }

/// A part of Megatron-Core, whether a role uses it, and how it is known: one row of docs/MEGATRON.md.
struct Part {
  const char* component;
  bool (*used)(const Role&);
  Standing standing;
  const char* because;
};

constexpr const char* kOwn = "39 runs on one and two H200";

constexpr Part kParts[] = {
    {"Megatron's own layers", [](const Role& r) { return local(r); }, kRecorded, kOwn},
    {"TransformerEngine's layers", [](const Role& r) { return !local(r); }, kRead,
     "their code; sums agree with peaks measured by others on B200, within 2 %"},
    {"parameter and gradient buffers", [](const Role& r) { return r.trained; }, kRecorded, kOwn},
    {"masters and moments", [](const Role& r) { return r.trained && !r.megatron.precision_aware; }, kRecorded, kOwn},
    {"states of the precision-aware optimizer", [](const Role& r) { return r.megatron.precision_aware; }, kRead,
     "its code"},
    {"pipeline schedule", [](const Role& r) { return r.parallel.pipeline > 1; }, kRecorded,
     "two stages on two H200, with and without virtual ones; more stages follow the schedule's code"},
    {"tensor and sequence parallelism", [](const Role& r) { return r.parallel.tensor > 1; }, kRecorded,
     "two ranks on two H200"},
    {"recomputation", [](const Role& r) { return recomputes(r) && local(r); }, kRecorded, kOwn},
    {"recomputation", [](const Role& r) { return recomputes(r) && !local(r); }, kRead, "the schedule's code"},
    {"exchange of heads between context ranks",
     [](const Role& r) { return r.parallel.context > 1 && r.megatron.context_all_to_all; }, kRecorded,
     "sums of peaks measured by others on B200"},
    {"ring between context ranks",
     [](const Role& r) { return r.parallel.context > 1 && !r.megatron.context_all_to_all; }, kInferred,
     "buffers of two steps of the ring"},
    {"packed sequences between context ranks", [](const Role& r) { return r.parallel.context > 1 && r.packed; },
     kInferred, "each sequence is cut as a whole one"},
    {"latent attention", [](const Role& r) { return latent(r) && local(r); }, kInferred,
     "as TransformerEngine's, over torch products"},
    {"latent attention", [](const Role& r) { return latent(r) && !local(r); }, kRead,
     "its code; sums agree with peaks measured by others on B200"},
    {"layers with a state", with_states, kInferred, "what their operations keep; no run is recorded"},
    {"experts, tokens by all-to-all",
     [](const Role& r) { return mixture(r) && r.megatron.dispatcher == MegatronDispatcher::all_to_all; }, kRecorded,
     "one and two H200; tokens a rank gets go by the stated imbalance"},
    {"experts, tokens by all-gather",
     [](const Role& r) { return mixture(r) && r.megatron.dispatcher == MegatronDispatcher::all_gather; }, kRead,
     "the dispatcher's code"},
    {"experts, tokens by DeepEP or HybridEP",
     [](const Role& r) { return mixture(r) && r.megatron.dispatcher == MegatronDispatcher::flex; }, kRead,
     "the dispatcher's code; the library's own buffers are not counted"},
    {"products in FP8", [](const Role& r) { return r.megatron.fp8; }, kRead, "TransformerEngine's code"},
    {"weights kept in FP8", [](const Role& r) { return r.megatron.fp8_parameters; }, kRead, "TransformerEngine's code"},
    {"multi-token prediction", [](const Role& r) { return r.megatron.mtp_layers > 0; }, kRead, "Megatron-Core's code"},
    {"adapters", [](const Role& r) { return r.lora.has_value(); }, kRead, "Megatron-Bridge's code"},
};

/// A profile's own words for a section tell a measured card ("measured") from one that follows another ("as measured
/// on", "estimated", "assumed").
Standing standing_of(const std::string& source) {
  if (source.find("estimated") != std::string::npos || source.find("assumed") != std::string::npos) return kInferred;
  for (std::size_t at = source.find("measured"); at != std::string::npos; at = source.find("measured", at + 1))
    if (at < 3 || source.compare(at - 3, 3, "as ") != 0) return kRecorded;
  return kInferred;
}

}  // namespace

std::vector<RoleEvidence> role_evidence(const Role& role) {
  if (role.sharding.kind != ShardingKind::megatron || role.model == nullptr) return {};
  std::vector<RoleEvidence> out;
  for (const Part& part : kParts)
    if (part.used(role)) out.push_back({part.component, part.standing, part.because});
  return out;
}

std::vector<RoleEvidence> process_evidence(const Hardware& hardware) {
  std::vector<RoleEvidence> out;
  for (const auto& [section, component] :
       {std::pair{"process", "context and library handles"}, std::pair{"nccl", "communicators"}}) {
    const auto source = hardware.sources.find(section);
    const std::string because = source == hardware.sources.end() ? "no source is stated" : source->second;
    out.push_back({component, standing_of(because), because});
  }
  return out;
}

}  // namespace headroom::cli
