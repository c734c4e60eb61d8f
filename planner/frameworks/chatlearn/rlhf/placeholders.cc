#include "planner/frameworks/chatlearn/rlhf/placeholders.h"

#include <cstdlib>
#include <optional>

namespace headroom::chatlearn::rlhf {
namespace {

std::string_view stripped(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool is_placeholder(std::string_view text) {
  return stripped(text).starts_with("${");
}

/// What stands between the braces: the loader drops the last character, whatever it is.
std::string_view inside(std::string_view text) {
  text = stripped(text);
  text.remove_prefix(2);
  if (!text.empty()) text.remove_suffix(1);
  return text;
}

std::optional<std::string> value_of(std::string_view text, const std::map<std::string, std::string>& environment) {
  const std::string_view all = inside(text);
  const std::size_t colon = all.find(':');
  const std::string name(all.substr(0, colon));
  if (const auto given = environment.find(name); given != environment.end()) return given->second;
  if (const char* own = std::getenv(name.c_str())) return own;
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view rest = all.substr(colon + 1);
  return std::string(rest.substr(0, rest.find(':')));
}

}  // namespace

std::string placeholder_name(std::string_view text) {
  if (!is_placeholder(text)) return {};
  const std::string_view all = inside(text);
  return std::string(all.substr(0, all.find(':')));
}

Document without_placeholders(const Document& document, const std::map<std::string, std::string>& environment) {
  if (document.is_map()) {
    Document out = Document::map(document.line());
    for (const auto& [key, value] : document.entries()) out.add_entry(key, without_placeholders(value, environment));
    return out;
  }
  if (!document.is_scalar()) return document;
  if (!is_placeholder(document.text())) return document.text() == "None" ? Document::null(document.line()) : document;
  const std::optional<std::string> value = value_of(document.text(), environment);
  if (!value || *value == "None" || value->empty()) return Document::null(document.line());
  return Document::scalar(*value, document.line());
}

std::string with_default(std::string_view text, const std::string& value) {
  return "${" + placeholder_name(text) + ":" + value + "}";
}

}  // namespace headroom::chatlearn::rlhf
