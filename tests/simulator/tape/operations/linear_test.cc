#include "simulator/tape/operations/linear.h"

#include <gtest/gtest.h>

#include "simulator/memory/recording_memory.h"
#include "simulator/tape/core/engine.h"
#include "simulator/tape/operations/reduce.h"

namespace headroom::tape {
namespace {

constexpr std::int64_t kTokens = 6, kIn = 16, kOut = 32;

struct Fixture {
  RecordingMemory memory;
  Tape tape{memory};
  Engine engine{tape};
  Tensor weight = tape.parameter({kOut, kIn}, DType::bf16, true);
  Tensor bias = tape.parameter({kOut}, DType::bf16, true);
  Tensor input = tape.parameter({1, kTokens, kIn}, DType::bf16, true);

  std::size_t live() const {
    std::size_t out = 0;
    for (const MemoryEvent& event : memory.events()) {
      out += event.kind == MemoryEvent::Kind::allocate;
      out -= event.kind == MemoryEvent::Kind::free;
    }
    return out;
  }
};

/// A weight whose data goes elsewhere while a graph holds it: PyTorch's own linear saves a view of the old data, which
/// stays; DeepSpeed's saves the parameter.
TEST(Zero3Linear, KeepsTheParameterAndNotItsData) {
  const auto left = [](bool spread) {
    Fixture f;
    f.tape.set_zero3_linears(spread);
    const Tensor out = linear(f.input, f.weight, {});
    const std::size_t before = f.live();
    f.tape.set_data(f.weight, f.tape.alias(f.tape.empty({0}, DType::bf16, 0), {kOut, kIn}));
    return before - f.live();
  };
  EXPECT_EQ(left(false), 0u);
  EXPECT_EQ(left(true), 1u);
}

/// It adds the bias in place: no fused product, so no cublasLt workspace, but for a matrix of rows.
TEST(Zero3Linear, FusesTheBiasOfAMatrixAlone) {
  Fixture f;
  f.tape.set_zero3_linears(true);
  const Bytes workspace = f.tape.traits().cublaslt_workspace;
  const auto fused = [&] {
    for (const MemoryEvent& event : f.memory.events())
      if (event.kind == MemoryEvent::Kind::allocate && event.bytes == workspace) return true;
    return false;
  };
  const Tensor rows = f.tape.parameter({kTokens, kIn}, DType::bf16, true);
  const Tensor wide = linear(f.input, f.weight, f.bias);
  EXPECT_FALSE(fused());
  const Tensor flat = linear(rows, f.weight, f.bias);
  EXPECT_TRUE(fused());
}

TEST(Zero3Linear, GivesEveryInputItsGradient) {
  Fixture f;
  f.tape.set_zero3_linears(true);
  Tensor loss = mean(linear(f.input, f.weight, f.bias));
  backward(f.engine, loss);
  EXPECT_EQ(f.weight.grad().elements(), kOut * kIn);
  EXPECT_EQ(f.bias.grad().elements(), kOut);
  EXPECT_EQ(f.input.grad().elements(), kTokens * kIn);
}

}  // namespace
}  // namespace headroom::tape
