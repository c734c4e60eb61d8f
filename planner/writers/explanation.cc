#include "planner/writers/explanation.h"

#include <algorithm>

#include "planner/writers/reasons.h"
#include "planner/writers/report_json.h"

namespace headroom::writers {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kWorthNaming = 0.03;  // of the peak

Json settings_json(const search::Change& change) {
  Json settings = Json::object();
  for (const Setting& setting : change.settings) settings[setting.key] = setting.value;
  if (change.settings.empty())
    for (const Choice& choice : change.choices) settings[choice.knob] = choice.value;
  return settings;
}

Json change_json(const search::Change& change) {
  Json settings = settings_json(change);
  return {{"changes", std::move(settings)},
          {"fits", change.outcome.fits},
          {"seconds_per_step", change.outcome.seconds},
          {"peak_device", change.outcome.peak_device},
          {"limiting_phase", change.outcome.limiting_phase},
          {"spare_bytes", change.outcome.spare}};
}

Json technique_json(const search::Technique& technique) {
  Json saved = Json::object();
  for (const auto& [phase, bytes] : technique.saved) saved[phase] = bytes;
  Json out = {{"name", technique.name},
              {"what", technique.what},
              {"changes", settings_json(technique.change)},
              {"changes_numerics", technique.changes_numerics},
              {"saved_bytes", std::move(saved)}};
  if (technique.seconds_known) out["seconds"] = technique.seconds;
  return out;
}

}  // namespace

std::vector<Component> main_components(const PhaseReport& phase) {
  const Breakdown& bytes = phase.at_peak_device;
  std::vector<Component> out;
  for (std::size_t i = 0; i < kComponents; ++i)
    if (static_cast<double>(bytes.bytes[i]) >= kWorthNaming * static_cast<double>(phase.peak_device))
      out.push_back(static_cast<Component>(i));
  std::stable_sort(out.begin(), out.end(), [&](Component a, Component b) { return bytes[a] > bytes[b]; });
  return out;
}

nlohmann::ordered_json would_fit_json(std::span<const search::Would> would) {
  Json out = Json::array();
  for (const search::Would& one : would)
    out.push_back({{"name", one.name},
                   {"value", one.value},
                   {"what", one.what},
                   {"spare_bytes", one.outcome.spare},
                   {"limiting_phase", one.outcome.limiting_phase}});
  return out;
}

std::string explanation_json(const Report& report, const search::Explanation& explanation) {
  Json out = report_json(report);
  out["reasons"] = Json::array();
  if (const PeakPlace place = highest(report); place.phase != nullptr)
    for (const Component component : main_components(*place.phase))
      out["reasons"].push_back({{"device", place.device->device},
                                {"step", place.phase->step},
                                {"phase", place.phase->phase},
                                {"component", std::string(name(component))},
                                {"bytes", place.phase->at_peak_device[component]},
                                {"reason", std::string(reason(component))}});
  if (explanation.quick && explanation.quick->spare < -1) out["missing_at_least"] = -explanation.quick->spare;
  out["single_changes"] = Json::array();
  for (const search::Change& change : explanation.singles) out["single_changes"].push_back(change_json(change));
  out["pairs"] = Json::array();
  for (const search::Change& change : explanation.pairs) out["pairs"].push_back(change_json(change));
  out["techniques"] = Json::array();
  for (const search::Technique& one : explanation.techniques) out["techniques"].push_back(technique_json(one));
  out["would_fit"] = would_fit_json(explanation.would);
  return dump(out);
}

}  // namespace headroom::writers
