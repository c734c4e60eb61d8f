#include "planner/cli/knob_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace headroom::cli {
namespace {

/// Whether setting `knob` to another value sets `key`.
bool sets(const Run& run, const Knob& knob, const std::string& key) {
  const auto other = std::find_if(knob.values.begin(), knob.values.end(),
                                  [&](const std::string& value) { return value != knob.current; });
  if (other == knob.values.end()) return false;
  const auto settings = run.framework->settings_of(run.read, std::array{Choice{knob.name, *other}});
  return settings && std::any_of(settings->begin(), settings->end(), [&](const Setting& setting) {
           return setting.key == key || setting.key.ends_with("." + key);
         });
}

}  // namespace

std::string knob_name(const Run& run, std::span<const Knob> knobs, const std::string& text) {
  const auto own = [&](const Knob& knob) { return knob.name == text; };
  if (std::any_of(knobs.begin(), knobs.end(), own)) return text;
  if (run.framework == nullptr || run.framework->settings_of == nullptr) return text;
  std::string found;
  for (const Knob& knob : knobs) {
    if (!sets(run, knob, text)) continue;
    if (!found.empty()) return text;  // several knobs set it: a name has to tell them apart
    found = knob.name;
  }
  return found.empty() ? text : found;
}

std::vector<std::string> knob_requests(const Run& run, std::span<const Knob> knobs,
                                       const std::vector<std::string>& requests) {
  std::vector<std::string> out;
  for (const std::string& request : requests) {
    const std::size_t equals = std::min(request.find('='), request.size());
    out.push_back(knob_name(run, knobs, request.substr(0, equals)) + request.substr(equals));
  }
  return out;
}

std::string no_knobs(const Run& run) {
  std::string known;
  for (const Framework& framework : frameworks())
    if (framework.knobs != nullptr) known += (known.empty() ? "" : ", ") + std::string(framework.name);
  return fmt::format("expected a configuration with knobs to vary ({}), found one of {}, which has none yet",
                     known, run.read.job.framework);
}

}  // namespace headroom::cli
