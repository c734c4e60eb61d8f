#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "planner/cli/command.h"
#include "planner/cli/run.h"
#include "tests/support/data.h"
#include "validator/validate.h"

namespace headroom::cli {
namespace {

/// Commands that need a GPU, on a machine without a usable one: one sentence, exit 2, nothing else.
void expect_one_sentence(const std::vector<std::string>& words) {
  std::istringstream in;
  std::ostringstream out, err;
  Streams streams{in, out, err};
  EXPECT_EQ(run(commands(), words, streams), kBadInput) << words[0];
  EXPECT_EQ(out.str(), "");
  const std::string text = err.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_EQ(text.find("headroom: "), 0u) << text;
  EXPECT_NE(text.find("expected"), std::string::npos) << text;
}

TEST(GpuCommands, WithoutAGpuSayWhatIsMissing) {
  if (gpu::available()) GTEST_SKIP() << "skipped: this machine has a GPU";
  const std::string recorded = test::data("rlhf/fr-llama.json").string();
  expect_one_sentence({"validate", "--framework", "torch", recorded});
  expect_one_sentence({"validate", "--framework", "torch", "--quick", recorded});
  expect_one_sentence(
      {"validate", "--framework", "torch", "--nproc", "2", test::data("rlhf/fsdp-q05-grpo.json").string()});
  expect_one_sentence({"calibrate"});
  expect_one_sentence({"calibrate", "--nproc", "2"});
}

TEST(GpuCommands, MoreRanksThanTheJobHasAreRefused) {
  expect_one_sentence(
      {"validate", "--framework", "torch", "--nproc", "3", test::data("rlhf/fsdp-q05-grpo.json").string()});
}

TEST(GpuCommands, AProfileNeedsNoGpuWhereMeasurementsExist) {
  std::istringstream in;
  std::ostringstream out, err;
  Streams streams{in, out, err};
  const std::string measured = test::source("validator/results/h100-2026-11-28/calibrate.json").string();
  EXPECT_EQ(run(commands(), {"calibrate", "--from", measured, "--profile", "-"}, streams), kDone)
      << err.str();
  EXPECT_EQ(out.str().find("name: NVIDIA H100 80GB HBM3\n"), 0u) << out.str().substr(0, 200);
}

}  // namespace
}  // namespace headroom::cli
