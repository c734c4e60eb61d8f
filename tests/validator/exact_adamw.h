#pragma once

#include <cmath>
#include <vector>

namespace headroom::gpu {

/// AdamW in double precision, from the definition: learning rate 0.01, betas 0.9 and 0.95, epsilon 1e-8,
/// decay 0.1. What both the card's and the host's step are held to.
struct ExactAdamW {
  std::vector<double> p, m, v;

  /// Step `t`, from 1, with gradients `g` times `scale`.
  void step(const std::vector<double>& g, double scale, double t) {
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double slope = g[i] * scale;
      p[i] -= 0.01 * 0.1 * p[i];
      m[i] = 0.9 * m[i] + 0.1 * slope;
      v[i] = 0.95 * v[i] + 0.05 * slope * slope;
      p[i] -=
          0.01 / (1 - std::pow(0.9, t)) * m[i] / (std::sqrt(v[i]) / std::sqrt(1 - std::pow(0.95, t)) + 1e-8);
    }
  }
};

}  // namespace headroom::gpu
