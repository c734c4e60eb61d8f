#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"

namespace headroom::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kVerl = test::source("configs/examples/verl/qwen2.5-7b-grpo-8xh100.yaml");
const std::string kTorch = test::source("configs/examples/job/llama-3.2-1b-ppo-1xh100.yaml");

TEST(Verdicts, APoolsOwnBudgetDecidesAndIsTheOneShown) {
  const Outcome outcome = run_words({"estimate", kVerl, "--budget", "main=40GiB", "--json", "-"});
  EXPECT_EQ(outcome.code, kOver) << outcome.err;
  const auto report = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(report["devices"][0]["budget_bytes"], 40 * kGiB);
  EXPECT_THAT(run_words({"estimate", kVerl, "--budget", "main=40GiB"}).out,
              HasSubstr(" margin of 40.00 GiB"));
  EXPECT_FALSE(
      nlohmann::json::parse(run_words({"estimate", kVerl, "--json", "-"}).out)["devices"][0].contains(
          "budget_bytes"));
}

/// Between what the run needs and what its allocator takes when nothing holds it back, nobody knows.
TEST(Verdicts, WhatOnlyPassesByCachedMemoryIsLeftOpen) {
  const auto said = [](const char* budget) {
    return run_words({"check", kTorch, "--budget", budget, "--margin", "0"});
  };
  const Outcome roomy = run_words({"simulate", kTorch, "--json", "-"});
  ASSERT_EQ(roomy.code, kDone) << roomy.err;
  Bytes device = 0, reserved = 0, allocated = 0;
  const auto report = nlohmann::json::parse(roomy.out);
  for (const auto& phase : report["devices"][0]["phases"]) {
    if (phase["peak_device"] <= device) continue;
    device = phase["peak_device"];
    reserved = phase["processes"][0]["peak_reserved"];
    allocated = phase["processes"][0]["peak_allocated"];
  }
  ASSERT_GT(reserved - allocated, kGiB / 2);
  const auto size = [](Bytes bytes) { return std::to_string(bytes) + "B"; };
  EXPECT_EQ(said(size(device).c_str()).code, kDone);
  const Outcome open = said(size(device - (64 << 20)).c_str());
  EXPECT_EQ(open.code, kUndetermined);
  EXPECT_THAT(open.out, HasSubstr(": undetermined: "));
  EXPECT_THAT(open.out, HasSubstr("gets on by giving cached memory back"));
  const Outcome over = said(size(device - (reserved - allocated) - (64 << 20)).c_str());
  EXPECT_EQ(over.code, kOver);
  EXPECT_THAT(over.out, HasSubstr(": does not fit: "));
}

/// Between what is in use and what the allocator keeps beside it the closed form has no verdict: `estimate` says what
/// `check` says, from the same simulation.
TEST(Verdicts, TheSimulatorDecidesWhereOnlyCachedMemoryPassesInClosedForm) {
  const auto report = [](const char* command, const std::string& budget) {
    return nlohmann::json::parse(run_words({command, kTorch, "--budget", budget, "--json", "-"}).out);
  };
  Bytes kept = 0, in_use = 0;  // the highest phases, with and without what is only kept
  const auto roomy = report("estimate", "80000MiB");
  for (const auto& phase : roomy["devices"][0]["phases"]) {
    const Bytes needed = phase["peak_device"].get<Bytes>() + phase["margin_bytes"].get<Bytes>();
    kept = std::max(kept, needed);
    in_use = std::max(in_use, needed - phase["at_peak_device"].value("allocator_slack", Bytes{0}));
  }
  ASSERT_GT(kept - in_use, kGiB / 4);
  const std::string budget = std::to_string((kept + in_use) / 2) + "B";
  const auto between = report("estimate", budget), simulated = report("simulate", budget);
  EXPECT_EQ(between["executor"], "simulator");
  EXPECT_EQ(between["fits"], simulated["fits"]);
  EXPECT_EQ(between["warnings"], simulated["warnings"]);
  EXPECT_EQ(between["devices"][0]["phases"], simulated["devices"][0]["phases"]);
  EXPECT_EQ(run_words({"estimate", kTorch, "--budget", budget}).code,
            run_words({"check", kTorch, "--budget", budget}).code);
  EXPECT_EQ(report("estimate", std::to_string(in_use / 2) + "B")["executor"], "closed_form");
}

/// A cache that is too small for the engine's concurrency is slow, not a failure.
TEST(Verdicts, ASmallCacheIsAWarning) {
  const Outcome outcome =
      run_words({"estimate", kVerl, "--set", "actor_rollout_ref.rollout.gpu_memory_utilization=0.25"});
  EXPECT_EQ(outcome.code, kDone);
  EXPECT_THAT(outcome.out, HasSubstr("sequences of 3072 tokens at once, 256 could run"));
}

TEST(Verdicts, TheGateSaysALineAConfigurationAndReturnsTheGravest) {
  const auto gate = [](std::vector<std::string> words) {
    words.insert(words.begin(), "check");
    words.insert(words.end(), {"--steps", "1"});
    return run_words(words);
  };
  const Outcome fits = gate({kTorch, kVerl, "--budget", "76GiB"});
  EXPECT_EQ(fits.code, kDone) << fits.err;
  EXPECT_EQ(std::count(fits.out.begin(), fits.out.end(), '\n'), 3);
  EXPECT_THAT(fits.out, HasSubstr("\n2 configurations: 2 fit\n"));
  EXPECT_THAT(fits.out, StartsWith(kTorch + ": fits: "));
  EXPECT_THAT(fits.out, HasSubstr("\n" + kVerl + ": fits: "));
  const Outcome mixed = gate({kTorch, "none.yaml", kVerl, "--budget", "main=76GiB"});
  EXPECT_EQ(mixed.code, kBadInput);
  EXPECT_THAT(mixed.out, StartsWith(fits.out.substr(0, fits.out.rfind("\n2 "))));
  EXPECT_THAT(mixed.out, HasSubstr("\n3 configurations: 2 fit, 1 could not be read\n"));
  EXPECT_THAT(mixed.err, HasSubstr("headroom: none.yaml: no such file\n"));
  const Outcome over = gate({kVerl, "--budget", "20GiB"});
  EXPECT_EQ(over.code, kOver);
  EXPECT_THAT(over.out, HasSubstr(": does not fit: "));
}

}  // namespace
}  // namespace headroom::cli
