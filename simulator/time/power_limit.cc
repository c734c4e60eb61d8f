#include "simulator/time/power_limit.h"

#include <algorithm>
#include <cmath>

namespace headroom {
namespace {

/// Of a card's limit, the power where nothing runs, and beside it what a kernel draws that moves memory at the highest
/// clock. What kernels draw falls with what the lower clock leaves of products' rate, by the exponent; what moves memory
/// loses no time by it. Measured on H200, 700 W (validator/pytorch/measure_sustained.py, validator/results/
/// h200-2026-11-29-4): products for 32 and 59 % of the time, nothing else, draw 397 and 620 W; adding alone 629 W; products
/// keep 0.84 alone, 0.86 and 0.92 for 80 and 57 % of the time beside adding, 0.93 for 81 % beside nothing.
constexpr double kNothing = 126.0 / 700, kMemory = (629.0 - 126) / 700, kExponent = 2.21;
/// How long the card takes to notice: of the first quarter of a second products lost two thirds as much as later.
constexpr double kNoticed = 0.06;

}  // namespace

Seconds at_power_limit(Seconds burst, const Seconds& ran, const MatrixRates& rates) {
  const double total = burst.total(), products = std::min(ran[Spent::matrix], total), memory = ran[Spent::memory];
  if (total <= kNoticed || products <= 0 || rates.sustained >= 1) return burst;
  const double rest = std::max(0.0, total - products - memory), spare = 1 - kNothing;
  const double drawn = spare / std::pow(rates.sustained, kExponent);  // by products alone, which fill the limit then
  // What is drawn beyond the limit, over the whole stretch, where products keep `kept` of their rate.
  const auto beyond = [&](double kept) {
    const double clock = std::pow(kept, kExponent);
    return products / kept * (drawn * clock - spare) + memory * (kMemory * clock - spare) - rest * spare;
  };
  if (beyond(1) <= 0) return burst;
  double low = rates.sustained, high = 1;
  constexpr int kHalvings = 30;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (beyond(middle) > 0 ? high : low) = middle;
  }
  burst[Spent::matrix] += products * (1 - kNoticed / total) * (1 / low - 1);
  return burst;
}

}  // namespace headroom
