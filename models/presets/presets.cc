#include "models/presets/presets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <mutex>

#include "models/base/nearest.h"

namespace headroom {

std::span<const EmbeddedFile> embedded_presets();

namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

/// What follows the last slash.
std::string_view last_part(std::string_view name) {
  const size_t slash = name.rfind('/');
  return slash == std::string_view::npos ? name : name.substr(slash + 1);
}

/// What follows the last but one slash.
std::string_view last_two_parts(std::string_view name) {
  const size_t slash = name.rfind('/');
  if (slash == std::string_view::npos || slash == 0) return name;
  const size_t before = name.rfind('/', slash - 1);
  return before == std::string_view::npos ? name : name.substr(before + 1);
}

/// Hub names hold one slash at most and start with a letter or digit.
bool is_path(std::string_view name) {
  return std::count(name.begin(), name.end(), '/') > 1 ||
         std::string_view("/.~$").find(name.front()) != std::string_view::npos;
}

/// What names of trained or converted copies add to their model's: how they were trained or stored, which leaves the
/// shape as it was.
constexpr auto kCopyWords = std::to_array<std::string_view>(
    {"sft", "rl", "rlhf", "rft", "grpo", "ppo", "dpo", "dapo", "orpo", "lora", "merged", "merge", "hf", "bf16", "fp16",
     "config", "verl", "sglang", "vllm", "ckpt", "checkpoint", "final", "cold", "start", "coldstart", "local"});

/// `name` without the last of its parts that are such words; empty when its last part is none.
std::string_view without_copy_word(std::string_view name) {
  const std::size_t mark = name.find_last_of("-_");
  if (mark == std::string_view::npos || mark == 0) return {};
  const std::string word = lower(name.substr(mark + 1));
  const bool adds = std::find(kCopyWords.begin(), kCopyWords.end(), word) != kCopyWords.end();
  return adds ? name.substr(0, mark) : std::string_view();
}

/// An embedded file, read when it is first needed.
struct File {
  std::once_flag once;
  Result<std::vector<Preset>> presets = std::vector<Preset>();
};

const Result<std::vector<Preset>>& read_file(std::size_t index) {
  static std::vector<File> files(embedded_presets().size());
  File& file = files[index];
  std::call_once(file.once, [&] { file.presets = read_presets(embedded_presets().subspan(index, 1)); });
  return file.presets;
}

bool contains(std::string_view text, std::string_view lower_case) {
  return std::search(text.begin(), text.end(), lower_case.begin(), lower_case.end(), [](char a, char b) {
           return std::tolower(static_cast<unsigned char>(a)) == b;
         }) != text.end();
}

/// Up to three names nearest to `name`, by the model's part alone where no organisation was given.
std::vector<std::string> suggestions(std::string_view name) {
  const bool organisation = name.find('/') != std::string_view::npos;
  const int allowed = std::max(2, static_cast<int>(name.size()) / 3);
  std::vector<std::pair<int, std::string>> found;
  for (const Preset& preset : presets())
    for (const std::string& known : preset.names) {
      const std::string_view other = organisation ? std::string_view(known) : last_part(known);
      int distance = length_difference(name, other);
      if (distance <= allowed) distance = edit_distance(name, other);
      // A known model under another organisation is what was most likely meant.
      if (organisation && lower(last_part(known)) == lower(last_part(name))) distance = 0;
      if (distance <= allowed) found.emplace_back(distance, known);
    }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> out;
  for (size_t i = 0; i < std::min<size_t>(found.size(), 3); ++i) out.push_back(found[i].second);
  return out;
}

/// The one preset known as `key` (lower case), with or without its organisation; null when none is, an error
/// when several differ. Reads the files that mention it only.
Result<const Preset*> only(std::string_view key) {
  const Preset* found = nullptr;
  bool differ = false;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < embedded_presets().size(); ++i) {
    if (!contains(embedded_presets()[i].text, key)) continue;
    if (!read_file(i)) return fail(read_file(i).error());
    for (const Preset& preset : *read_file(i))
      for (const std::string& name : preset.names) {
        if (lower(name) != key && lower(last_part(name)) != key) continue;
        differ = differ || (found != nullptr && found != &preset);
        found = found == nullptr ? &preset : found;
        names.push_back(name);
      }
  }
  if (differ)
    return fail(fmt::format("expected one model, found several named {}: {}; name the organisation too", key,
                            fmt::join(names, ", ")));
  return found;
}

}  // namespace

std::span<const Preset> presets() {
  static const Result<std::vector<Preset>> read = read_presets(embedded_presets());
  return read ? std::span<const Preset>(*read) : std::span<const Preset>();
}

Result<const Preset*> look_up_preset(std::string_view name) {
  while (name.size() > 1 && name.back() == '/') name.remove_suffix(1);
  if (name.empty()) return fail("expected a model's name, found nothing");
  if (is_path(name)) {
    HEADROOM_ASSIGN(const Preset* whole, only(lower(last_two_parts(name))));
    if (whole != nullptr) return whole;
    name = last_part(name);
  }
  HEADROOM_ASSIGN(const Preset* preset, only(lower(name)));
  if (preset != nullptr) return preset;
  // An organisation's copy of a known model is that model.
  if (const std::string_view alone = last_part(name); alone != name) {
    HEADROOM_ASSIGN(const Preset* copied, only(lower(alone)));
    if (copied != nullptr) return copied;
  }
  // So is what was trained from it.
  for (std::string_view made = without_copy_word(last_part(name)); !made.empty(); made = without_copy_word(made)) {
    HEADROOM_ASSIGN(const Preset* source, only(lower(made)));
    if (source != nullptr) return source;
  }
  const auto near = suggestions(name);
  if (near.empty())
    return fail(fmt::format(
        "no preset of a model named {}; `headroom models` lists them, or give a directory with its "
        "config.json",
        name));
  return fail(fmt::format("no preset of a model named {}; nearest: {}", name, fmt::join(near, ", ")));
}

Result<Document> find_preset(std::string_view name) {
  HEADROOM_ASSIGN(const Preset* preset, look_up_preset(name));
  return preset->config;
}

}  // namespace headroom
