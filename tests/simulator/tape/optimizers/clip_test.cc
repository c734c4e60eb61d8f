#include <gtest/gtest.h>

#include "simulator/memory/counting_memory.h"
#include "simulator/memory/forwarding_memory.h"
#include "simulator/tape/optimizers/adamw.h"

namespace headroom::tape {
namespace {

/// Keeps what collectives are asked for.
class Collectives final : public ForwardingMemory {
 public:
  using ForwardingMemory::ForwardingMemory;
  bool wants_operations() const override { return true; }
  void run(const Operation& operation) override {
    if (operation.kind != OperationKind::all_reduce) return;
    ranks.push_back(operation.sizes[0]);
    elements.push_back(operation.outputs[0].elements);
  }
  std::vector<std::int64_t> ranks, elements;
};

struct Clipped {
  explicit Clipped(const GradientShards& shards) {
    std::vector<Tensor> parameters;
    for (const std::int64_t rows : {3, 5}) {
      parameters.push_back(tape.empty({rows, 7}, DType::fp32, 0));
      tape.set_grad(parameters.back(), tape.empty({rows, 7}, DType::fp32, 0));
    }
    clip_grad_norm(tape, parameters, shards);
  }
  CountingMemory counts;
  Collectives asked{counts};
  Tape tape{asked};
};

TEST(ClipGradNorm, SumsTheNormOfFlatShardsOverTheirRanks) {
  const Clipped run({.ranks = 4});
  EXPECT_EQ(run.asked.ranks, std::vector<std::int64_t>{4});
  EXPECT_EQ(run.asked.elements, std::vector<std::int64_t>{1});
}

TEST(ClipGradNorm, SumsTheSquaresOfEveryDtensorOverItsRanks) {
  const Clipped run({.ranks = 4, .dtensor = true});
  EXPECT_EQ(run.asked.ranks, std::vector<std::int64_t>{4});
  EXPECT_EQ(run.asked.elements, std::vector<std::int64_t>{2}) << "one a parameter";
}

TEST(ClipGradNorm, AloneAsksNobody) {
  EXPECT_TRUE(Clipped({}).asked.ranks.empty());
  EXPECT_TRUE(Clipped({.ranks = 1, .dtensor = true}).asked.ranks.empty());
}

}  // namespace
}  // namespace headroom::tape
