/// Two H200 ran a loop of plain PyTorch with the cache emptied in six ways (tests/data/study): what a study says of
/// the runs that never empty it, changed to empty it so, held against the runs that did.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "planner/frameworks/registry.h"
#include "planner/study/emptying.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/device_run.h"
#include "tests/support/data.h"

namespace headroom::study {
namespace {

using Json = nlohmann::json;

struct Case {
  std::string base;  ///< the run that never empties
  Emptying when = Emptying::never;
};

Case case_of(const std::string& name) {
  const std::size_t dash = name.rfind('-');
  const std::string word = name.substr(dash + 1);
  constexpr std::array kWords = {std::pair{"none", Emptying::never}, std::pair{"all", Emptying::phases},
                                 std::pair{"micro", Emptying::micro_batches}};
  Case out{.base = name.substr(0, dash)};
  for (const auto& [text, when] : kWords)
    if (word == text) out.when = when;
  if (const auto when = parse_emptying(word)) out.when = *when;
  return out;
}

class RecordedStudy : public ::testing::Test {
 protected:
  Json all = [] {
    std::ifstream file(test::data("study/recorded.json"));
    return Json::parse(file);
  }();
  std::filesystem::path folder = test::scratch() / "recorded_study";

  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }

  Report predicted(const Json& recorded, Emptying when) const {
    Json file = {{"case", recorded["case"]}, {"device", recorded["device"]}, {"total_memory", recorded["total_memory"]}};
    file["case"].erase("empty_cache");
    std::ofstream(folder / "case.json") << file;
    const auto read = read_job(std::array{(folder / "case.json").string()}, {});
    EXPECT_TRUE(read) << read.error().text();
    const auto report = run_on_device(emptied(read->job, when), *find_hardware("h200"), Fidelity::every_allocation);
    EXPECT_TRUE(report) << report.error().text();
    return *report;
  }
};

TEST_F(RecordedStudy, Peaks) {
  double worst_reserved = 0, worst_allocated = 0, sum = 0;
  std::size_t rows = 0;
  for (const auto& [name, recorded] : all.items()) {
    const Case one = case_of(name);
    const Report report = predicted(recorded, one.when);
    Bytes measured_peak = 0, predicted_peak = 0;
    for (const Json& row : recorded["phases"])
      for (const PhaseReport& phase : report.devices[0].phases) {
        if (phase.step != row[0].get<int>() || phase.phase != row[1].get<std::string>()) continue;
        const ProcessPhase& process = phase.processes.at(0);
        const double allocated = std::abs(static_cast<double>(process.peak_allocated) / row[2].get<double>() - 1);
        const double reserved = std::abs(static_cast<double>(process.peak_reserved) / row[3].get<double>() - 1);
        worst_allocated = std::max(worst_allocated, allocated);
        worst_reserved = std::max(worst_reserved, reserved);
        sum += reserved;
        ++rows;
        measured_peak = std::max(measured_peak, row[3].get<Bytes>());
        predicted_peak = std::max(predicted_peak, process.peak_reserved);
      }
    EXPECT_NEAR(static_cast<double>(predicted_peak) / static_cast<double>(measured_peak), 1, 0.005) << name;
  }
  EXPECT_GT(rows, 500u);
  EXPECT_LE(sum / static_cast<double>(rows), 0.005);
  EXPECT_LE(worst_reserved, 0.03);
  EXPECT_LE(worst_allocated, 0.01);
}

/// Seconds that emptying takes of the phases beside generation, whose measured seconds differ from run to run by
/// more than that: the calls themselves, and what comes after them has to get again.
double measured_seconds(const Json& recorded) {
  std::map<std::string, std::vector<double>> seconds;
  for (const Json& row : recorded["phases"])
    if (row[0].get<int>() >= 1) {
      const double empty = row[8].is_null() ? 0 : row[8].get<double>();
      seconds[row[1].get<std::string>()].push_back(empty + (row[1] == "generate" ? 0 : row[7].get<double>()));
    }
  double sum = 0;
  for (auto& [phase, values] : seconds) {
    std::sort(values.begin(), values.end());
    sum += (values[values.size() / 2] + values[(values.size() - 1) / 2]) / 2;
  }
  return sum;
}

double predicted_seconds(const Report& report) {
  double sum = 0;
  for (const PhaseReport& phase : report.devices[0].phases)
    if (phase.step == 2 && phase.phase != "generate") sum += phase.seconds;
  return sum;
}

TEST_F(RecordedStudy, SecondsThatEmptyingTakes) {
  std::vector<double> ratios;
  for (const auto& [name, recorded] : all.items()) {
    const Case one = case_of(name);
    if (one.when != Emptying::phases && one.when != Emptying::micro_batches) continue;
    const Json& never = all[one.base + "-none"];
    const double measured = measured_seconds(recorded) - measured_seconds(never);
    const double lost =
        predicted_seconds(predicted(recorded, one.when)) - predicted_seconds(predicted(never, Emptying::never));
    ratios.push_back(lost / measured);
    RecordProperty(name, std::to_string(lost) + " of " + std::to_string(measured));
  }
  ASSERT_GE(ratios.size(), 6u);
  std::sort(ratios.begin(), ratios.end());
  // Of the right sign and size. A step's difference has a standard error as large as half of what emptying takes, and a
  // segment's cost comes from microbenchmarks on another machine, whose driver calls are faster.
  EXPECT_GT(ratios[ratios.size() / 2], 0.4);
  EXPECT_LT(ratios[ratios.size() / 2], 1.3);
  EXPECT_GT(ratios.front(), 0.25);
  EXPECT_LT(ratios.back(), 1.8);
}

}  // namespace
}  // namespace headroom::study
