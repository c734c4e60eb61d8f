#include "planner/configuration/interpolation.h"

#include <fmt/format.h>

#include <cctype>
#include <vector>

#include "planner/configuration/value_grammar.h"

namespace headroom {
namespace {

constexpr std::size_t kLongestText = 1 << 16;
constexpr std::size_t kMostArguments = 16;

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// `.x` and `..x` against `parent`; nothing when it climbs above the root.
std::optional<std::string> absolute_key(std::string_view key, std::string_view parent) {
  if (key.empty() || key.front() != '.') return std::string(key);
  key.remove_prefix(1);
  while (!key.empty() && key.front() == '.') {
    if (parent.empty()) return std::nullopt;
    const std::size_t dot = parent.rfind('.');
    parent = dot == std::string_view::npos ? std::string_view{} : parent.substr(0, dot);
    key.remove_prefix(1);
  }
  return parent.empty() ? std::string(key) : fmt::format("{}.{}", parent, key);
}

/// `a[0].b` as `a.0.b`.
std::string dotted(std::string_view key) {
  std::string out;
  for (char c : key) {
    if (c == '[') {
      if (!out.empty()) out += '.';
    } else if (c != ']') {
      out += c;
    }
  }
  return out;
}

/// The commas of resolver arguments that stand outside brackets, quotes and nested interpolations.
std::vector<std::string_view> arguments(std::string_view text) {
  std::vector<std::string_view> out;
  int depth = 0;
  char mark = 0;
  std::size_t start = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (mark != 0) {
      if (c == mark) mark = 0;
    } else if (c == '\'' || c == '"') {
      mark = c;
    } else if (c == '{' || c == '[' || c == '(') {
      ++depth;
    } else if (c == '}' || c == ']' || c == ')') {
      --depth;
    } else if (c == ',' && depth == 0 && out.size() + 1 < kMostArguments) {
      out.push_back(trim(text.substr(start, i - start)));
      start = i + 1;
    }
  }
  out.push_back(trim(text.substr(start)));
  return out;
}

struct Body {
  std::string_view resolver;  ///< empty: a key
  std::string_view rest;
};

Body split_body(std::string_view body) {
  std::size_t i = 0;
  while (i < body.size() &&
         (std::isalnum(static_cast<unsigned char>(body[i])) != 0 || body[i] == '_' || body[i] == '.'))
    ++i;
  if (i > 0 && i < body.size() && body[i] == ':')
    return {.resolver = body.substr(0, i), .rest = body.substr(i + 1)};
  return {.resolver = {}, .rest = body};
}

std::string_view inside(std::string_view interpolation) {
  return trim(interpolation.substr(2, interpolation.size() - 3));
}

class Interpolator {
 public:
  Interpolator(std::string_view parent, const InterpolationScope& scope) : parent_(parent), scope_(scope) {}

  Result<Document> value(std::string_view text, int depth) {
    if (depth > 20) return fail("interpolations nested deeper than 20 levels");
    const std::size_t start = text.find("${");
    if (start == 0 && interpolation_end(text, 0) == text.size()) return one(inside(text), depth);
    HEADROOM_ASSIGN(std::string joined, text_of(text, depth));
    return Document::scalar(std::move(joined), 0, true);
  }

 private:
  Result<std::string> text_of(std::string_view text, int depth) {
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
      if (text.compare(i, 3, "\\${") == 0) {
        out += "${";
        i += 3;
      } else if (text.compare(i, 2, "${") == 0) {
        const std::size_t end = interpolation_end(text, i);
        if (end == std::string_view::npos)
          return fail(fmt::format("an interpolation is not closed: {}", text.substr(i, 60)));
        HEADROOM_ASSIGN(const Document part, one(inside(text.substr(i, end - i)), depth));
        out += part.is_scalar() ? part.text() : format_value(part);
        i = end;
      } else {
        out += text[i++];
      }
      if (out.size() > kLongestText) return fail("an interpolation grows beyond 64 KiB of text");
    }
    return out;
  }

  Result<Document> one(std::string_view body, int depth) {
    const Body parts = split_body(body);
    if (parts.resolver.empty()) {
      HEADROOM_ASSIGN(const std::string key, text_of(parts.rest, depth + 1));
      HEADROOM_ASSIGN(std::optional<Document> found, select(key));
      if (!found) return fail(fmt::format("${{{}}} names a key that does not exist", key));
      return std::move(*found);
    }
    const std::vector<std::string_view> given = arguments(parts.rest);
    if (scope_.resolver && !parts.resolver.starts_with("oc.")) {
      std::vector<Document> values;
      for (const std::string_view text : given) {
        HEADROOM_ASSIGN(Document one, argument(text, depth));
        values.push_back(std::move(one));
      }
      HEADROOM_ASSIGN(std::optional<Document> made, scope_.resolver(parts.resolver, values));
      if (made) return std::move(*made);
    }
    HEADROOM_ASSIGN(const std::string first, first_argument(given.front(), depth));
    if (parts.resolver == "oc.select") {
      HEADROOM_ASSIGN(std::optional<Document> found, select(first));
      if (found) return std::move(*found);
      return given.size() > 1 ? argument(given[1], depth) : Document::null();
    }
    if (parts.resolver == "oc.env") {
      if (auto variable = scope_.environment(first)) return Document::scalar(std::move(*variable), 0, true);
      if (given.size() > 1) return argument(given[1], depth);
      return fail(fmt::format(
          "the environment variable {} is not set and has no default here; set it, or give the value",
          first));
    }
    if (parts.resolver == "oc.decode") return parse_value(first);
    return fail(
        fmt::format("the resolver {} is not one of OmegaConf's own that a file can use "
                    "(oc.select, oc.env, oc.decode); give the value",
                    parts.resolver));
  }

  Result<std::optional<Document>> select(const std::string& key) {
    const auto absolute = absolute_key(key, parent_);
    if (!absolute) return fail(fmt::format("${{{}}} climbs above the root of the file", key));
    return scope_.key(dotted(*absolute));
  }

  Result<std::string> first_argument(std::string_view text, int depth) {
    HEADROOM_ASSIGN(const Document found, argument(text, depth));
    return found.is_scalar() ? found.text() : std::string(text);
  }

  Result<Document> argument(std::string_view text, int depth) {
    if (text.find("${") != std::string_view::npos) return value(text, depth + 1);
    return parse_value(text);
  }

  std::string_view parent_;
  const InterpolationScope& scope_;
};

}  // namespace

std::size_t interpolation_end(std::string_view text, std::size_t start) {
  int depth = 0;
  char mark = 0;
  for (std::size_t i = start + 1; i < text.size(); ++i) {
    const char c = text[i];
    if (mark != 0) {
      if (c == mark) mark = 0;
    } else if (c == '\'' || c == '"') {
      mark = c;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

bool has_interpolation(std::string_view text) {
  for (std::size_t at = text.find("${"); at != std::string_view::npos; at = text.find("${", at + 2))
    if (at == 0 || text[at - 1] != '\\') return true;
  return false;
}

std::optional<std::string> referenced_key(std::string_view text, std::string_view parent) {
  if (text.rfind("${", 0) != 0 || interpolation_end(text, 0) != text.size()) return std::nullopt;
  const Body parts = split_body(inside(text));
  std::string_view key = parts.rest;
  if (parts.resolver == "oc.select") {
    key = arguments(parts.rest).front();
  } else if (!parts.resolver.empty()) {
    return std::nullopt;
  }
  if (key.find("${") != std::string_view::npos) return std::nullopt;
  const auto absolute = absolute_key(key, parent);
  if (!absolute) return std::nullopt;
  return dotted(*absolute);
}

Result<Document> interpolate(std::string_view text, std::string_view parent,
                             const InterpolationScope& scope) {
  return Interpolator(parent, scope).value(text, 0);
}

}  // namespace headroom
