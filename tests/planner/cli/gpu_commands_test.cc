#include <gtest/gtest.h>

#include <algorithm>

#include "planner/cli/command.h"
#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"
#include "validator/validate.h"

namespace headroom::cli {
namespace {

/// Commands that need a GPU, on a machine without a usable one: one sentence, exit 2, nothing else.
void expect_one_sentence(const std::vector<std::string>& words) {
  const Outcome outcome = run_words(commands(), words);
  EXPECT_EQ(outcome.code, kBadInput) << words[0];
  EXPECT_EQ(outcome.out, "");
  const std::string& text = outcome.err;
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
  const std::string measured = test::source("validator/results/h100-2026-11-28/calibrate.json").string();
  const Outcome outcome = run_words(commands(), {"calibrate", "--from", measured, "--profile", "-"});
  EXPECT_EQ(outcome.code, kDone) << outcome.err;
  EXPECT_EQ(outcome.out.find("name: NVIDIA H100 80GB HBM3\n"), 0u) << outcome.out.substr(0, 200);
}

TEST(GpuCommands, AProfileLeavesTheMeasuredMachinesOwnMemoryOutUnlessAsked) {
  const std::string measured = test::source("validator/results/h100-2026-11-28/calibrate.json").string();
  const auto profile = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"calibrate", "--from", measured, "--profile", "-"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run_words(commands(), words);
    EXPECT_EQ(outcome.code, kDone) << outcome.err;
    return outcome.out;
  };
  EXPECT_EQ(profile({}).find("physical memory"), std::string::npos);
  EXPECT_NE(profile({"--host-memory"}).find("physical memory"), std::string::npos);
}

TEST(GpuCommands, FlagsThatDoNothingBesideAnEarlierMeasurementAreRefused) {
  const std::string measured = test::source("validator/results/h100-2026-11-28/calibrate.json").string();
  expect_one_sentence({"calibrate", "--from", measured, "--kernels"});
  expect_one_sentence({"calibrate", "--from", measured, "--nproc", "2"});
}

}  // namespace
}  // namespace headroom::cli
