#pragma once

#include <span>
#include <vector>

#include "models/base/result.h"
#include "simulator/hardware/hardware.h"
#include "validator/measurements.h"

namespace headroom::gpu {

/// Work of `size` (flops or bytes) and the seconds that it took.
struct Timing {
  double size = 0, seconds = 0;
};

/// seconds = latency + size / rate.
struct LinearTime {
  double latency = 0;  ///< seconds, at least 0
  double rate = 0;     ///< size a second
};

/// The line that leaves the smallest sum of squared relative errors. Errors: fewer than two sizes, or times
/// that do not rise with size.
Result<LinearTime> fit_linear_time(std::span<const Timing> timings);

/// Fractions of `peak` that work of the line reaches, at ideal seconds from `shortest` to `longest` (both >
/// 0) in about equal ratios.
EfficiencyCurve curve_of(const LinearTime& line, double peak, double shortest, double longest);

/// A hardware profile from what one machine measured. Datasheet peaks (matrix units, links, network) come
/// from `base`, the profile of the same card where there is one; measured are memory, context, libraries,
/// communicators and every efficiency. What the probe's own process cannot measure (the code of PyTorch's
/// kernels, cuBLAS's workspace in PyTorch's allocator) stays `base`'s; sources say which is which. `notes`
/// gains a line for each part without a measurement.
/// The host's memory stays `base`'s: a lent machine's is not a node's.
Result<Hardware> fit_profile(const Measurements& measurements, const Hardware& base,
                             std::vector<std::string>& notes);

}  // namespace headroom::gpu
