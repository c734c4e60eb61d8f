#include "planner/study/emptying.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>

#include "planner/frameworks/registry.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/device_run.h"
#include "tests/support/data.h"

namespace headroom::study {
namespace {

using Json = nlohmann::json;

Job read(const std::string& name, std::vector<std::string> overrides = {}) {
  JobOptions options;
  options.overrides = std::move(overrides);
  const auto made = read_job(std::array{test::data(name).string()}, options);
  EXPECT_TRUE(made) << made.error().text();
  return made ? made->job : Job{};
}

std::size_t empties(const Job& job) {
  std::size_t count = 0;
  for (const PhaseSpec& phase : job.step)
    count += static_cast<std::size_t>(std::count_if(phase.actions.begin(), phase.actions.end(), [](const Action& a) {
      return a.verb == Verb::empty_cache;
    }));
  return count;
}

TEST(Emptying, NamesAndWords) {
  for (const std::string_view word : kEmptyings) EXPECT_EQ(name(*parse_emptying(word)), word);
  EXPECT_FALSE(parse_emptying("sometimes"));
}

TEST(Emptying, StandsAtTheEndsOfItsPhases) {
  const Job job = read("deepspeed/opt13-z2.json");
  EXPECT_EQ(empties(emptied(job, Emptying::never)), 0u);
  EXPECT_EQ(empties(emptied(job, Emptying::generation)), 1u);
  EXPECT_EQ(empties(emptied(job, Emptying::inference)), 7u);  // generate to the end of the experience
  EXPECT_EQ(empties(emptied(job, Emptying::training)), 2u);
  EXPECT_EQ(empties(emptied(job, Emptying::phases)), 9u);
  const Job often = emptied(job, Emptying::micro_batches);
  EXPECT_TRUE(std::all_of(often.roles.begin(), often.roles.end(),
                          [](const Role& role) { return role.empties_each_micro_batch; }));
}

TEST(Emptying, NeverTakesOutWhatAFrameworkDoesAndOwnKeepsIt) {
  const Job job = read("deepspeed/opt13-z2-ec-all.json");
  EXPECT_EQ(empties(emptied(job, Emptying::never)), 0u);
  EXPECT_EQ(empties(emptied(job, Emptying::own)), 8u);  // as recorded: not between the log-probs and their gathering
}

/// Peaks of the recorded loop that empties by itself, out of the one that does not.
void expect_recorded(const std::string& without, Emptying when, const std::string& recorded) {
  std::ifstream file(test::data(recorded));
  const Json truth = Json::parse(file);
  const auto report = run_on_device(emptied(read(without), when), *find_hardware("h200"), Fidelity::every_allocation);
  ASSERT_TRUE(report) << report.error().text();
  std::size_t compared = 0;
  for (const Json& phase : truth["phases"])
    for (const PhaseReport& row : report->devices[0].phases)
      if (row.step == phase["step"].get<int>() && row.phase == phase["phase"].get<std::string>()) {
        const auto part = [&](Bytes predicted, const char* key) {
          return static_cast<double>(predicted) / phase[key].get<double>();
        };
        // As near as the loop that empties by itself is predicted (docs/ACCURACY.md).
        EXPECT_NEAR(part(row.processes.at(0).peak_reserved, "peak_reserved"), 1, 1e-3)
            << recorded << " " << row.phase << " " << row.step;
        EXPECT_NEAR(part(row.processes.at(0).peak_allocated, "peak_alloc"), 1, 1e-6);
        ++compared;
      }
  EXPECT_GT(compared, 10u);
}

TEST(Emptying, GivesTheRecordedPeaks) {
  expect_recorded("rlhf/opt13-ppo-none.json", Emptying::never, "rlhf/opt13-ppo-none.json");
  expect_recorded("rlhf/opt13-ppo-none.json", Emptying::inference, "rlhf/opt13-ppo-ec-inf.json");
  expect_recorded("rlhf/opt13-ppo-none.json", Emptying::phases, "rlhf/opt13-ppo-ec-all.json");
}

TEST(Emptying, CostsSeconds) {
  const Hardware hardware = *find_hardware("h200");
  const Job job = read("rlhf/opt13-ppo-none.json", {"steps=2"});
  const auto seconds = [&](Emptying when) {
    const auto report = run_on_device(emptied(job, when), hardware, Fidelity::every_allocation);
    double sum = 0;
    for (const PhaseReport& phase : report->devices[0].phases)
      if (phase.step == 1) sum += phase.seconds;
    return sum;
  };
  const double never = seconds(Emptying::never), inference = seconds(Emptying::inference),
               phases = seconds(Emptying::phases);
  EXPECT_GT(inference, never);
  EXPECT_GT(phases, inference);
  EXPECT_LT(phases, 1.5 * never);
}

TEST(Emptying, EachMicroBatchMeetsAnEmptyCache) {
  // A loop of its own and a plain one: what each micro-batch gets anew, and gives back, takes seconds.
  for (const char* name : {"deepspeed/gpt2m-z2.json", "rlhf/gpt2m-ppo-bf16-split.json"}) {
    const Job job = read(name, {"steps=2"});
    const auto seconds = [&](Emptying when) {
      const auto report = run_on_device(emptied(job, when), *find_hardware("h200"), Fidelity::every_allocation);
      double sum = 0;
      for (const PhaseReport& phase : report->devices[0].phases)
        if (phase.step == 1 && phase.phase.starts_with("train")) sum += phase.seconds;
      return sum;
    };
    EXPECT_GT(seconds(Emptying::micro_batches), seconds(Emptying::phases)) << name;
  }
}

}  // namespace
}  // namespace headroom::study
