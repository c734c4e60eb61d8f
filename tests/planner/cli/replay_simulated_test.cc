#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "planner/cli/replay.h"
#include "planner/cli/simulate.h"
#include "simulator/replay/snapshot_reader.h"
#include "tests/planner/cli/outcome.h"
#include "tests/support/data.h"

namespace headroom::cli {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::StartsWith;

Outcome run_words(const std::vector<std::string>& words) {
  return run_words(std::vector<Command>{replay_command(), simulate_command()}, words);
}

class SimulatedPickle : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::temp_directory_path() /
             ("headroom_simulated_" + std::string(GetParam()) + ".pickle"))
                .string();
    const std::string config = test::data("rlhf/" + std::string(GetParam()) + ".json").string();
    simulated_ = run_words({"simulate", config, "--pickle", path_, "--json", "-", "--quiet"});
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::string path_;
  Outcome simulated_;
};

/// What a simulation reports, replay finds again in the snapshot that it wrote.
TEST_P(SimulatedPickle, ReplaysToTheReport) {
  ASSERT_EQ(simulated_.code, kDone) << simulated_.err;
  const json phases = json::parse(simulated_.out)["devices"][0]["phases"];
  const Outcome replayed = run_words({"replay", path_, "--no-what-if", "--json", "-"});
  ASSERT_EQ(replayed.code, kDone) << replayed.err;
  const json found = json::parse(replayed.out)["devices"][0];
  ASSERT_EQ(found["phases"].size(), phases.size());
  std::int64_t allocated = 0, reserved = 0;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const json& expected = phases[i]["processes"][0];
    EXPECT_EQ(found["phases"][i]["phase"], phases[i]["phase"]);
    EXPECT_EQ(found["phases"][i]["allocated_end"], expected["allocated_end"]) << phases[i]["phase"];
    EXPECT_EQ(found["phases"][i]["reserved_end"], expected["reserved_end"]) << phases[i]["phase"];
    allocated = std::max<std::int64_t>(allocated, expected["peak_allocated"]);
    reserved = std::max<std::int64_t>(reserved, expected["peak_reserved"]);
  }
  EXPECT_EQ(found["peak_allocated"]["allocated"], allocated);
  EXPECT_EQ(found["peak_reserved"]["reserved"], reserved);
  EXPECT_TRUE(found["missing"].empty());
}

TEST_P(SimulatedPickle, NamesOperationsAndModules) {
  ASSERT_EQ(simulated_.code, kDone) << simulated_.err;
  const replay::Snapshot snapshot = replay::read_snapshot(path_).value();
  std::vector<std::string> frames;
  for (std::size_t i = 0; i < snapshot.events.size(); ++i)
    if (snapshot.events[i].action == replay::TraceAction::alloc)
      for (const std::uint32_t frame : snapshot.stacks.stack(snapshot.events[i].stack))
        frames.push_back(frame_text(snapshot, frame));
  EXPECT_THAT(frames, Contains(StartsWith("actor")));
  EXPECT_THAT(frames, Contains("component:0 weights"));
}

INSTANTIATE_TEST_SUITE_P(OfRecordedCases, SimulatedPickle, testing::Values("fr-opt", "fr-qwen2-lora"));

}  // namespace
}  // namespace headroom::cli
