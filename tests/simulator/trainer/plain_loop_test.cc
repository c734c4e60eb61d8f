#include "simulator/trainer/plain_loop.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "simulator/trainer/repeat_scope.h"
#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"

namespace headroom::trainer {
namespace {

using nlohmann::json;

struct Case {
  const char* name;
  const char* file;
  std::int64_t sequences;  ///< of a micro-batch
  const char* command;
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.name;
}

class PlainLoops : public ::testing::TestWithParam<Case> {
 protected:
  /// The phases of step 1 with a batch of so many micro-batches.
  static json phases(std::int64_t micro_batches) {
    const std::string prompts = "batch.prompts=" + std::to_string(micro_batches * GetParam().sequences);
    const std::string mini = "batch.mini_batch=" + std::to_string(micro_batches * GetParam().sequences / 2);
    const cli::Outcome outcome =
        cli::run_words({GetParam().command, test::source(GetParam().file), "--set", prompts, "--set", mini, "--steps", "2",
                        "--json", "-", "--gpu", "H200"});
    EXPECT_EQ(outcome.code, cli::kDone) << outcome.err;
    const json report = json::parse(outcome.out);
    json out;
    for (const json& phase : report["devices"][0]["phases"])
      if (phase["step"] == 1) out.push_back(phase);
    return out;
  }
};

/// One micro-batch more than are all run: the same memory but for what each leaves, and seconds of as many.
TEST_P(PlainLoops, CountWhatTheyLeaveOut) {
  const std::int64_t all = PlainLoop::kMostRuns;
  const json whole = phases(all), left_out = phases(all + 2);
  ASSERT_EQ(whole.size(), left_out.size());
  ASSERT_FALSE(whole.empty());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const double peak = whole[i]["peak_device"], seconds = whole[i]["seconds"];
    EXPECT_NEAR(left_out[i]["peak_device"], peak, 0.005 * peak) << whole[i]["phase"];
    if (whole[i]["phase"] == "generate") continue;  // of the whole batch at once
    EXPECT_NEAR(left_out[i]["seconds"], seconds * static_cast<double>(all + 2) / static_cast<double>(all), 0.01 * seconds)
        << whole[i]["phase"];
  }
}

INSTANTIATE_TEST_SUITE_P(Loops, PlainLoops,
                         testing::Values(Case{"supervised", "docs/guide/jobs/minimal.yaml", 4, "estimate"},
                                         Case{"supervised_simulated", "docs/guide/jobs/minimal.yaml", 4, "simulate"},
                                         Case{"reward_model", "docs/guide/jobs/reward-model.yaml", 16, "estimate"}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Runs, StandForAll) {
  for (const bool few : {false, true})
    for (const std::int64_t all : {1, 2, 3, 4, 65}) {
      const Runs runs(all, few);
      EXPECT_EQ(runs.shown(), few ? all : shown_runs(all));
      double sum = 0, repeat = 5;
      for (std::int64_t i = 0; i < runs.shown(); ++i) {
        const TimesScope scope(&repeat, runs.at(i).times);
        sum += repeat;
      }
      EXPECT_EQ(sum, 5.0 * static_cast<double>(all));
      EXPECT_EQ(repeat, 5);
      EXPECT_EQ(runs.at(runs.shown() - 1).index, all - 1);
    }
}

}  // namespace
}  // namespace headroom::trainer
