#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace headroom::gpu {

/// ‖found - expected‖ / ‖expected‖; infinite when anything is not a number or the sizes differ.
inline double relative_error(const std::vector<double>& found, const std::vector<double>& expected) {
  if (found.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!std::isfinite(found[i])) return std::numeric_limits<double>::infinity();
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

}  // namespace headroom::gpu
