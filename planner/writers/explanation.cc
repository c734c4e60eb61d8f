#include "planner/writers/explanation.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/writers/columns.h"
#include "planner/writers/reasons.h"
#include "planner/writers/report_json.h"
#include "planner/writers/table.h"

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

std::string known_text(std::string_view title, std::span<const Known> rows) {
  if (rows.empty()) return "";
  const bool sized = rows.front().bytes.has_value();
  std::vector<Columns::Align> aligns(sized ? 4 : 3, Columns::Align::left);
  if (sized) aligns[1] = Columns::Align::right;
  Columns columns(aligns);
  for (const Known& row : rows) {
    std::vector<std::string> cells = {row.component, row.known, row.because};
    if (sized) cells.insert(cells.begin() + 1, gib(row.bytes.value_or(0)));
    columns.add(cells);
  }
  return fmt::format("\n{}\n", title) + columns.text("  ");
}

std::string explanation_json(const Report& report, const search::Explanation& explanation,
                             std::span<const Known> evidence) {
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
  out["evidence"] = Json::array();
  for (const Known& row : evidence) {
    Json one = {{"of", row.of}, {"component", row.component}, {"known", row.known}, {"because", row.because}};
    if (row.bytes) one["bytes"] = *row.bytes;
    out["evidence"].push_back(std::move(one));
  }
  return dump(out);
}

}  // namespace headroom::writers
