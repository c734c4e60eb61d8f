#include "planner/frameworks/shell/pattern.h"

#include <cstddef>

namespace headroom::shell {
namespace {

/// One element of the pattern: how long it is, and whether it matches `c`.
struct Element {
  std::size_t size = 1;
  bool matches = false;
};

Element element(std::string_view pattern, char c) {
  if (pattern.front() == '?') return {1, true};
  if (pattern.front() == '\\' && pattern.size() > 1) return {2, pattern[1] == c};
  if (pattern.front() != '[') return {1, pattern.front() == c};
  std::size_t i = 1;
  const bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (negated) ++i;
  bool found = false;
  for (const std::size_t first = i; i < pattern.size() && (pattern[i] != ']' || i == first); ++i) {
    if (i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
      found = found || (pattern[i] <= c && c <= pattern[i + 2]);
      i += 2;
    } else {
      found = found || pattern[i] == c;
    }
  }
  if (i >= pattern.size()) return {1, c == '['};  // unclosed: a plain bracket
  return {i + 1, found != negated};
}

}  // namespace

bool matches_pattern(std::string_view text, std::string_view pattern) {
  std::size_t t = 0, p = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
      continue;
    }
    if (p < pattern.size()) {
      const Element next = element(pattern.substr(p), text[t]);
      if (next.matches) {
        p += next.size;
        ++t;
        continue;
      }
    }
    if (star == std::string_view::npos) return false;
    p = star + 1;
    t = ++resume;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace headroom::shell
