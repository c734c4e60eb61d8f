#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
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

/// A run with its trainer's snapshot and stream written beside its report.
struct Case {
  const char* name;
  std::string config;
  std::vector<std::string> flags;  ///< of `simulate`
  std::int64_t device;             ///< whose trainer is recorded
  std::int64_t between_rows = 0;   ///< allocations in no row
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.name;
}

class Simulated : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const std::string stem =
        (test::scratch() / ("headroom_simulated_" + std::string(GetParam().name))).string();
    pickle_ = stem + ".pickle";
    events_ = stem + ".events.json";
    std::vector<std::string> words = {"simulate", GetParam().config, "--pickle", pickle_,  "--events",
                                      events_,    "--json",          "-",        "--quiet"};
    words.insert(words.end(), GetParam().flags.begin(), GetParam().flags.end());
    const Outcome simulated = run_words(words);
    ASSERT_EQ(simulated.code, kDone) << simulated.err;
    const json report = json::parse(simulated.out);
    for (const json& device : report["devices"])
      if (device["device"] == GetParam().device)
        for (const json& phase : device["phases"])
          for (const json& process : phase["processes"])
            if (process["process"] == "trainer") rows_.push_back({phase["phase"], process});
    ASSERT_FALSE(rows_.empty());
  }
  void TearDown() override {
    std::filesystem::remove(pickle_);
    std::filesystem::remove(events_);
  }

  std::string pickle_, events_;
  std::vector<std::pair<std::string, json>> rows_;  ///< of the trainer, by phase
};

/// What a simulation reports, replay finds again in the snapshot that it wrote.
TEST_P(Simulated, SnapshotReplaysToTheReport) {
  const Outcome replayed = run_words({"replay", pickle_, "--no-what-if", "--json", "-"});
  ASSERT_EQ(replayed.code, kDone) << replayed.err;
  const json found = json::parse(replayed.out)["devices"][0];
  std::int64_t allocated = 0, reserved = 0;
  std::size_t shown = 0;  // replay shows phases that have events
  for (const auto& [phase, expected] : rows_) {
    if (shown < found["phases"].size() && found["phases"][shown]["phase"] == phase) {
      EXPECT_EQ(found["phases"][shown]["allocated_end"], expected["allocated_end"]) << phase;
      EXPECT_EQ(found["phases"][shown]["reserved_end"], expected["reserved_end"]) << phase;
      ++shown;
    } else {
      EXPECT_EQ(expected["n_allocs"], 0) << phase;
    }
    allocated = std::max<std::int64_t>(allocated, expected["peak_allocated"]);
    reserved = std::max<std::int64_t>(reserved, expected["peak_reserved"]);
  }
  EXPECT_EQ(shown, found["phases"].size());
  EXPECT_EQ(found["peak_allocated"]["allocated"], allocated);
  EXPECT_EQ(found["peak_reserved"]["reserved"], reserved);
  EXPECT_TRUE(found["missing"].empty());
}

TEST_P(Simulated, SnapshotNamesOperationsAndModules) {
  const replay::Snapshot snapshot = replay::read_snapshot(pickle_).value();
  std::vector<std::string> frames;
  for (std::size_t i = 0; i < snapshot.events.size(); ++i)
    if (snapshot.events[i].action == replay::TraceAction::alloc)
      for (const std::uint32_t frame : snapshot.stacks.stack(snapshot.events[i].stack))
        frames.push_back(frame_text(snapshot, frame));
  EXPECT_THAT(frames, Contains(StartsWith("actor")));
  EXPECT_THAT(frames, Contains("component:0 weights"));
}

/// Every allocation of the report is in the stream, which says whose it is.
TEST_P(Simulated, StreamHasEveryAllocation) {
  std::ifstream file(events_);
  const json stream = json::parse(file);
  EXPECT_EQ(stream["process"], "trainer");
  EXPECT_EQ(stream["device"], GetParam().device);
  std::int64_t expected = GetParam().between_rows, found = 0;
  for (const auto& [phase, row] : rows_) expected += row["n_allocs"].get<std::int64_t>();
  for (const json& event : stream["events"]) found += event[0] == "a" ? 1 : 0;
  EXPECT_EQ(found, expected);
}

/// Replay runs the stream again, under the settings it names, phase by phase, to the same figures.
TEST_P(Simulated, StreamReplaysToTheReport) {
  const Outcome replayed = run_words({"replay", events_, "--no-what-if", "--json", "-"});
  ASSERT_EQ(replayed.code, kDone) << replayed.err;
  const json found = json::parse(replayed.out)["devices"][0];
  std::int64_t allocated = 0, reserved = 0;
  std::size_t shown = 0;
  for (const auto& [phase, expected] : rows_) {
    if (shown < found["phases"].size() && found["phases"][shown]["phase"] == phase) {
      EXPECT_EQ(found["phases"][shown]["allocated_end"], expected["allocated_end"]) << phase;
      EXPECT_EQ(found["phases"][shown]["reserved_end"], expected["reserved_end"]) << phase;
      ++shown;
    } else {
      EXPECT_EQ(expected["n_allocs"], 0) << phase;
    }
    allocated = std::max<std::int64_t>(allocated, expected["peak_allocated"]);
    reserved = std::max<std::int64_t>(reserved, expected["peak_reserved"]);
  }
  EXPECT_GT(shown, 0u);
  EXPECT_EQ(shown, found["phases"].size());
  EXPECT_EQ(found["peak_allocated"]["allocated"], allocated);
  EXPECT_EQ(found["peak_reserved"]["reserved"], reserved);
}

std::string example(const std::string& name) {
  return test::source("configs/examples/verl/" + name);
}

std::vector<Case> cases() {
  const std::vector<std::string> one_step = {"--steps", "1"};
  return {{"fr_opt", test::data("rlhf/fr-opt.json"), {}, 0, 10},
          {"fr_qwen2_lora", test::data("rlhf/fr-qwen2-lora.json"), {}, 0, 10},
          {"beside_vllm", example("qwen2.5-7b-grpo-8xh100.yaml"), one_step, 0},
          {"megatrons_highest_stage", example("qwen2.5-7b-grpo-megatron-8xh100.yaml"), one_step, 6},
          {"megatrons_first_stage",
           example("qwen2.5-7b-grpo-megatron-8xh100.yaml"),
           {"--steps", "1", "--device", "3"},
           2}};
}

INSTANTIATE_TEST_SUITE_P(Runs, Simulated, testing::ValuesIn(cases()),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(SimulatedOf, NamesWhatTrainsWhereTheChosenDoesNot) {
  for (const auto& [flag, value] : {std::pair{"--device", "8"}, std::pair{"--process", "rollout"}}) {
    const Outcome outcome = run_words(
        {"simulate", example("qwen2.5-7b-grpo-8xh100.yaml"), "--steps", "1", flag, value, "--events", "-"});
    EXPECT_EQ(outcome.code, kBadInput) << flag;
    EXPECT_THAT(outcome.err, testing::HasSubstr(flag));
    EXPECT_THAT(outcome.err, testing::HasSubstr("trainer on GPU 0 to 7 of pool main"));
  }
}

}  // namespace
}  // namespace headroom::cli
