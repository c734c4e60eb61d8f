#include "planner/cli/gate/blame.h"

#include <algorithm>
#include <cctype>
#include <span>
#include <string_view>
#include <vector>

#include "simulator/device/verdict.h"

namespace headroom::cli {
namespace {

using Words = std::span<const std::string_view>;

/// Parts of keys' names that set what a component's size hangs on, the most telling first. Frameworks differ in
/// their keys and agree in these words.
Words words_of(Component component) {
  static constexpr std::string_view kEngine[] = {"gpu_memory_utilization", "mem_fraction", "gpu_memory", "tensor_model_parallel",
                                    "tensor_parallel"};
  static constexpr std::string_view kBatch[] = {"max_token_len",     "micro_batch", "token_budget", "per_device_train_batch",
                                   "train_micro_batch", "sequences",   "batch",        "response"};
  static constexpr std::string_view kStates[] = {"offload", "zero_stage", "fsdp_size", "strategy", "sharding", "n_gpus_per_node",
                                    "gpus", "path", "model"};
  switch (component) {
    case Component::engine_weights:
    case Component::engine_kv:
    case Component::engine_graphs:
    case Component::engine_other:
      return kEngine;
    case Component::activations:
    case Component::logits:
    case Component::temporaries:
    case Component::kv_cache:
    case Component::allocator_slack:
      return kBatch;
    default:
      return kStates;
  }
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::vector<Component> largest_first(const Breakdown& breakdown) {
  std::vector<Component> order;
  for (std::size_t i = 0; i < kComponents; ++i)
    if (breakdown.bytes[i] > 0) order.push_back(static_cast<Component>(i));
  std::stable_sort(order.begin(), order.end(),
                   [&](Component a, Component b) { return breakdown[a] > breakdown[b]; });
  return order;
}

}  // namespace

KeyPlace key_to_blame(const ReadJob& read, const Report& report) {
  KeyPlace place{read.input.files.empty() ? "" : read.input.files.back().path, 1, {}};
  for (const std::string& why : undetermined(report))
    for (const KeyUse& use : read.keys)
      if (use.line > 0 && !use.key.empty() && why.starts_with("not modelled: " + use.key))
        return {use.file, use.line, use.key};
  const PeakPlace peak = highest(report);
  if (peak.phase == nullptr) return place;
  for (const Component component : largest_first(peak.phase->at_peak_device))
    for (const std::string_view word : words_of(component))
      for (const KeyUse& use : read.keys)
        if (use.state == KeyUse::State::used && use.line > 0 && !use.file.empty() &&
            lower(use.key).find(word) != std::string::npos)
          return {use.file, use.line, use.key};
  return place;
}

}  // namespace headroom::cli
