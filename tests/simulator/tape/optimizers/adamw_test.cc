#include "simulator/tape/optimizers/adamw.h"

#include <gtest/gtest.h>

#include "simulator/memory/counting_memory.h"

namespace headroom::tape {
namespace {

/// Two parameters of 1 MiB with gradients, optimized once.
struct Optimized {
  explicit Optimized(OptimizerKind kind) {
    std::vector<Tensor> parameters;
    for (int i = 0; i < 2; ++i) {
      parameters.push_back(tape.parameter({kMiB / 4}, DType::fp32, true));
      tape.set_grad(parameters.back(), tape.empty({kMiB / 4}, DType::fp32, 0));
    }
    AdamW::Form form;
    form.kind = kind;
    AdamW optimizer(tape, std::move(parameters), form);
    counts.reset_peak();
    optimizer.step();
    held = counts.components()[Component::optimizer];
    passing = counts.at_peak()[Component::temporaries];
  }
  CountingMemory counts;
  Tape tape{counts};
  Bytes held = 0, passing = 0;
};

TEST(AdamW, KeepsTwoMomentsAndTakesTheirRootsAtOnce) {
  const Optimized run(OptimizerKind::adamw);
  EXPECT_EQ(run.held, 4 * kMiB);
  EXPECT_EQ(run.passing, 2 * kMiB);
}

TEST(AdamW, IsStatelessAsPlainDescent) {
  const Optimized run(OptimizerKind::sgd);
  EXPECT_EQ(run.held, 0);
  EXPECT_EQ(run.passing, 2 * kMiB) << "gradients with the decay";
}

}  // namespace
}  // namespace headroom::tape
