#include "planner/frameworks/verl/megatron_knobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "planner/frameworks/verl/knob_keys.h"
#include "planner/frameworks/verl/knob_values.h"

namespace headroom::verl {
namespace {

const std::string kActor = "actor_rollout_ref.actor.megatron.";
const std::string kRef = "actor_rollout_ref.ref.megatron.";

bool megatron(const Settings& s) {
  return s.actor.strategy == Strategy::megatron;
}

/// Sets a field of the actor, and the reference's where that was the same.
template <typename Field>
bool set_both(Settings& s, Field Megatron::*field, const std::string& value) {
  const Field before = s.actor.megatron.*field;
  bool taken = false;
  if constexpr (std::is_same_v<Field, bool>)
    taken = set_flag(s.actor.megatron.*field, value);
  else
    taken = set_number(s.actor.megatron.*field, value);
  if (taken && s.ref.exists && s.ref.megatron.*field == before)
    s.ref.megatron.*field = s.actor.megatron.*field;
  return taken;
}

/// Sizes a GPU depend on the data-parallel ranks, so old global sizes are written out.
Keys layout_keys(const Settings& s, const char* key, std::int64_t actor, std::int64_t ref) {
  Keys keys{{kActor + key, word(actor)}};
  if (s.ref.exists) keys.push_back({kRef + key, word(ref)});
  if (!s.deprecated_micro.empty()) add_sizes(keys, s, false);
  return keys;
}

/// Ranks that divide a sequence between them, at least one data-parallel rank left.
Values context_sizes(const Settings& s) {
  const Megatron& m = s.actor.megatron;
  std::vector<std::int64_t> out = doublings(1, std::min<std::int64_t>(8, s.gpus() / (m.tensor * m.pipeline)));
  out.push_back(m.context);
  return words(out);
}

/// `full` is every layer on its own; other ways of a run keep their numbers.
std::string recompute_word(const Megatron& m) {
  if (m.recompute_granularity.empty()) return "none";
  if (m.recompute_granularity != "full") return m.recompute_granularity;
  const bool plain = m.recompute_method == "uniform" && m.recompute_layers <= 1;
  return plain ? "full" : fmt::format("full {} {}", m.recompute_method, m.recompute_layers);
}

bool set_recompute(Settings& s, const std::string& value) {
  Megatron& m = s.actor.megatron;
  if (value == recompute_word(m)) return true;
  const bool ref_follows = s.ref.exists && s.ref.strategy == Strategy::megatron &&
                           recompute_word(s.ref.megatron) == recompute_word(m);
  if (value != "none" && value != "selective" && value != "full") return false;
  m.recompute_granularity = value == "none" ? "" : value;
  m.recompute_method = value == "full" ? "uniform" : "";
  m.recompute_layers = value == "full" ? 1 : 0;
  if (ref_follows) {
    s.ref.megatron.recompute_granularity = m.recompute_granularity;
    s.ref.megatron.recompute_method = m.recompute_method;
    s.ref.megatron.recompute_layers = m.recompute_layers;
  }
  return true;
}

Keys recompute_keys(const Settings& s) {
  const Megatron& m = s.actor.megatron;
  const std::string at = kActor + "override_transformer_config.recompute_";
  const auto word_or_null = [](const std::string& text) { return text.empty() ? "null" : text; };
  return {{at + "granularity", word_or_null(m.recompute_granularity)},
          {at + "method", word_or_null(m.recompute_method)},
          {at + "num_layers", m.recompute_layers > 0 ? word(m.recompute_layers) : "null"}};
}

// clang-format off
const KnobRow kRows[] = {
    {"tensor_parallel", "GPUs that share each of the actor's layers in training", false, megatron,
     [](const Settings& s) { return word(s.actor.megatron.tensor); },
     [](const Settings& s) { return head_groups(s, s.gpus_per_node, s.actor.megatron.tensor); },
     [](Settings& s, const std::string& v) { return set_both(s, &Megatron::tensor, v); },
     [](const Settings& s) { return layout_keys(s, "tensor_model_parallel_size", s.actor.megatron.tensor, s.ref.megatron.tensor); }, {}, settings::layout()},
    {"pipeline_parallel", "stages that the actor's layers are spread over", false, megatron,
     [](const Settings& s) { return word(s.actor.megatron.pipeline); }, stage_counts,
     [](Settings& s, const std::string& v) { return set_both(s, &Megatron::pipeline, v); },
     [](const Settings& s) { return layout_keys(s, "pipeline_model_parallel_size", s.actor.megatron.pipeline, s.ref.megatron.pipeline); }, {}, settings::layout()},
    {"context_parallel", "GPUs that share each sequence in training", false, megatron,
     [](const Settings& s) { return word(s.actor.megatron.context); }, context_sizes,
     [](Settings& s, const std::string& v) { return set_both(s, &Megatron::context, v); },
     [](const Settings& s) { return layout_keys(s, "context_parallel_size", s.actor.megatron.context, s.ref.megatron.context); }, {}, settings::layout()},
    {"sequence_parallel", "tensor-parallel GPUs share the tokens outside their products, too", false, megatron,
     [](const Settings& s) { return word(s.actor.megatron.sequence_parallel); }, [](const Settings&) { return kFlags; },
     [](Settings& s, const std::string& v) { return set_both(s, &Megatron::sequence_parallel, v); },
     [](const Settings& s) {
       Keys keys{{kActor + "sequence_parallel", word(s.actor.megatron.sequence_parallel)}};
       if (s.ref.exists) keys.push_back({kRef + "sequence_parallel", word(s.ref.megatron.sequence_parallel)});
       return keys;
     }, {}, settings::passes()},
    {"distributed_optimizer", "optimizer states are spread over the data-parallel GPUs", false, megatron,
     [](const Settings& s) { return word(s.actor.megatron.distributed_optimizer); }, [](const Settings&) { return kFlags; },
     [](Settings& s, const std::string& v) { return set_flag(s.actor.megatron.distributed_optimizer, v); },
     [](const Settings& s) { return Keys{{kActor + "use_distributed_optimizer", word(s.actor.megatron.distributed_optimizer)}}; }, {}, settings::layout()},
    {"recompute", "what the actor's layers recompute in the backward: nothing, the modules named, everything", false, megatron,
     [](const Settings& s) { return recompute_word(s.actor.megatron); },
     [](const Settings& s) {
       Values out{"none", "selective", "full"};
       if (const std::string now = recompute_word(s.actor.megatron); std::find(out.begin(), out.end(), now) == out.end()) out.push_back(now);
       return out;
     },
     set_recompute, recompute_keys, {}, settings::recomputation()},
};
// clang-format on

}  // namespace

std::span<const KnobRow> megatron_knobs() {
  return kRows;
}

}  // namespace headroom::verl
