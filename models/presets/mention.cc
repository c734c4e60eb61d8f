#include "models/presets/mention.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

namespace headroom {
namespace {

bool digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool letter_or_digit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

using Words = std::vector<std::string>;

/// Lower case, cut at whatever is neither letter nor digit; a point stands in front of a digit that only a
/// separator parts from another one.
Words words_of(std::string_view text) {
  Words out;
  std::string word;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (letter_or_digit(text[i])) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(text[i])));
      continue;
    }
    if (!word.empty()) out.push_back(std::move(word));
    word.clear();
    const bool between = i > 0 && digit(text[i - 1]) && i + 1 < text.size() && digit(text[i + 1]);
    if (between) word = ".";
  }
  if (!word.empty()) out.push_back(std::move(word));
  return out;
}

/// `7b`, `.7b`, `0.5b`'s last word, `560m`: a number of parameters.
bool is_size(std::string_view word) {
  if (word.starts_with('.')) word.remove_prefix(1);
  return word.size() >= 2 && (word.back() == 'b' || word.back() == 'm') &&
         std::all_of(word.begin(), word.end() - 1, digit);
}

/// `a3b`: how many of them a token meets.
bool is_active_size(std::string_view word) {
  return word.size() >= 3 && word.front() == 'a' && is_size(word.substr(1));
}

/// Whether words at both ends of a known name may be left out of it.
bool may_lack(std::string_view word) {
  constexpr auto kKinds = std::to_array<std::string_view>(
      {"instruct", "base", "chat", "it", "pt", "hf", "thinking", "bf16", "meta"});
  const bool date = word.size() == 4 && std::all_of(word.begin(), word.end(), digit);
  return date || is_active_size(word) || std::find(kKinds.begin(), kKinds.end(), word) != kKinds.end();
}

/// Words that say of a name's model that it has another shape, or is stored otherwise.
bool changes_shape(std::string_view word) {
  constexpr auto kWords = std::to_array<std::string_view>(
      {"awq",    "gptq",   "int4",  "int8",   "fp8",       "4bit",     "8bit", "bnb", "gguf", "mxfp4",  "nvfp4", "w4a16",
       "w8a8",   "pruned", "eagle", "eagle3", "medusa",    "draft",    "moe",  "vl",  "omni", "vision", "audio", "speech",
       "llava",  "embedding", "upscaled", "quantized"});
  return is_size(word) || std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

/// A known model's name in words, without what names of copies leave out.
struct Known {
  Words words;
  std::string joined;  ///< of the words: names differ in where they put separators
  const Preset* preset;
  std::string_view name;
  std::size_t left_out = 0;  ///< words
};

std::string join(const Words& words, std::size_t begin, std::size_t end) {
  std::string out;
  for (std::size_t i = begin; i < end; ++i) out += words[i];
  return out;
}

bool names_size(const Words& words) { return std::any_of(words.begin(), words.end(), is_size); }

std::vector<Known> known_names() {
  std::vector<Known> out;
  for (const Preset& preset : presets())
    for (const std::string& name : preset.names) {
      Words words = words_of(std::string_view(name).substr(name.rfind('/') + 1));
      const std::size_t whole = words.size();
      while (names_size(words)) {
        out.push_back({words, join(words, 0, words.size()), &preset, name, whole - words.size()});
        if (words.size() > 1 && may_lack(words.front())) {
          words.erase(words.begin());
        } else if (words.size() > 1 && may_lack(words.back())) {
          words.pop_back();
        } else {
          break;
        }
      }
    }
  return out;
}

/// The longest known name among the words of a folder's or file's name; of equal ones, that with the fewest words
/// left out.
Mention in_words(const Words& words) {
  static const std::vector<Known> known = known_names();
  const Known* best = nullptr;
  std::size_t first = 0, last = 0;
  bool several = false;
  for (std::size_t begin = 0; begin < words.size(); ++begin)
    for (std::size_t end = begin + 1; end <= words.size(); ++end) {
      const std::string joined = join(words, begin, end);
      for (const Known& one : known) {
        if (one.joined != joined || (best != nullptr && joined.size() < best->joined.size())) continue;
        const bool nearer = best == nullptr || joined.size() > best->joined.size() || one.left_out < best->left_out;
        if (!nearer && one.left_out > best->left_out) continue;
        const bool other = !nearer && one.preset != best->preset &&
                           (one.preset->parameters == 0 || one.preset->parameters != best->preset->parameters);
        several = nearer ? false : several || other;
        if (!nearer) continue;
        best = &one;
        first = begin;
        last = end;
      }
    }
  if (best == nullptr || several) return {};
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool mixture = words[i] == "moe" && best->preset->config.find("num_experts") != nullptr;
    if ((i < first || i >= last) && changes_shape(words[i]) && !mixture) return {};
  }
  return {.preset = best->preset, .name = std::string(best->name)};
}

/// A folder that says which checkpoint of a run it holds.
bool says_which_checkpoint(std::string_view folder) {
  constexpr auto kFolders = std::to_array<std::string_view>(
      {"actor", "huggingface", "hf", "hf_model", "final", "merged", "ckpt", "checkpoint", "checkpoints", "model"});
  for (const std::string_view start : {"global_step", "checkpoint-", "epoch", "step", "iter"})
    if (folder.starts_with(start)) return true;
  return std::find(kFolders.begin(), kFolders.end(), folder) != kFolders.end();
}

}  // namespace

Mention mentioned_preset(std::string_view name) {
  while (!name.empty()) {
    while (name.ends_with('/')) name.remove_suffix(1);
    const std::size_t slash = name.rfind('/');
    const std::string_view folder = name.substr(slash == std::string_view::npos ? 0 : slash + 1);
    if (!says_which_checkpoint(folder)) return in_words(words_of(folder));
    if (slash == std::string_view::npos) return {};
    name = name.substr(0, slash);
  }
  return {};
}

}  // namespace headroom
