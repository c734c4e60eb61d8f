#include "planner/frameworks/verl/read.h"

#include <gmock/gmock.h>

#include "planner/frameworks/registry.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

TEST(VerlRead, FindsTheFrameworkOfItsExample) {
  const std::vector<std::string> paths{
      test::source("configs/examples/verl/qwen2.5-7b-grpo-8xh100.yaml").string()};
  const auto read = read_job(paths, {});
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->job.framework, "verl");
  EXPECT_TRUE(read->warnings.empty());
  EXPECT_EQ(read->job.roles.size(), 2U);
  EXPECT_EQ(read->job.batch.sequences(), 2048);
}

}  // namespace
}  // namespace headroom
