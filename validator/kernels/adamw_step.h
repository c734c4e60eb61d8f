#pragma once

#include <cmath>
#include <cstdint>

#include "models/base/dtype.h"

namespace headroom::gpu {

/// One AdamW step over n elements in one pass, as PyTorch's fused implementation:
///   p -= lr * decay * p;  m = lerp(m, g, 1 - beta1);  v = beta2 v + (1 - beta2) g^2
///   p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
/// `parameter` has `weight_dtype`, the gradient `gradient_dtype`, both moments `state_dtype`. Where `master`
/// (fp32) is given it is the one updated, and `parameter` becomes its cast copy.
struct AdamW {
  DType weight_dtype = DType::fp32, gradient_dtype = DType::fp32, state_dtype = DType::fp32;
  std::int64_t n = 0;
  void* parameter = nullptr;
  float* master = nullptr;
  const void* gradient = nullptr;
  void* first = nullptr;
  void* second = nullptr;
  float learning_rate = 1e-3f, beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f, decay = 0.01f;
  float gradient_scale = 1.0f;  ///< clipping: the gradient is multiplied by this first
  std::int64_t step = 1;        ///< t, from 1
};

/// What of a step is the same for every element; bias corrections in double precision.
struct AdamWFactors {
  explicit AdamWFactors(const AdamW& a)
      : decay(1.0f - a.learning_rate * a.decay),
        beta1(a.beta1),
        beta2(a.beta2),
        epsilon(a.epsilon),
        step(static_cast<float>(static_cast<double>(a.learning_rate) / correction(a.beta1, a.step))),
        root_correction(static_cast<float>(1.0 / std::sqrt(correction(a.beta2, a.step)))),
        gradient_scale(a.gradient_scale) {}

  float decay, beta1, beta2, epsilon, step, root_correction, gradient_scale;

 private:
  static double correction(float beta, std::int64_t t) {
    return 1.0 - std::pow(static_cast<double>(beta), static_cast<double>(t));
  }
};

}  // namespace headroom::gpu
