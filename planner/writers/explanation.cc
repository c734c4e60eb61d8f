#include "planner/writers/explanation.h"

#include <algorithm>

#include "planner/writers/reasons.h"
#include "planner/writers/report_json.h"

namespace headroom::writers {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kWorthNaming = 0.03;  // of the peak

Json change_json(const search::Change& change) {
  Json settings = Json::object();
  for (const Setting& setting : change.settings) settings[setting.key] = setting.value;
  if (change.settings.empty()) settings[change.choice.knob] = change.choice.value;
  return {{"changes", std::move(settings)},
          {"fits", change.outcome.fits},
          {"seconds_per_step", change.outcome.seconds},
          {"peak_device", change.outcome.peak_device},
          {"limiting_phase", change.outcome.limiting_phase},
          {"spare_bytes", change.outcome.spare}};
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

std::string explanation_json(const Report& report, std::span<const search::Change> changes) {
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
  out["single_changes"] = Json::array();
  for (const search::Change& change : changes) out["single_changes"].push_back(change_json(change));
  return dump(out);
}

}  // namespace headroom::writers
