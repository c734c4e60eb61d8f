#include "planner/frameworks/shell/model_word.h"

#include "models/presets/mention.h"
#include "models/presets/presets.h"

namespace headroom::shell {

std::optional<std::string> model_at_end(const Word& path) {
  if (path.known()) return std::nullopt;
  std::string text = path.text;
  while (!text.empty() && text.back() == '/') text.pop_back();
  const std::size_t slash = text.rfind('/');
  const Unknown& last = path.unknown.back();
  if (slash == std::string::npos || last.at + last.size > slash) return std::nullopt;
  std::string name = text.substr(slash + 1);
  if (name.empty() || (!look_up_preset(name) && mentioned_preset(name).preset == nullptr)) return std::nullopt;
  return name;
}

bool name_one_model(const Word& a, const Word& b) {
  const auto model = [](const Word& word) -> const Preset* {
    const std::string name = word.known() ? word.text : model_at_end(word).value_or("");
    if (name.size() < 4) return nullptr;
    const auto found = look_up_preset(name);
    return found ? *found : nullptr;
  };
  const Preset* first = model(a);
  return first != nullptr && first == model(b);
}

}  // namespace headroom::shell
