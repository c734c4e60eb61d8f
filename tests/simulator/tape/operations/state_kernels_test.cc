#include "simulator/tape/operations/state_kernels.h"

#include <gtest/gtest.h>

#include "simulator/memory/counting_memory.h"
#include "simulator/tape/core/engine.h"
#include "simulator/tape/operations/reduce.h"

namespace headroom::tape {
namespace {

constexpr std::int64_t kBatch = 2, kTokens = 256, kHeads = 8, kKey = 64, kValue = 128, kChunk = 64;

struct StateKernels : testing::Test {
  Tensor leaf(const Shape& shape, DType dtype = DType::bf16) {
    Tensor out = tape.empty(shape, dtype, 0);
    out->requires_grad = true;
    return out;
  }
  CountingMemory memory;
  Tape tape{memory};
  Engine engine{tape};
};

TEST_F(StateKernels, DeltaRuleKeepsNormalisedCopiesAndATriangleAChunk) {
  const Tensor query = leaf({kBatch, kTokens, kHeads, kKey}), key = leaf({kBatch, kTokens, kHeads, kKey});
  const Tensor value = leaf({kBatch, kTokens, kHeads, kValue});
  const Tensor decay = leaf({kBatch, kTokens, kHeads}, DType::fp32), beta = leaf({kBatch, kTokens, kHeads});
  const Bytes before = memory.live();
  Tensor out = chunk_gated_delta_rule(query, key, value, decay, beta, kChunk, nullptr);
  // Queries, keys, triangles and the result in bf16; two deviations and the sums of decays in fp32.
  const Bytes numbers = kBatch * kTokens * kHeads;
  EXPECT_EQ(memory.live() - before, numbers * ((2 * kKey + kChunk + kValue) * 2 + 3 * 4));
  {
    const Tensor loss = mean(out);
    out.reset();
    backward(engine, loss);
  }
  // Gradients of all five.
  EXPECT_EQ(memory.live() - before, numbers * ((2 * kKey + kValue) * 2 + 4 + 2));
}

TEST_F(StateKernels, DeltaRulesStatesOfAllChunksGoWithTheForward) {
  const GradMode no_grad(tape, false);
  const Tensor query = leaf({kBatch, kTokens, kHeads, kKey}), key = leaf({kBatch, kTokens, kHeads, kKey});
  const Tensor value = leaf({kBatch, kTokens, kHeads, kValue});
  const Tensor decay = leaf({kBatch, kTokens, kHeads}, DType::fp32), beta = leaf({kBatch, kTokens, kHeads});
  const Bytes before = memory.live();
  Tensor last;
  Tensor out = chunk_gated_delta_rule(query, key, value, decay, beta, kChunk, &last);
  EXPECT_EQ(memory.live() - before,
            kBatch * kHeads * (kTokens * kValue * 2 + kKey * kValue * 4));  // the result and the last state
}

TEST_F(StateKernels, ConvolutionKeepsItsInput) {
  Tensor weight = leaf({512, 1, 4});
  const Bytes before = memory.live();
  Tensor out = causal_conv1d(leaf({kBatch, kTokens, 512}), weight, {});
  EXPECT_EQ(memory.live() - before, 2 * kBatch * kTokens * 512 * 2);
}

TEST_F(StateKernels, Mamba2KeepsTheProjectionAndTheScansResult) {
  constexpr std::int64_t kGroups = 2, kState = 128, kHead = 64, kValues = kHeads * kHead,
                         kChannels = kValues + 2 * kGroups * kState;
  const Tensor convolution = leaf({kChannels, 1, 4}), bias = leaf({kChannels}), dt = leaf({kHeads}),
               decay = leaf({kHeads}, DType::fp32), skip = leaf({kHeads}), norm = leaf({kValues}),
               output = leaf({512, kValues}), none;
  const Tensor projected = leaf({kBatch, kTokens, kValues + kChannels + kHeads});
  const Mamba2Weights weights{convolution, bias, dt, decay, skip, norm, output, none};
  const Mamba2Sizes sizes{kHeads, kGroups, kState, kHead, 128};
  { const Tensor warm = mamba2_combined(projected, weights, sizes); }  // the product's workspace stays
  const Bytes before = memory.live();
  const Tensor out = mamba2_combined(projected, weights, sizes);
  const Bytes rows = kBatch * kTokens;
  EXPECT_EQ(memory.live() - before, rows * ((kValues + 512) * 2 + kGroups * 4));
}

}  // namespace
}  // namespace headroom::tape
