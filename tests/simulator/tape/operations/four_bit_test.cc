#include "simulator/tape/operations/four_bit.h"

#include <gtest/gtest.h>

#include "simulator/memory/counting_memory.h"
#include "simulator/tape/core/engine.h"
#include "simulator/tape/operations/reduce.h"

namespace headroom::tape {
namespace {

constexpr std::int64_t kTokens = 8, kIn = 1024, kOut = 512, kElements = kIn * kOut;

struct FourBit : testing::Test {
  CountingMemory memory;
  Tape tape{memory};
  Engine engine{tape};
};

// An element takes half a byte, a sixty-fourth for its scale, and one part in 4,096 for that scale's.
TEST_F(FourBit, AWeightTakesHalfAByteAndItsScales) {
  const Bytes before = memory.live();
  const Tensor weight = tape.parameter({kOut, kIn}, DType::nf4, false);
  EXPECT_EQ(memory.live() - before, kElements / 2);
  const FourBitScales scales(tape, kElements);
  const Bytes small = 3 * 512 + 1024;  // what is no multiple of the allocator's unit: nested scales, codes, offset
  EXPECT_NEAR(static_cast<double>(memory.live() - before), static_cast<double>(kElements / 2 + kElements / 64),
              static_cast<double>(small));
}

TEST_F(FourBit, TheWideWeightIsThereOnlyDuringTheProduct) {
  const Tensor weight = tape.parameter({kOut, kIn}, DType::nf4, false);
  const FourBitScales scales(tape, kElements);
  Tensor input = tape.empty({kTokens, kIn}, DType::bf16, 0);
  input->requires_grad = true;
  { const Tensor first = linear_four_bit(input, weight, scales, {}); }  // the library's workspace stays
  const Bytes before = memory.live();
  memory.reset_peak();
  const Tensor out = linear_four_bit(input, weight, scales, {});
  EXPECT_EQ(memory.live() - before, kTokens * kOut * 2);
  EXPECT_GE(memory.peak() - before, kElements * 2);
  // Backward too; and of the weight there is no gradient.
  memory.reset_peak();
  backward(engine, mean(out));
  EXPECT_GE(memory.peak() - before, kElements * 2);
  EXPECT_FALSE(weight.grad().defined());
  EXPECT_TRUE(input.grad().defined());
}

}  // namespace
}  // namespace headroom::tape
