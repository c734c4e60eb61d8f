#include "simulator/hardware/hardware.h"

#include <algorithm>
#include <cmath>

namespace headroom {

double EfficiencyCurve::seconds(double ideal) const {
  if (points_.empty() || ideal <= 0) return ideal;
  if (ideal <= points_.front().seconds) return ideal / points_.front().fraction;
  if (ideal >= points_.back().seconds) return ideal / points_.back().fraction;
  const auto above = std::upper_bound(points_.begin(), points_.end(), ideal,
                                      [](double x, const Point& point) { return x < point.seconds; });
  const auto below = above - 1;
  const double t = std::log(ideal / below->seconds) / std::log(above->seconds / below->seconds);
  return ideal / std::lerp(below->fraction, above->fraction, t);
}

double MatrixRates::of(DType dtype) const {
  const auto own = [&] {
    switch (dtype) {
      case DType::bf16:
        return bf16;
      case DType::fp16:
        return fp16;
      case DType::fp8:
        return fp8;
      case DType::int8:
        return int8;
      case DType::nf4:
        return bf16 > 0 ? bf16 : fp16;
      default:
        return fp32;
    }
  }();
  return own > 0 ? own : fp32;
}

}  // namespace headroom
