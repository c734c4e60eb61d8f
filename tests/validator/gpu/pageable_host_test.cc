#include "validator/memory/pageable_host.h"

#include <gtest/gtest.h>

#include <cstring>

namespace headroom::gpu {
namespace {

TEST(PageableHost, GivesBackABlockForTheNextRequestOfItsSizeAlone) {
  PageableHost host;
  char* first = host.allocate(1 << 20);
  char* second = host.allocate(1 << 20);
  ASSERT_NE(first, nullptr);
  ASSERT_NE(first, second);
  std::memset(first, 1, 1 << 20);
  host.free(first, 1 << 20);
  char* other = host.allocate(1 << 19);
  EXPECT_NE(other, first);
  EXPECT_EQ(host.allocate(1 << 20), first);
  EXPECT_NE(host.allocate(1 << 20), first);
  host.free(second, 1 << 20);
  host.free(other, 1 << 19);
}

TEST(PageableHost, MoreThanTheAddressSpaceIsRefused) {
  PageableHost host;
  EXPECT_EQ(host.allocate(Bytes{1} << 60), nullptr);
}

}  // namespace
}  // namespace headroom::gpu
