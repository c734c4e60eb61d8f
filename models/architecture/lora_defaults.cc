#include "models/architecture/lora_defaults.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace headroom {
namespace {

std::vector<std::string> default_targets(std::string_view family) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kFused = {{
      {"gpt2", "c_attn"},
      {"gpt_neox", "query_key_value"},
      {"bloom", "query_key_value"},
      {"falcon", "query_key_value"},
      {"baichuan", "W_pack"},
      {"phi3", "qkv_proj"},
      {"internlm2", "wqkv"},
      {"deepseek_v2", ""},
  }};
  static constexpr std::array<std::string_view, 16> kQueryValue = {
      "stablelm",  "opt",   "gptj",   "llama",       "mistral",    "mixtral", "qwen2", "qwen3",
      "qwen2_moe", "gemma", "gemma2", "gemma3_text", "starcoder2", "cohere",  "olmo2", "granite"};
  if (family == "phi") return {"q_proj", "v_proj", "fc1", "fc2"};
  for (const auto& [name, target] : kFused)
    if (name == family && !target.empty()) return {std::string(target)};
  if (std::find(kQueryValue.begin(), kQueryValue.end(), family) != kQueryValue.end())
    return {"q_proj", "v_proj"};
  return {};
}

}  // namespace

Result<std::vector<std::string>> lora_targets(const std::vector<std::string>& named, std::string_view family,
                                              std::string_view key) {
  if (!named.empty()) return named;
  std::vector<std::string> out = default_targets(family);
  if (!out.empty()) return out;
  return fail(Error{.message = fmt::format("expected target modules: PEFT has no default for {}", family),
                    .file = {},
                    .key = std::string(key)});
}

}  // namespace headroom
