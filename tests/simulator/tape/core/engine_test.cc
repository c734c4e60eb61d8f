#include "simulator/tape/core/engine.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "simulator/memory/recording_memory.h"
#include "simulator/tape/core/checkpoint.h"
#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/linear.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape {
namespace {

class EngineTest : public ::testing::Test {
 protected:
  RecordingMemory memory;
  Tape tape{memory};
  Engine engine{tape};

  Tensor leaf(const Shape& shape, DType dtype = DType::fp32) { return tape.parameter(shape, dtype, true); }
  /// Sizes of allocations (positive) and frees (negative) since event `from`.
  std::vector<Bytes> flow(std::size_t from) const {
    std::vector<Bytes> sizes(memory.events().size()), out;
    for (const MemoryEvent& e : memory.events())
      if (e.kind == MemoryEvent::Kind::allocate) sizes[e.id] = e.bytes;
    for (std::size_t i = from; i < memory.events().size(); ++i) {
      const MemoryEvent& e = memory.events()[i];
      out.push_back(e.kind == MemoryEvent::Kind::allocate ? e.bytes : -sizes[e.id]);
    }
    return out;
  }
};

TEST_F(EngineTest, StorageLivesAsLongAsAView) {
  Tensor base = tape.empty({4, 8}, DType::fp32, 0);
  Tensor view = transpose(base, 0, 1);
  base.reset();
  EXPECT_EQ(memory.live(), 128);
  view.reset();
  EXPECT_EQ(memory.live(), 0);
}

TEST_F(EngineTest, FirstGradientIsKeptWithoutACopyAndTheNextIsAddedInPlace) {
  const Tensor w = leaf({10});
  for (int i = 0; i < 2; ++i) {
    Tensor loss = sum(mul_scalar(w));
    backward(engine, loss);
    EXPECT_EQ(memory.live(), 40 + 40 + 4) << "weight, gradient, loss";
  }
}

/// AccumulateGrad holds what it was given while its hooks run, a sharding runtime's reduction for one.
TEST_F(EngineTest, WhatIsAddedToAGradientStaysUntilTheHooksHaveRun) {
  const Tensor w = leaf({10});
  std::vector<Bytes> live;
  tape.leaf_hooks(w).accumulated.push_back([&](const Tensor&) { live.push_back(memory.live()); });
  for (int i = 0; i < 2; ++i) {
    Tensor loss = sum(mul_scalar(w));
    backward(engine, loss);
  }
  ASSERT_EQ(live.size(), 2u);
  EXPECT_EQ(live[1] - live[0], 40) << "the second gradient, beside the one that it was added to";
}

/// Every gradient that a formula gave is looked through, a byte an element; leaves take theirs as it is.
TEST_F(EngineTest, AnomalyDetectionLooksThroughEveryGradient) {
  const Tensor w = leaf({10});
  const auto bytes_of_one = [&](std::vector<Bytes> events) {
    return std::count(events.begin(), events.end(), 10) + std::count(events.begin(), events.end(), -10);
  };
  Tensor loss = sum(mul_scalar(w));
  std::size_t from = memory.events().size();
  backward(engine, loss);
  EXPECT_EQ(bytes_of_one(flow(from)), 0);
  engine.detect_anomaly();
  loss = sum(mul_scalar(w));
  from = memory.events().size();
  backward(engine, loss);
  EXPECT_EQ(bytes_of_one(flow(from)), 2 * 2) << "of the sum and of the product, there and gone";
}

TEST_F(EngineTest, GradientsAddInPlaceUnlessTheFirstOneIsAView) {
  const auto new_gradients = [&](const Shape& input) {
    const Tensor x = leaf(input), w = leaf({4, 4}), v = leaf({4, 4});
    Tensor hidden = mul_scalar(x);
    Tensor a = linear(hidden, w, {}), b = linear(hidden, v, {});
    Tensor loss = sum(add(std::move(a), std::move(b)));
    const std::size_t from = memory.events().size();
    backward(engine, loss);
    const std::vector<Bytes> events = flow(from);
    return std::count(events.begin(), events.end(), hidden.bytes());
  };
  EXPECT_EQ(new_gradients({3, 4}), 3) << "of each product (added in place), and of x";
  EXPECT_EQ(new_gradients({1, 3, 4}), 4) << "a linear over three dimensions hands on a view: the sum is new";
}

TEST_F(EngineTest, ProductsWithoutBiasMakeTheWeightGradientFirst) {
  const Tensor x = leaf({3, 4}), w = leaf({5, 4});
  Tensor loss = sum(linear(x, w, {}));
  const std::size_t from = memory.events().size();
  backward(engine, loss);
  const std::vector<Bytes> events = flow(from);
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events[0], 4);           // gradient of ones
  EXPECT_EQ(events[1], 80);          // dW
  EXPECT_EQ(events[2], 33'554'432);  // the autograd thread's workspace
  EXPECT_EQ(events[3], 48);          // dx
}

TEST_F(EngineTest, CheckpointKeepsOnlyTheInputAndRunsAgain) {
  const Tensor w = leaf({100});
  Tensor input = mul_scalar(w);
  Tensor out = checkpoint(tape,
                          [](const Tensor& in, std::span<const Tensor>) {
                            Tensor a = exp(in);
                            Tensor b = exp(std::move(a));
                            return silu(std::move(b));
                          },
                          input, {});
  input.reset();
  EXPECT_EQ(memory.live(), 3 * 400) << "weight, input, output; nothing from inside";
  Tensor loss = sum(std::move(out));
  const std::size_t from = memory.events().size();
  backward(engine, loss);
  // Ones; a and b anew, stopped before silu's kernel; three gradients; the input goes with the frame.
  EXPECT_EQ(flow(from),
            (std::vector<Bytes>{4, 400, 400, 400, 400, -400, -400, 400, -400, -400, -400, 400, -400, -4}));
}

}  // namespace
}  // namespace headroom::tape
