#include <algorithm>

#include "models/base/nearest.h"
#include "planner/frameworks/settings/usage.h"

namespace headroom::settings {
namespace {

constexpr int kOther = 2;  ///< parts that differ by more than a slip

std::string_view last_part(std::string_view key) {
  return key.substr(key.rfind('.') == std::string_view::npos ? 0 : key.rfind('.') + 1);
}

/// In how many parts, one after the other, the keys differ; kOther: by more than one slip.
int parts_apart(std::string_view a, std::string_view b) {
  int distance = 0;
  while (!a.empty() && !b.empty() && distance < kOther) {
    const std::string_view one = a.substr(0, a.find('.')), other = b.substr(0, b.find('.'));
    if (one != other) {
      const bool similar = length_difference(one, other) <= 2 &&
                           edit_distance(one, other) * 4 <= static_cast<int>(other.size());
      distance += similar ? 1 : kOther;
    }
    a.remove_prefix(std::min(a.size(), one.size() + 1));
    b.remove_prefix(std::min(b.size(), other.size() + 1));
  }
  return a.empty() && b.empty() ? distance : kOther;
}

}  // namespace

std::string meant(std::span<const Key> keys, std::string_view unknown, bool anywhere) {
  const std::string_view name = last_part(unknown);
  const std::string_view place = unknown.substr(0, unknown.size() - name.size());
  std::string_view best, in_section, elsewhere;
  int best_distance = 3;
  for (const Key& key : keys) {
    const std::string_view known = key.path, known_name = last_part(known);
    if (key.effect == Effect::none || known_name.empty()) continue;
    if (in_section.empty() && parts_apart(unknown, known) == 1) in_section = known;
    if (elsewhere.empty() && known_name == name &&
        known.substr(0, known.find('.')) == unknown.substr(0, unknown.find('.')))
      elsewhere = known;
    if (known.substr(0, known.size() - known_name.size()) != place) continue;
    if (length_difference(name, known_name) >= best_distance) continue;
    const int distance = edit_distance(name, known_name);
    if (distance >= best_distance || distance * 4 > static_cast<int>(known_name.size())) continue;
    best_distance = distance;
    best = known;
  }
  if (!best.empty()) return std::string(best);
  if (!in_section.empty()) return std::string(in_section);
  // `n`, `path`, `name` stand in many places by right.
  return anywhere && name.size() >= 6 ? std::string(elsewhere) : std::string();
}

}  // namespace headroom::settings
