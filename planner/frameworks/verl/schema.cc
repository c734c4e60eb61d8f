#include "planner/frameworks/verl/schema.h"

#include <fmt/format.h>

#include <array>
#include <unordered_map>

#include "models/base/embedded.h"

namespace headroom {

std::span<const EmbeddedFile> embedded_verl_schema();

namespace verl {
namespace {

constexpr std::array kReleases = {Version{0, 3, 0}, Version{0, 4, 0}, Version{0, 4, 1}, Version{0, 5, 0},
                                  Version{0, 6, 0}, Version{0, 6, 1}, Version{0, 7, 0}, Version{0, 7, 1},
                                  Version{0, 8, 0}, Version{0, 9, 0}, Version{0, 10, 0}};

std::size_t place_of(std::string_view text) {
  const auto version = parse_version(text);
  for (std::size_t i = 0; version && i < kReleases.size(); ++i)
    if (kReleases[i] == *version) return i;
  return kReleases.size() - 1;
}

/// `0.3.0-0.6.1,0.9.0`
Releases ranges(std::string_view text) {
  Releases out = 0;
  while (!text.empty()) {
    const std::string_view range = text.substr(0, text.find(','));
    text.remove_prefix(std::min(range.size() + 1, text.size()));
    const std::size_t dash = range.find('-');
    const std::size_t first = place_of(range.substr(0, dash)), last = dash == std::string_view::npos
                                                                          ? kReleases.size() - 1
                                                                          : place_of(range.substr(dash + 1));
    for (std::size_t i = first; i <= last; ++i) out |= Releases{1} << i;
  }
  return out;
}

struct Row {
  Releases having = 0, null = 0;
};
using Table = std::unordered_map<std::string_view, Row>;

const Table& table() {
  static const Table table = [] {
    Table out;
    for (const EmbeddedFile& file : embedded_verl_schema()) {
      std::string_view text = file.text;
      while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        const std::size_t blank = line.find(' ');
        if (line.empty() || line.front() == '#' || blank == std::string_view::npos) continue;
        const std::string_view columns = line.substr(blank + 1);
        const std::size_t second = columns.find(' ');
        const Releases null = second == std::string_view::npos ? 0 : ranges(columns.substr(second + 1));
        out.emplace(line.substr(0, blank), Row{ranges(columns.substr(0, second)), null});
      }
    }
    return out;
  }();
  return table;
}

/// Sections whose keys are not listed.
constexpr auto kUnlisted = std::to_array<std::string_view>(
    {"profiler", "profile", "npu_profile", "global_profiler", "controller_nsight_options",
     "worker_nsight_options", "tool_config", "turbo_config", "transfer_queue", "prometheus", "trace", "skip",
     "gdpo", "reward_manager", "sandbox_fusion", "logger_settings", "veomni", "torchtitan"});

bool unlisted(std::string_view section) {
  const std::size_t dot = section.rfind('.');
  const std::string_view name = dot == std::string_view::npos ? section : section.substr(dot + 1);
  for (const std::string_view one : kUnlisted)
    if (name == one) return true;
  return false;
}

}  // namespace

std::span<const Version> schema_releases() {
  return kReleases;
}

Releases all_releases() {
  return (Releases{1} << kReleases.size()) - 1;
}

Releases releases_with(std::string_view key) {
  const auto found = table().find(key);
  if (found != table().end()) return found->second.having;
  for (std::size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.', dot + 1))
    if (unlisted(key.substr(0, dot))) {
      const auto section = table().find(key.substr(0, dot));
      return section == table().end() ? all_releases() : section->second.having;
    }
  return 0;
}

Releases releases_open_to(std::string_view key) {
  const auto found = table().find(key);
  return found == table().end() ? 0 : found->second.null;
}

std::string describe(Releases releases) {
  std::size_t first = kReleases.size(), last = 0;
  for (std::size_t i = 0; i < kReleases.size(); ++i)
    if ((releases >> i) & 1) {
      first = std::min(first, i);
      last = i;
    }
  if (first == kReleases.size()) return "of no release";
  const bool newest = last + 1 == kReleases.size();
  if (first == 0 && newest) return "of every release";
  if (newest) return fmt::format("of {} and later", to_string(kReleases[first]));
  if (first == 0) return fmt::format("before {}", to_string(kReleases[last + 1]));
  if (first == last) return fmt::format("of {}", to_string(kReleases[first]));
  return fmt::format("of {} to {}", to_string(kReleases[first]), to_string(kReleases[last]));
}

Releases release_bit(const Version& version) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < kReleases.size(); ++i)
    if (kReleases[i] <= version) at = i;
  return Releases{1} << at;
}

}  // namespace verl
}  // namespace headroom
