#include "simulator/memory/component.h"

namespace headroom {
namespace {

constexpr std::array<std::string_view, kComponents> kNames = {
    "weights",        "gradients",       "master_weights", "optimizer",     "activations",
    "logits",         "kv_cache",        "temporaries",    "communication", "gathered_parameters",
    "staging",        "allocator_slack", "context",        "communicators", "workspaces",
    "engine_weights", "engine_kv",       "engine_graphs",  "engine_other",  "other",
};

}  // namespace

std::string_view name(Component component) {
  return kNames[static_cast<std::size_t>(component)];
}

std::optional<Component> parse_component(std::string_view text) {
  for (std::size_t i = 0; i < kComponents; ++i)
    if (kNames[i] == text) return static_cast<Component>(i);
  return std::nullopt;
}

}  // namespace headroom
