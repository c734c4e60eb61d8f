#include "planner/configuration/balanced_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include <fstream>

#include "tests/support/data.h"

namespace headroom {
namespace {

using ::testing::ElementsAre;

TEST(BalancedBatches, SpreadWorkEvenly) {
  const std::int64_t work[] = {8, 7, 6, 5, 4};
  const auto parts = balanced_parts(work, 2);
  std::int64_t first = 0;
  for (const std::size_t i : parts[0]) first += work[i];
  EXPECT_NEAR(static_cast<double>(first), 15, 1);
  EXPECT_EQ(parts[0].size() + parts[1].size(), 5u);
}

TEST(BalancedBatches, TakeOneBatchWhatFitsOne) {
  const std::int64_t lengths[] = {3, 1, 2};
  EXPECT_THAT(budgeted_batches(lengths, 6), ElementsAre(ElementsAre(3, 1, 2)));
  EXPECT_EQ(budgeted_batches(lengths, 1).size(), 3u);
}

/// Micro-batches that a trainer formed out of a budget, found again from their sequences: the same sums.
TEST(BalancedBatches, AreThoseOfARecordedRun) {
  std::ifstream file(test::data("verl-recorded/w1-q05-fsdp2-dyn.json"));
  const nlohmann::json run = nlohmann::json::parse(file);
  const auto sums = [](const std::vector<std::vector<std::int64_t>>& batches) {
    std::vector<std::int64_t> out;
    for (const auto& batch : batches) {
      out.push_back(0);
      for (const std::int64_t tokens : batch) out.back() += tokens;
    }
    std::sort(out.begin(), out.end());
    return out;
  };
  int compared = 0;
  for (const nlohmann::json& phase : run["phases"]) {
    if (!phase.contains("micro_batches")) continue;
    const auto recorded = phase["micro_batches"].get<std::vector<std::vector<std::int64_t>>>();
    std::vector<std::int64_t> all;
    for (const auto& batch : recorded) all.insert(all.end(), batch.begin(), batch.end());
    EXPECT_EQ(sums(budgeted_batches(all, 6144)), sums(recorded));
    ++compared;
  }
  EXPECT_EQ(compared, 9);
}

}  // namespace
}  // namespace headroom
