#include "planner/cli/gate/remembered.h"

#include <gtest/gtest.h>

#include <atomic>

#include "models/base/parallel.h"
#include "simulator/hardware/hardware.h"
#include "simulator/job/job.h"

namespace headroom::cli {
namespace {

class Remembered : public ::testing::Test {
 protected:
  static Job job(const std::string& name, std::int64_t prompts = 8) {
    Job out;
    out.name = name;
    out.batch.prompts = prompts;
    return out;
  }
  std::atomic<int> runs = 0;
  Hardware card;
  Executor executor = remembered([this](const Job& job, const Hardware&) -> Result<Report> {
    ++runs;
    if (job.batch.prompts == 0) return fail("no prompts");
    Report report;
    report.title = job.name;
    report.framework = std::to_string(job.batch.prompts);
    return report;
  });
};

TEST_F(Remembered, RunsEqualJobsOnce) {
  EXPECT_EQ(executor(job("a"), card)->title, "a");
  Job other = job("b");
  other.assumptions = {"a token is a token"};
  other.not_modelled = {"x"};
  const Result<Report> known = executor(other, card);
  EXPECT_EQ(known->title, "b");
  EXPECT_EQ(known->framework, "8");
  EXPECT_EQ(runs, 1);
}

TEST_F(Remembered, RunsOtherJobsAndOtherCardsToo) {
  EXPECT_EQ(executor(job("a"), card)->framework, "8");
  EXPECT_EQ(executor(job("a", 9), card)->framework, "9");
  Job steps = job("a");  // nothing that the shelf is named after
  steps.steps = 7;
  (void)executor(steps, card);
  card.name = "another";
  (void)executor(job("a"), card);
  EXPECT_EQ(runs, 4);
}

TEST_F(Remembered, RemembersWhatCannotBeRun) {
  EXPECT_EQ(executor(job("a", 0), card).error().message, "no prompts");
  EXPECT_EQ(executor(job("b", 0), card).error().message, "no prompts");
  EXPECT_EQ(runs, 1);
}

TEST_F(Remembered, ThreadsWaitForEachOther) {
  std::atomic<int> right = 0;
  parallel_for(64, 8, [&](std::size_t i) {
    const std::string name = std::to_string(i);
    const Result<Report> report = executor(job(name, 1 + static_cast<std::int64_t>(i % 4)), card);
    if (report && report->title == name) ++right;
  });
  EXPECT_EQ(right, 64);
  EXPECT_EQ(runs, 4);
}

}  // namespace
}  // namespace headroom::cli
