#include "planner/frameworks/shell/model_word.h"

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
  if (name.empty() || !find_preset(name)) return std::nullopt;
  return name;
}

}  // namespace headroom::shell
