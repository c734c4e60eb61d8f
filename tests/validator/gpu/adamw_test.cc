#include "validator/kernels/adamw.h"

#include "tests/validator/exact_adamw.h"
#include "tests/validator/gpu/gpu_test.h"

namespace headroom::gpu {
namespace {

class AdamWTest : public GpuKernelTest {};
HEADROOM_ALL_FLOATS(AdamWTest);

TEST_P(AdamWTest, StepsMatchTheReference) {
  for (std::int64_t n : {5, 10'000}) {
    for (bool with_master : {false, true}) {
      if (with_master && dtype() == DType::fp32) continue;
      auto p = normal(n), g = normal(n);
      std::vector<double> zeros(p.size());
      // Without a master copy all states have the weights' dtype, as where PyTorch optimises them directly.
      const DType states = with_master ? DType::fp32 : dtype();
      const DeviceArray weight(dtype(), p), gradient(dtype(), g), master(DType::fp32, p),
          first(states, zeros), second(states, zeros);
      ExactAdamW exact{p, zeros, zeros};
      for (int t = 1; t <= 2; ++t) {
        EXPECT_OK(adamw({.weight_dtype = dtype(),
                         .gradient_dtype = dtype(),
                         .state_dtype = states,
                         .n = n,
                         .parameter = weight.data(),
                         .master = with_master ? master.as<float>() : nullptr,
                         .gradient = gradient.data(),
                         .first = first.data(),
                         .second = second.data(),
                         .learning_rate = 0.01f,
                         .beta2 = 0.95f,
                         .decay = 0.1f,
                         .gradient_scale = 0.5f,
                         .step = t},
                        stream()));
        exact.step(g, 0.5, t);
      }
      if (with_master) {
        EXPECT_LT(relative_error(master.read(), exact.p), 1e-5);
      }
      EXPECT_LT(relative_error(weight.read(), exact.p), bound());
      EXPECT_LT(relative_error(first.read(), exact.m), bound());
      EXPECT_LT(relative_error(second.read(), exact.v), bound());
    }
  }
}

}  // namespace
}  // namespace headroom::gpu
