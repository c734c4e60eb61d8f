#include "planner/frameworks/nemo_rl/adapters.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace headroom::nemo_rl {
namespace {

/// `*` stands for any run of characters.
bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, resumed = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resumed = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resumed;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool any_matches(const std::vector<std::string>& patterns, std::string_view name) {
  const std::string_view leaf = name.substr(name.rfind('.') + 1);
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return pattern == leaf || matches(pattern, name);
  });
}

}  // namespace

std::vector<std::string> adapter_targets(const Lora& lora, const Architecture& model) {
  if (lora.all_linear) return {"all-linear"};
  const bool excludes = lora.targets.empty() && !lora.excluded.empty();
  const std::vector<std::string> targets = lora.targets.empty() ? std::vector<std::string>{"*_proj"} : lora.targets;
  // By the last part of the name: whether some of its modules are meant.
  std::map<std::string, bool, std::less<>> meant;
  for (const Tensor& tensor : model.tensors) {
    if (tensor.role != TensorRole::linear || tensor.expert != -1 || tensor.place == Place::head) continue;
    if (!tensor.name.ends_with(".weight")) continue;
    const std::string_view module = std::string_view(tensor.name).substr(0, tensor.name.rfind('.'));
    const bool is_meant = excludes ? !any_matches(lora.excluded, module) : any_matches(targets, module);
    bool& of_name = meant[std::string(module.substr(module.rfind('.') + 1))];
    of_name = of_name || is_meant;
  }
  std::vector<std::string> out;
  for (const auto& [leaf, is_meant] : meant)
    if (is_meant) out.push_back(leaf);
  return out.empty() ? targets : out;  // matching nothing is an error there
}

}  // namespace headroom::nemo_rl
