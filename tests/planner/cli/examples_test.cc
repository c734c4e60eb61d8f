#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"

namespace headroom::cli {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST(Examples, EveryShippedConfigurationIsJudged) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(test::source("configs/examples"))) {
    if (!entry.is_regular_file()) continue;
    SCOPED_TRACE(entry.path());
    const Outcome outcome = run_words({"check", entry.path(), "--steps", "2"});
    EXPECT_THAT(outcome.code, AnyOf(kDone, kOver)) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    ++count;
  }
  EXPECT_GE(count, 10u);
}

/// What `plan` writes is judged as it was promised: the run did not fit, the written one does.
TEST(Examples, WhatAPlanWritesPassesTheGate) {
  const std::string before = test::source("configs/examples/verl/qwen2.5-7b-grpo-8xh100.yaml");
  const std::string after = std::filesystem::path(::testing::TempDir()) / "planned.yaml";
  ASSERT_EQ(run_words({"check", before, "--budget", "56GiB"}).code, kOver);
  const Outcome planned = run_words({"plan", before, "--budget", "56GiB", "--vary", "token_budget", "--vary",
                                     "gpu_memory_utilization", "--top", "3", "--yaml", after});
  ASSERT_EQ(planned.code, kDone) << planned.err;
  const Outcome checked = run_words({"check", after, "--budget", "56GiB"});
  EXPECT_EQ(checked.code, kDone) << checked.err;
  EXPECT_THAT(checked.out, HasSubstr(": fits: "));
  std::filesystem::remove(after);
}

}  // namespace
}  // namespace headroom::cli
