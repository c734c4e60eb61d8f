#include "planner/frameworks/shell/runner_count.h"

#include <gtest/gtest.h>

namespace headroom::shell {
namespace {

Result<std::optional<std::int64_t>> told(const std::string& words) {
  const Result<Reading> reading = read_script("#!/bin/sh\ntorchrun " + words + " train.py --lr 1\n", "run.sh", {});
  if (!reading || reading->launches.size() != 1) return fail(Error{.message = "expected one launch", .file = {}, .key = {}});
  return runner_count(reading->launches.front(), {"--nproc_per_node", "--nproc-per-node"});
}

TEST(RunnerCount, TakesNumbersInAnySpelling) {
  EXPECT_EQ(*told("--nproc_per_node 4"), 4);
  EXPECT_EQ(*told("--nproc-per-node=2"), 2);
  EXPECT_EQ(*told("--nproc_per_node 1:4"), 4);  // elastic: the most
}

TEST(RunnerCount, KnowsWhatTheMachineCounts) {
  EXPECT_EQ(*told(""), std::nullopt);
  EXPECT_EQ(*told("--nproc_per_node gpu"), std::nullopt);
}

TEST(RunnerCount, RefusesOthersAtTheirLine) {
  for (const char* words : {"--nproc_per_node 0", "--nproc_per_node=-1", "--nproc_per_node 1e18",
                            "--nproc_per_node eight", "--nproc_per_node 65537"}) {
    const auto count = told(words);
    ASSERT_FALSE(count) << words;
    EXPECT_TRUE(count.error().text().starts_with(
        "run.sh:2: --nproc_per_node: expected a whole number from 1 to 65536, found "))
        << count.error().text();
  }
}

}  // namespace
}  // namespace headroom::shell
