#include "simulator/tape/megatron/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace headroom::tape::megatron {
namespace {

/// The most pieces between forward and backward at one time.
std::int64_t held(const std::vector<PipelineStep>& steps) {
  std::int64_t now = 0, most = 0;
  for (const PipelineStep& step : steps) {
    now += step.forward ? 1 : -1;
    most = std::max(most, now);
  }
  return most;
}

TEST(PipelineSchedule, HoldsAsManyMicroBatchesAsStagesFollow) {
  for (std::int64_t p = 1; p <= 5; ++p)
    for (std::int64_t r = 0; r < p; ++r)
      for (const std::int64_t m : {1, 2, 4, 9})
        EXPECT_EQ(held(pipeline_schedule(p, 1, r, m)), std::min(p - r, m)) << p << " " << r << " " << m;
}

TEST(PipelineSchedule, InterleavedHoldsWarmUpAndOneMore) {
  for (const std::int64_t p : {2, 4})
    for (const std::int64_t v : {2, 3})
      for (std::int64_t r = 0; r < p; ++r)
        for (const std::int64_t groups : {1, 2, 4}) {
          const std::int64_t m = p * groups;
          EXPECT_EQ(held(pipeline_schedule(p, v, r, m)), std::min(2 * (p - r - 1) + (v - 1) * p + 1, v * m));
        }
  EXPECT_EQ(held(pipeline_schedule(4, 2, 0, 16)), 4 * 2 + 4 - 1);
}

TEST(PipelineSchedule, EveryPieceGoesForwardOnceThenBackOnce) {
  for (const std::int64_t v : {1, 2, 3}) {
    std::set<std::pair<std::int64_t, std::int64_t>> open, closed;
    for (const PipelineStep& step : pipeline_schedule(4, v, 1, 12)) {
      const std::pair key{step.chunk, step.micro_batch};
      if (step.forward) {
        EXPECT_TRUE(open.insert(key).second);
      } else {
        EXPECT_TRUE(open.contains(key));
        EXPECT_TRUE(closed.insert(key).second);
      }
    }
    EXPECT_EQ(static_cast<std::int64_t>(closed.size()), 12 * v);
    EXPECT_EQ(open, closed);
  }
}

TEST(PipelineSchedule, FewMicroBatchesReachTheHighestHolding) {
  for (const std::int64_t v : {1, 2, 3})
    for (std::int64_t r = 0; r < 4; ++r) {
      const std::int64_t few = distinct_micro_batches(4, v, 64);
      EXPECT_LT(few, 64);
      EXPECT_EQ(held(pipeline_schedule(4, v, r, few)), held(pipeline_schedule(4, v, r, 64)));
    }
}

}  // namespace
}  // namespace headroom::tape::megatron
