#include "simulator/report/report.h"

#include <algorithm>

namespace headroom {

Bytes spare(const Report& report, const DeviceReport& device, const PhaseReport& phase) {
  return device.budget.value_or(report.budget) - phase.peak_device - phase.margin;
}

PeakPlace highest(const Report& report) {
  PeakPlace best;
  for (const DeviceReport& device : report.devices)
    for (const PhaseReport& phase : device.phases)
      if (best.phase == nullptr || spare(report, device, phase) < spare(report, *best.device, *best.phase))
        best = {&device, &phase};
  return best;
}

std::vector<const PhaseReport*> worst_steps(const DeviceReport& device) {
  std::vector<const PhaseReport*> rows;
  for (const PhaseReport& phase : device.phases) {
    const auto same = std::find_if(rows.begin(), rows.end(),
                                   [&](const PhaseReport* row) { return row->phase == phase.phase; });
    if (same == rows.end()) {
      rows.push_back(&phase);
    } else if (phase.peak_device + phase.margin > (*same)->peak_device + (*same)->margin) {
      *same = &phase;
    }
  }
  return rows;
}

Bytes spare(const Report& report) {
  const PeakPlace place = highest(report);
  return place.phase == nullptr ? report.budget : spare(report, *place.device, *place.phase);
}

}  // namespace headroom
