#include "planner/configuration/version.h"

#include <fmt/format.h>

#include <charconv>

namespace headroom {

std::optional<Version> parse_version(std::string_view text) {
  if (!text.empty() && (text.front() == 'v' || text.front() == 'V')) text.remove_prefix(1);
  Version out;
  int* const parts[] = {&out.major, &out.minor, &out.patch};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int i = 0; i < 3; ++i) {
    const auto [next, code] = std::from_chars(at, end, *parts[i]);
    if (code != std::errc{} || *parts[i] < 0 || *parts[i] > 9999)
      return i == 0 ? std::nullopt : std::optional(out);
    if (next == end || *next != '.') return out;
    at = next + 1;
  }
  return out;
}

std::string to_string(const Version& version) {
  return fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
}

Document without_build_tag(const Document& version) {
  return Document::scalar(version.text().substr(0, version.text().find('+')), version.line(), true);
}

}  // namespace headroom
