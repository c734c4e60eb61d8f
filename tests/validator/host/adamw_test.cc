#include "validator/host/adamw.h"

#include "tests/validator/exact_adamw.h"
#include "tests/validator/host/host_array.h"

namespace headroom::gpu {
namespace {

class AdamWOnHost : public HostTest {
 protected:
  /// Two steps; the largest relative error of parameters and both moments.
  void expect_steps(std::int64_t n, DType weights, DType gradients, DType states, bool with_master,
                    double bound) {
    auto p = normal(n), g = normal(n);
    std::vector<double> zeros(p.size());
    HostArray weight(weights, p), gradient(gradients, g), master(DType::fp32, p), first(states, zeros),
        second(states, zeros);
    ExactAdamW exact{p, zeros, zeros};
    for (int t = 1; t <= 2; ++t) {
      adamw_on_host({.weight_dtype = weights,
                     .gradient_dtype = gradients,
                     .state_dtype = states,
                     .n = n,
                     .parameter = weight.data(),
                     .master = with_master ? static_cast<float*>(master.data()) : nullptr,
                     .gradient = gradient.data(),
                     .first = first.data(),
                     .second = second.data(),
                     .learning_rate = 0.01f,
                     .beta2 = 0.95f,
                     .decay = 0.1f,
                     .gradient_scale = 0.5f,
                     .step = t});
      exact.step(g, 0.5, t);
    }
    if (with_master) {
      EXPECT_LT(relative_error(master.read(), exact.p), 1e-5);
    }
    EXPECT_LT(relative_error(weight.read(), exact.p), bound);
    EXPECT_LT(relative_error(first.read(), exact.m), bound);
    EXPECT_LT(relative_error(second.read(), exact.v), bound);
  }
};

// DeepSpeed's: everything in fp32.
TEST_F(AdamWOnHost, StepsMatchTheReference) {
  for (const std::int64_t n : {1, 1000, 300'001})
    expect_steps(n, DType::fp32, DType::fp32, DType::fp32, false, 1e-6);
}

// FSDP2's shards in two bytes an element, and a master copy beside half-width weights.
TEST_F(AdamWOnHost, TakesEveryWidth) {
  expect_steps(70'003, DType::bf16, DType::bf16, DType::bf16, false, 1.2e-2);
  expect_steps(70'003, DType::fp16, DType::fp16, DType::fp32, true, 2e-3);
  expect_steps(70'003, DType::bf16, DType::fp32, DType::fp32, true, 1e-2);
}

}  // namespace
}  // namespace headroom::gpu
