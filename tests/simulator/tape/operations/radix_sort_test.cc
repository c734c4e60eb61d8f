#include "simulator/tape/operations/radix_sort.h"

#include <gtest/gtest.h>

namespace headroom::tape {
namespace {

// What CUB's planner asks for, recorded in embeddings' gradients of 4,096 tokens (64 bits) and in gradients
// of indexed rows (a few hundred, one tile).
TEST(RadixSortScratch, IsOneByteWhereOneTileHoldsAll) {
  EXPECT_EQ(radix_sort_scratch(1), 1);
  EXPECT_EQ(radix_sort_scratch(344, 7), 1);
}

TEST(RadixSortScratch, HoldsSecondBuffersBinsAndHistograms) {
  EXPECT_EQ(radix_sort_scratch(4096), 2 * 32768 + 8 * 2048 + 1024 + 256 + 255);
}

TEST(RadixSortScratch, NeedsNoSecondBufferForOneDigit) {
  EXPECT_EQ(radix_sort_scratch(8192, 7), 2048 + 2 * 1024 + 256 + 255);
}

}  // namespace
}  // namespace headroom::tape
