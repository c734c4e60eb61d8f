#include "simulator/job/response_lengths.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace headroom {
namespace {

/// The rate at which sequences end, a token, so that their mean is `mean` when all have ended at `cap`.
double ending_rate(double mean, double cap) {
  if (mean >= cap * 0.999) return 0;
  double low = 0, high = 1;  // the mean falls with the rate
  for (int i = 0; i < 40; ++i) {
    const double rate = (low + high) / 2;
    (-std::expm1(-rate * cap) / rate > mean ? low : high) = rate;
  }
  return (low + high) / 2;
}

}  // namespace

std::vector<double> response_quantiles(double mean, double cap, int parts) {
  std::vector<double> out(static_cast<std::size_t>(parts), cap);
  const double rate = ending_rate(mean, cap);
  if (rate <= 0) return out;
  for (int i = 0; i < parts; ++i) {
    const double left = 1 - (i + 0.5) / parts;  // of all, those that are longer
    out[static_cast<std::size_t>(i)] = std::min(cap, -std::log(left) / rate);
  }
  // The longest of many reaches the cap, or nearly so.
  out.back() = cap;
  return out;
}

double response_deviation(double mean, double cap) {
  const double rate = ending_rate(mean, cap);
  if (rate <= 0) return 0;
  // E[min(x, cap)^2] of an exponential distribution, less the square of E[min(x, cap)].
  const double squares = 2 / (rate * rate) * (1 - std::exp(-rate * cap) * (1 + rate * cap));
  const double expected = -std::expm1(-rate * cap) / rate;
  return std::sqrt(std::max(0.0, squares - expected * expected));
}

double largest_of(double count) {
  const double wanted = (count - 0.375) / (count + 0.25);
  double low = 0, high = 10;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (1 - std::erfc(middle / std::sqrt(2.0)) / 2 < wanted ? low : high) = middle;
  }
  return low;
}

}  // namespace headroom
