#include "planner/configuration/override.h"

#include <fmt/format.h>

#include <cctype>

#include "planner/configuration/value_grammar.h"

namespace headroom {
namespace {

constexpr int kMostLines = 100'000;

bool key_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("_-./@").find(c) != std::string_view::npos;
}

bool sound_key(std::string_view key) {
  if (key.empty() || key.front() == '.' || key.back() == '.' || key.find("..") != std::string_view::npos)
    return false;
  for (char c : key)
    if (!key_letter(c)) return false;
  return true;
}

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// Takes the quotes away that a shell would take: `'a=b'`, `a="b c"`, `"a='b c'"`. Text after an unquoted
/// ` #` is a comment.
Result<std::string> without_shell_quotes(std::string_view line) {
  std::string out;
  char mark = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (mark == 0 && c == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) break;
    if (mark == 0 && (c == '\'' || c == '"')) {
      mark = c;
    } else if (mark != 0 && c == mark) {
      mark = 0;
    } else if (mark != '\'' && c == '\\' && i + 1 < line.size() &&
               std::string_view("\"\\$`").find(line[i + 1]) != std::string_view::npos) {
      out += line[++i];
    } else {
      out += c;
    }
  }
  if (mark != 0) return fail(fmt::format("a quote is not closed: expected {}", mark));
  return std::string(trim(out));
}

}  // namespace

Result<Override> parse_override(std::string_view text, std::string file, int line) {
  Override out;
  out.file = std::move(file);
  out.line = line;
  text = trim(text);
  const auto bad = [&](std::string key, std::string message) {
    return fail(Error{.message = std::move(message), .file = out.file, .line = line, .key = std::move(key)});
  };
  if (text.rfind("++", 0) == 0) {
    out.kind = Override::Kind::force;
    text.remove_prefix(2);
  } else if (text.rfind("+", 0) == 0) {
    out.kind = Override::Kind::add;
    text.remove_prefix(1);
  } else if (text.rfind("~", 0) == 0) {
    out.kind = Override::Kind::remove;
    text.remove_prefix(1);
  }
  const std::size_t equals = text.find('=');
  out.key = std::string(trim(text.substr(0, equals)));
  if (!sound_key(out.key))
    return bad("", fmt::format("expected KEY=VALUE with a dotted key, found '{}'", text.substr(0, 80)));
  if (out.kind == Override::Kind::remove) return out;
  if (equals == std::string_view::npos) return bad(out.key, "expected KEY=VALUE, found no '='");
  Result<Document> value = parse_value(text.substr(equals + 1), line);
  if (!value) return bad(out.key, value.error().message);
  out.value = std::move(*value);
  return out;
}

bool looks_like_overrides(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#' || line.starts_with("--config-")) continue;
    while (!line.empty() && std::string_view("+~'\"").find(line.front()) != std::string_view::npos)
      line.remove_prefix(1);
    std::size_t i = 0;
    while (i < line.size() && key_letter(line[i])) ++i;
    return i > 0 && i < line.size() && line[i] == '=';
  }
  return false;
}

Result<std::vector<ListedWord>> parse_word_list(std::string_view text, const std::string& file) {
  std::vector<ListedWord> out;
  for (int number = 1; !text.empty(); ++number) {
    if (number > kMostLines)
      return fail(Error{.message = fmt::format("expected at most {} lines", kMostLines),
                        .file = file,
                        .line = number,
                        .key = {}});
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && line.back() == '\\') line = trim(line.substr(0, line.size() - 1));
    Result<std::string> word = without_shell_quotes(line);
    if (!word) return fail(Error{.message = word.error().message, .file = file, .line = number, .key = {}});
    if (!word->empty()) out.push_back({std::move(*word), number});
  }
  return out;
}

Result<std::vector<Override>> parse_override_list(std::string_view text, const std::string& file) {
  HEADROOM_ASSIGN(const std::vector<ListedWord> words, parse_word_list(text, file));
  std::vector<Override> out;
  for (const ListedWord& word : words) {
    HEADROOM_ASSIGN(Override parsed, parse_override(word.text, file, word.line));
    out.push_back(std::move(parsed));
  }
  return out;
}

}  // namespace headroom
