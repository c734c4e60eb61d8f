#include "simulator/trainer/repeat_scope.h"

#include <gtest/gtest.h>

namespace headroom::trainer {
namespace {

/// What the runs that are made of `all` stand for together.
double counted(std::int64_t all) {
  double repeat = 1, sum = 0;
  for (std::int64_t running = 1; running <= shown_runs(all); ++running) {
    const RepeatScope scope(&repeat, running, all);
    sum += repeat;
  }
  EXPECT_EQ(repeat, 1) << "left set behind the scope";
  return sum;
}

TEST(RepeatScope, CountsEveryRunOnce) {
  for (const std::int64_t all : {1, 2, 3, 4, 5, 64}) EXPECT_EQ(counted(all), static_cast<double>(all));
}

TEST(RepeatScope, TakesNobodyThatCounts) {
  const RepeatScope scope(nullptr, 2, 64);
  EXPECT_EQ(shown_runs(64), 3);
}

}  // namespace
}  // namespace headroom::trainer
