#include "planner/frameworks/shell/machine.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace headroom::shell {
namespace {

constexpr auto kPresent = std::to_array<std::string_view>({"nvidia-smi", "nvcc", "python", "python3", "bash"});
constexpr auto kAbsent = std::to_array<std::string_view>({"npu-smi", "rocm-smi", "amd-smi", "xpu-smi", "mthreads-gmi"});
/// Backends of other makers' cards, as Python modules.
constexpr auto kOtherBackends =
    std::to_array<std::string_view>({"torch_npu", "torch_xla", "torch_musa", "torch_mlu", "habana_frameworks"});

template <typename Names>
bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The module of a program text that is one import and nothing else.
std::optional<std::string_view> imported(std::string_view text) {
  constexpr std::string_view kImport = "import ";
  if (!text.starts_with(kImport)) return std::nullopt;
  text.remove_prefix(kImport.size());
  while (!text.empty() && (text.back() == ';' || text.back() == ' ')) text.remove_suffix(1);
  const bool one = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.';
  });
  return one ? std::optional(text.substr(0, text.find('.'))) : std::nullopt;
}

}  // namespace

Truth has_program(std::string_view name) {
  name = name.substr(name.rfind('/') + 1);
  return contains(kPresent, name) ? Truth::yes : contains(kAbsent, name) ? Truth::no : Truth::unknown;
}

std::optional<Truth> asks_machine(const std::vector<Word>& words) {
  if (words.empty() || !std::all_of(words.begin(), words.end(), [](const Word& word) { return word.known(); }))
    return std::nullopt;
  const std::string_view name = words[0].text;
  if (has_program(name) == Truth::no) return Truth::no;
  const std::string_view program = name.substr(name.rfind('/') + 1);
  if (!program.starts_with("python") || words.size() != 3 || words[1].text != "-c") return std::nullopt;
  const auto module = imported(words[2].text);
  if (!module) return std::nullopt;
  return contains(kOtherBackends, *module) ? Truth::no : Truth::unknown;
}

namespace {

/// `nvidia-smi --query-gpu=name --format=csv,noheader`: a line a card, whatever is asked of it.
bool lists_without_header(const std::vector<Word>& words) {
  bool asks = false, bare = false;
  for (const Word& word : words) {
    asks = asks || word.text.starts_with("--query-gpu=");
    bare = bare || (word.text.starts_with("--format=") && word.text.find("noheader") != std::string::npos);
  }
  return asks && bare;
}

}  // namespace

std::optional<std::string> listed_gpus(const std::vector<Word>& words, std::int64_t gpus) {
  if (words.size() < 2 || !std::all_of(words.begin(), words.end(), [](const Word& word) { return word.known(); }))
    return std::nullopt;
  const std::string_view program = std::string_view(words[0].text).substr(words[0].text.rfind('/') + 1);
  if (program == "nvidia-smi" && words.size() == 2 && (words[1].text == "-L" || words[1].text == "--list-gpus")) {
    std::string out;
    for (std::int64_t i = 0; i < gpus; ++i) out += "GPU " + std::to_string(i) + ":\n";
    return out;
  }
  if (program == "nvidia-smi" && lists_without_header(words)) {
    std::string out;
    for (std::int64_t i = 0; i < gpus; ++i) out += "GPU " + std::to_string(i) + "\n";
    return out;
  }
  if (!program.starts_with("python") || words.size() != 3 || words[1].text != "-c") return std::nullopt;
  std::string text = words[2].text;
  std::erase(text, ' ');
  if (text != "importtorch;print(torch.cuda.device_count())") return std::nullopt;
  return std::to_string(gpus) + "\n";
}

}  // namespace headroom::shell
