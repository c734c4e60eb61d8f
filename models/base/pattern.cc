#include "models/base/pattern.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace headroom {
namespace {

/// One element of a pattern: what it takes of a text.
struct Element {
  enum class Kind { one, any, set, star, deep } kind = Kind::one;
  char character = 0;    ///< of `deep`: `/` where a slash follows, which goes with it
  std::string_view set;  ///< between the brackets
};

/// Where the set that opens at `open` ends; npos: nowhere. A `]` that comes first is one of the set.
std::size_t set_end(std::string_view pattern, std::size_t open) {
  std::size_t first = open + 1;
  if (first < pattern.size() && (pattern[first] == '!' || pattern[first] == '^')) ++first;
  return pattern.find(']', first + 1);
}

std::vector<Element> elements_of(std::string_view pattern, PatternOf of) {
  std::vector<Element> out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const std::string_view rest = pattern.substr(i);
    if (of == PatternOf::path && rest.starts_with("**/")) {
      out.push_back({Element::Kind::deep, '/', {}});
      i += 2;
    } else if (of == PatternOf::path && rest.starts_with("**")) {
      out.push_back({Element::Kind::deep, 0, {}});
      i += 1;
    } else if (rest.front() == '*') {
      out.push_back({Element::Kind::star, 0, {}});
    } else if (rest.front() == '?') {
      out.push_back({Element::Kind::any, 0, {}});
    } else if (rest.front() == '\\' && rest.size() > 1) {
      out.push_back({Element::Kind::one, pattern[++i], {}});
    } else if (const std::size_t end = set_end(pattern, i);
               rest.front() == '[' && end != std::string_view::npos) {
      out.push_back({Element::Kind::set, 0, pattern.substr(i + 1, end - i - 1)});
      i = end;
    } else {
      out.push_back({Element::Kind::one, rest.front(), {}});
    }
  }
  return out;
}

bool in_set(std::string_view set, char c) {
  const bool negated = set.starts_with('!') || set.starts_with('^');
  if (negated) set.remove_prefix(1);
  bool found = false;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (i + 2 < set.size() && set[i + 1] == '-') {
      found = found || (set[i] <= c && c <= set[i + 2]);
      i += 2;
    } else {
      found = found || set[i] == c;
    }
  }
  return found != negated;
}

}  // namespace

bool is_pattern(std::string_view text) {
  return text.find_first_of("*?[") != std::string_view::npos;
}

bool matches(std::string_view pattern, std::string_view text, PatternOf of) {
  const std::vector<Element> elements = elements_of(pattern, of);
  const auto stops = [&](char c) { return of == PatternOf::path && c == '/'; };
  // reached[i]: the text so far can be taken by the first i elements.
  std::vector<char> reached(elements.size() + 1, 0), next(elements.size() + 1, 0);
  const auto skip_empty = [&](bool at_part) {
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const Element& element = elements[i];
      const bool empty = element.kind == Element::Kind::star ||
                         (element.kind == Element::Kind::deep && (element.character == 0 || at_part));
      if (reached[i] != 0 && empty) reached[i + 1] = 1;
    }
  };
  reached[0] = 1;
  skip_empty(true);
  for (const char c : text) {
    std::fill(next.begin(), next.end(), 0);
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (reached[i] == 0) continue;
      const Element& element = elements[i];
      using enum Element::Kind;
      if (element.kind == deep || (element.kind == star && !stops(c)))
        next[i] = 1;
      else if ((element.kind == one && element.character == c) || (element.kind == any && !stops(c)) ||
               (element.kind == set && !stops(c) && in_set(element.set, c)))
        next[i + 1] = 1;
    }
    if (std::find(next.begin(), next.end(), 1) == next.end()) return false;
    reached.swap(next);
    skip_empty(c == '/');
  }
  return reached[elements.size()] != 0;
}

}  // namespace headroom
