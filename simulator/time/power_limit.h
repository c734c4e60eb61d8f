#pragma once

#include "simulator/hardware/hardware.h"
#include "simulator/time/seconds.h"

namespace headroom {

/// What a stretch of work takes of a card that keeps its power limit. Kernels are timed in bursts of milliseconds from an
/// idle card; work that lasts demands more power than the card may draw, and the card lowers its clock until it fits.
/// Products give way, kernels bound by memory hardly. By how much depends on the share of the time in which products run:
/// beside waiting for the host there is power to spare.
/// `burst`: what was waited for; `ran`: what the device did in that time, whether anything waited for it or not.
Seconds at_power_limit(Seconds burst, const Seconds& ran, const MatrixRates& rates);

}  // namespace headroom
