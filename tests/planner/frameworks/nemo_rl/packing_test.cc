#include "planner/frameworks/nemo_rl/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom::nemo_rl {
namespace {

using Rows = std::vector<std::vector<std::int64_t>>;
using testing::ElementsAre;

Rows packed(std::vector<std::int64_t> lengths, std::int64_t capacity) { return packed_rows(lengths, capacity); }

TEST(NemoPacking, LargeSequencesGetAMediumOneEach) {
  EXPECT_EQ(packed({55, 45, 60, 35, 40}, 100), (Rows{{60, 40}, {55, 45}, {35}}));
}

/// From the last row back, the smallest and the largest that fits beside it.
TEST(NemoPacking, PairsOfSmallOnesFillRowsWithoutMediumOnes) {
  EXPECT_EQ(packed({60, 51, 17, 20, 25, 30}, 100), (Rows{{60, 25}, {51, 17, 30}, {20}}));
}

TEST(NemoPacking, WhatFitsNowhereOpensRows) {
  EXPECT_EQ(packed({30, 30, 30, 30}, 100), (Rows{{30, 30, 30}, {30}}));
  EXPECT_TRUE(packed({}, 100).empty());
}

TEST(NemoPacking, NothingIsLostAndNoRowOverflows) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 200; ++i) lengths.push_back(1 + i * 7919 % 1000);
  std::vector<std::int64_t> all;
  for (const auto& row : packed_rows(lengths, 1000)) {
    std::int64_t sum = 0;
    for (const std::int64_t length : row) sum += length;
    EXPECT_LE(sum, 1000);
    all.insert(all.end(), row.begin(), row.end());
  }
  EXPECT_THAT(all, testing::UnorderedElementsAreArray(lengths));
}

TEST(NemoPacking, RectanglesArePaddedToTheirLongest) {
  EXPECT_EQ(dynamic_rows(std::vector<std::int64_t>{500, 70, 60, 100}, 256, 64), (Rows{{128, 128}, {128}, {500}}));
}

}  // namespace
}  // namespace headroom::nemo_rl
