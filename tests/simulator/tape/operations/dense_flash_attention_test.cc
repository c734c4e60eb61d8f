#include "simulator/tape/operations/dense_flash_attention.h"

#include <gtest/gtest.h>

#include <vector>

#include "simulator/memory/recording_memory.h"
#include "simulator/tape/core/engine.h"
#include "simulator/tape/operations/attention.h"
#include "simulator/tape/operations/reduce.h"
#include "simulator/tape/operations/views.h"

namespace headroom::tape {
namespace {

// --- Splits of the keys: few thread blocks are spread over the processors

TEST(KeySplits, EnoughBlocksAreLeftAlone) {
  EXPECT_EQ(key_splits(264, 264, 16), 1);
  EXPECT_EQ(key_splits(212, 264, 16), 1);
}

TEST(KeySplits, OneBlockOfKeysCannotBeSplit) {
  EXPECT_EQ(key_splits(8, 264, 1), 1);
}

TEST(KeySplits, FewBlocksFillOneWave) {
  // 32 blocks on 264 processors: eight parts fill 97 % of a wave, and seven are within 85 % of that.
  EXPECT_EQ(key_splits(32, 264, 64), 7);
  for (std::int64_t key_blocks = 1; key_blocks <= 64; ++key_blocks) {
    const std::int64_t splits = key_splits(32, 264, key_blocks);
    EXPECT_GE(splits, 1);
    EXPECT_LE(splits, key_blocks);
  }
}

// --- Which kernel takes what

class AttentionKernel : public ::testing::Test {
 protected:
  RecordingMemory memory;

  /// Allocations of one attention without gradients: 2 rows of 48 tokens.
  std::vector<Bytes> allocations(AttentionBackend preferred, DType dtype, std::int64_t d,
                                 std::int64_t key_heads) {
    Tape tape(memory, DeviceTraits{.attention = preferred});
    const GradMode no_grad(tape, false);
    const auto heads = [&](std::int64_t count) {
      return transpose(tape.empty({2, 48, count, d}, dtype, 0), 1, 2);
    };
    const Tensor q = heads(8), k = heads(key_heads), v = heads(key_heads);
    const std::size_t start = memory.events().size();
    const Tensor out = scaled_dot_product_attention(q, k, v);
    std::vector<Bytes> sizes;
    for (std::size_t i = start; i < memory.events().size(); ++i)
      if (memory.events()[i].kind == MemoryEvent::Kind::allocate) sizes.push_back(memory.events()[i].bytes);
    return sizes;
  }
};

constexpr Bytes kOut = 2 * 48 * 8 * 64 * 2, kSums = 2 * 48 * 8 * 4;

TEST_F(AttentionKernel, CudnnNeedsSeedOffsetAndScratch) {
  EXPECT_EQ(allocations(AttentionBackend::cudnn, DType::bf16, 64, 2), (std::vector<Bytes>{8, 8, kOut, 256}));
}

TEST_F(AttentionKernel, FlashHasItsSumsWithoutGradientsToo) {
  EXPECT_EQ(allocations(AttentionBackend::flash, DType::bf16, 64, 2),
            (std::vector<Bytes>{kOut, kSums, 16, 8}));
}

TEST_F(AttentionKernel, HeadsThatCudnnRefusesArePaddedForFlash) {
  const Bytes padded = 2 * 48 * 8 * 104 * 2;
  EXPECT_EQ(allocations(AttentionBackend::cudnn, DType::bf16, 100, 8),
            (std::vector<Bytes>{padded, padded, padded, padded, kSums, 16, 8}));
}

TEST_F(AttentionKernel, Fp32IsNotForFlash) {
  EXPECT_EQ(allocations(AttentionBackend::flash, DType::fp32, 64, 8),
            allocations(AttentionBackend::cudnn, DType::fp32, 64, 8));
}

TEST_F(AttentionKernel, GroupedHeadsLeaveTheEfficientKernelForScores) {
  EXPECT_EQ(allocations(AttentionBackend::efficient, DType::bf16, 64, 8), (std::vector<Bytes>{kOut}));
  EXPECT_EQ(allocations(AttentionBackend::efficient, DType::bf16, 64, 2),
            allocations(AttentionBackend::math, DType::bf16, 64, 2));
}

TEST_F(AttentionKernel, WideHeadsLeaveCudnnForFlashAndFlashForScores) {
  const std::vector<Bytes> flash = allocations(AttentionBackend::flash, DType::bf16, 256, 2);
  EXPECT_NE(allocations(AttentionBackend::cudnn, DType::bf16, 256, 2), flash) << "Hopper's cuDNN takes 256";
  for (const AttentionBackend preferred : {AttentionBackend::cudnn, AttentionBackend::flash}) {
    EXPECT_EQ(allocations(preferred, DType::bf16, 512, 2),
              allocations(AttentionBackend::math, DType::bf16, 512, 2));
    EXPECT_EQ(allocations(preferred, DType::bf16, 512, 8),
              allocations(AttentionBackend::efficient, DType::bf16, 512, 8));
  }
  EXPECT_EQ(allocations(AttentionBackend::efficient, DType::bf16, 100, 8),
            allocations(AttentionBackend::math, DType::bf16, 100, 8))
      << "rows of 200 bytes are not aligned";
}

}  // namespace
}  // namespace headroom::tape
