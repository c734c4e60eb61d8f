#pragma once

#include <charconv>
#include <compare>
#include <optional>
#include <string>
#include <string_view>

namespace headroom::settings {

/// A release number: `0.7.1`, `v0.10.0.dev0`, `0.4.10.post2`. What follows the numbers is dropped.
struct Release {
  int major = 0, minor = 0, patch = 0;
  auto operator<=>(const Release&) const = default;
};

inline constexpr Release kFirst{0, 0, 0}, kNever{999, 0, 0};

inline std::optional<Release> parse_release(std::string_view text) {
  if (!text.empty() && text.front() == 'v') text.remove_prefix(1);
  Release out;
  int* parts[] = {&out.major, &out.minor, &out.patch};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), *parts[i]);
    if (code != std::errc{} || *parts[i] < 0) return i == 0 ? std::nullopt : std::optional(out);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty() || text.front() != '.') return out;
    text.remove_prefix(1);
  }
  return out;
}

inline std::string to_string(const Release& release) {
  return std::to_string(release.major) + "." + std::to_string(release.minor) + "." +
         std::to_string(release.patch);
}

}  // namespace headroom::settings
