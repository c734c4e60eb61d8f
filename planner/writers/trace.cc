#include "planner/writers/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/writers/report_json.h"
#include "planner/writers/table.h"

namespace headroom::writers {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLeast = 1;  // microseconds: a phase without seconds is seen too

Json counter(std::int64_t device, const std::string& name, double at, Json values) {
  return {{"name", name}, {"ph", "C"}, {"pid", device}, {"ts", at}, {"args", std::move(values)}};
}

void add_device(const DeviceReport& device, Json& events) {
  events.push_back({{"name", "process_name"},
                    {"ph", "M"},
                    {"pid", device.device},
                    {"args", {{"name", device_name(device)}}}});
  double at = 0;
  for (const PhaseReport& phase : device.phases) {
    if (!phase.within.empty()) continue;  // its time is in the row that covers it
    const double duration = std::max(kLeast, std::round(phase.seconds * 1e6));
    events.push_back({{"name", phase.phase},
                      {"cat", "phase"},
                      {"ph", "X"},
                      {"pid", device.device},
                      {"tid", 1},
                      {"ts", at},
                      {"dur", duration},
                      {"args", {{"step", phase.step}, {"peak_device", phase.peak_device}}}});
    events.push_back(counter(device.device, "device, at each phase's peak", at, components_json(phase.at_peak_device)));
    for (const ProcessPhase& process : phase.processes)
      events.push_back(counter(device.device, fmt::format("{} rank {}", process.process, process.rank), at,
                               {{"allocated", process.peak_allocated},
                                {"only reserved", process.peak_reserved - process.peak_allocated}}));
    events.push_back(counter(device.device, "host memory of the node", at, {{"bytes", phase.peak_host}}));
    at += duration;
  }
}

}  // namespace

std::string trace(const Report& report) {
  Json events = Json::array();
  for (const DeviceReport& device : report.devices) add_device(device, events);
  return dump({{"displayTimeUnit", "ms"},
               {"otherData", {{"title", report.title}, {"verdict", verdict(report)}}},
               {"traceEvents", std::move(events)}});
}

}  // namespace headroom::writers
