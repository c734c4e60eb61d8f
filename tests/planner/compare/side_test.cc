#include "planner/compare/side.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/support/data.h"

namespace headroom::compare {
namespace {

using testing::HasSubstr;

std::string written(const std::string& name, const std::string& text) {
  std::filesystem::create_directories(test::scratch());
  const std::string path = test::scratch() / name;
  std::ofstream(path) << text;
  return path;
}

Measured side(const std::string& path) {
  Result<std::optional<Held>> found = side_in(path);
  EXPECT_TRUE(found) << (found ? "" : found.error().text());
  EXPECT_TRUE(found && *found) << path;
  return found && *found ? std::move((*found)->run) : Measured{};
}

constexpr const char* kPrediction = R"({"schema": "headroom.report/1", "devices": [{"phases": [
  {"step": -1, "phase": "init", "processes": [{"peak_allocated": 100, "peak_reserved": 200}]},
  {"step": 0, "phase": "idle", "processes": []},
  {"step": 0, "phase": "train_actor", "processes": [{"peak_allocated": 300, "peak_reserved": 400}]},
  {"step": 1, "phase": "train_actor", "processes": [{"peak_allocated": 310, "peak_reserved": 410}]}]}]})";

TEST(Side, IsReadFromWhateverHoldsPhases) {
  EXPECT_EQ(side(written("side-prediction.json", kPrediction)).phases.size(), 3u);
  EXPECT_FALSE(side(test::data("rlhf/q05-grpo-lora.json").string()).phases.empty());
  const Measured snapshot = side(test::data("snapshots/training.pickle.gz").string());
  EXPECT_FALSE(snapshot.phases.empty());
  const Measured stream = side(test::data("gate/stream.json").string());
  EXPECT_EQ(stream.phases.size(), 2u);
  EXPECT_EQ(stream.phases.front().phase, "one");
}

TEST(Side, OfOtherFilesThereIsNone) {
  for (const std::string path : {test::source("configs/examples/verl/qwen2.5-7b-grpo-8xh100.yaml"),
                                  test::source("configs/examples/trl/pythia-1b-ppo-zero2-2xh100.sh")}) {
    const Result<std::optional<Held>> found = side_in(path);
    ASSERT_TRUE(found) << found.error().text();
    EXPECT_FALSE(*found) << path;
  }
}

TEST(Side, BrokenOnesSayWhere) {
  const Result<std::optional<Held>> broken = side_in(
      written("side-broken.json", "{\"schema\": \"headroom.report/1\",\n\"devices\": [{\"phases\": [\n{\"processes\": [{}]}]}]}"));
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().text(), HasSubstr("side-broken.json:3: devices[0].phases: expected"));
  const Result<std::optional<Held>> empty =
      side_in(written("side-empty.json", R"({"schema": "headroom.report/1", "devices": []})"));
  ASSERT_FALSE(empty);
  EXPECT_THAT(empty.error().text(), HasSubstr("expected phases, found none"));
  EXPECT_THAT(side_in("/nowhere/x.json").error().text(), HasSubstr("/nowhere/x.json"));
}

TEST(Side, PhasesAreMatchedByNameAndTime) {
  const Measured first = side(written("side-prediction.json", kPrediction));
  Measured second;
  second.name = "b";
  for (const char* name : {"train_actor", "other", "train_actor", "train_actor"})
    second.phases.push_back({.step = 7, .phase = name, .peak_allocated = 200, .peak_reserved = 400, .n_allocs = {}});
  const std::vector<Row> rows = compare(first, second);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].peak_allocated, 300);
  EXPECT_DOUBLE_EQ(rows[0].allocated_error(), 50);
  EXPECT_FALSE(rows[1].predicted);
  EXPECT_EQ(rows[2].peak_reserved, 410);
  EXPECT_EQ(rows[2].measured.step, 1);
  EXPECT_FALSE(rows[3].predicted);
}

}  // namespace
}  // namespace headroom::compare
