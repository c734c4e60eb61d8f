#include "simulator/report/report.h"

namespace headroom {

PeakPlace highest(const Report& report) {
  PeakPlace best;
  for (const DeviceReport& device : report.devices)
    for (const PhaseReport& phase : device.phases)
      if (best.phase == nullptr ||
          phase.peak_device + phase.margin > best.phase->peak_device + best.phase->margin)
        best = {&device, &phase};
  return best;
}

}  // namespace headroom
