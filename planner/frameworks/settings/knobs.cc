#include "planner/frameworks/settings/knobs.h"

#include "planner/configuration/override.h"
#include "planner/configuration/value_grammar.h"

namespace headroom::settings {
namespace {

std::string value_of(const Layers& layers, const std::string& key) {
  const auto found = layers.get(key);
  return found && *found ? format_value((*found)->value) : "null";
}

}  // namespace

Status pin_followers(const TableSettings& settings, std::vector<Setting>& changes) {
  if (settings.layers == nullptr) return {};
  Layers changed = *settings.layers;
  for (const Setting& change : changes) {
    HEADROOM_ASSIGN(const Override wanted, parse_override("++" + change.key + "=" + change.value, "written"));
    HEADROOM_TRY(changed.apply(wanted));
  }
  const std::size_t own = changes.size();
  for (const std::string& key : settings.used) {
    const auto set = changes.begin() + static_cast<std::ptrdiff_t>(own);
    if (std::any_of(changes.begin(), set, [&](const Setting& change) { return change.key == key; })) continue;
    const std::string before = value_of(*settings.layers, key);
    if (value_of(changed, key) != before) changes.push_back({key, before});
  }
  return {};
}

std::vector<std::string> fractions(double current) {
  std::vector<double> numbers{current};
  for (int percent = 20; percent <= 90; percent += 5) numbers.push_back(percent / 100.0);
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  std::vector<std::string> out;
  for (const double number : numbers) out.push_back(fmt::format("{}", number));
  return out;
}

}  // namespace headroom::settings
