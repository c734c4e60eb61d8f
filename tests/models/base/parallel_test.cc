#include "models/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <vector>

namespace headroom {
namespace {

TEST(Parallel, EveryIndexOnce) {
  for (const unsigned threads : {0U, 1U, 3U}) {
    std::vector<std::atomic<int>> seen(500);
    parallel_for(seen.size(), threads, [&](std::size_t i) { ++seen[i]; });
    for (const std::atomic<int>& count : seen) EXPECT_EQ(count, 1);
  }
  parallel_for(0, 4, [](std::size_t) { FAIL(); });
}

TEST(Parallel, WhatIsThrownComesBack) {
  const auto work = [](std::size_t i) {
    if (i == 7) throw std::bad_alloc();
  };
  EXPECT_THROW(parallel_for(100, 3, work), std::bad_alloc);
  EXPECT_THROW(parallel_for(100, 1, work), std::bad_alloc);
}

TEST(Parallel, NothingBeginsAfterAFailure) {
  std::atomic<int> begun{0};
  EXPECT_THROW(parallel_for(1000, 1,
                            [&](std::size_t) {
                              ++begun;
                              throw std::bad_alloc();
                            }),
               std::bad_alloc);
  EXPECT_EQ(begun, 1);
}

}  // namespace
}  // namespace headroom
