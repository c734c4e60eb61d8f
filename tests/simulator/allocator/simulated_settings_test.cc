#include "simulator/allocator/simulated_settings.h"

#include <gtest/gtest.h>

namespace headroom::allocator {
namespace {

TEST(SimulatedSettings, AreThoseOfTheNativeAllocator) {
  EXPECT_EQ(*parse_simulated_settings("max_split_size_mb:64"),
            *parse_allocator_settings("max_split_size_mb:64"));
  EXPECT_TRUE(parse_simulated_settings("backend:native"));
  const auto other = parse_simulated_settings("max_split_size_mb:64,backend:cudaMallocAsync");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().key, "backend");
  EXPECT_EQ(parse_simulated_settings("max_split:1").error().key,
            parse_allocator_settings("max_split:1").error().key);
}

}  // namespace
}  // namespace headroom::allocator
