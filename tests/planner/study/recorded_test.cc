/// Two H200 ran a loop of plain PyTorch with the cache emptied in six ways, and four DeepSpeed engines in
/// DeepSpeed-Chat's order with it emptied in three (tests/data/study): what a study says of the runs that never empty
/// it, changed to empty it so, held against the runs that did.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

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

/// The highest reserved value of all phases.
Bytes measured_peak(const Json& recorded) {
  Bytes peak = 0;
  for (const Json& row : recorded["phases"]) peak = std::max(peak, row[3].get<Bytes>());
  return peak;
}

Bytes predicted_peak(const Report& report) {
  Bytes peak = 0;
  for (const PhaseReport& phase : report.devices[0].phases)
    peak = std::max(peak, phase.processes.at(0).peak_reserved);
  return peak;
}

/// Errors of every recorded phase.
struct Errors {
  std::vector<double> reserved, allocated;
  void add(const Json& recorded, const Report& report) {
    for (const Json& row : recorded["phases"])
      for (const PhaseReport& phase : report.devices[0].phases) {
        if (phase.step != row[0].get<int>() || phase.phase != row[1].get<std::string>()) continue;
        const ProcessPhase& process = phase.processes.at(0);
        allocated.push_back(std::abs(static_cast<double>(process.peak_allocated) / row[2].get<double>() - 1));
        reserved.push_back(std::abs(static_cast<double>(process.peak_reserved) / row[3].get<double>() - 1));
      }
  }
  static double mean(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  }
  static double worst(const std::vector<double>& values) {
    return *std::max_element(values.begin(), values.end());
  }
};

class Recordings : public ::testing::Test {
 protected:
  explicit Recordings(const char* file) {
    std::ifstream stream(test::data(file));
    all = Json::parse(stream);
    folder = test::scratch() / std::filesystem::path(file).stem();
  }
  Json all;
  std::filesystem::path folder;
  Hardware hardware = *find_hardware("h200");

  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }

  Report predicted(const Json& recorded, Emptying when) const {
    Json file;
    for (const char* key : {"case", "device", "total_memory"}) file[key] = recorded[key];
    if (recorded.contains("alloc_conf")) file["alloc_conf"] = recorded["alloc_conf"];
    if (when != Emptying::own) file["case"].erase("empty_cache");
    std::ofstream(folder / "case.json") << file;
    const auto read = read_job(std::array{(folder / "case.json").string()}, {});
    EXPECT_TRUE(read) << read.error().text();
    const auto report = run_on_device(emptied(read->job, when), hardware, Fidelity::every_allocation);
    EXPECT_TRUE(report) << report.error().text();
    return *report;
  }
};

class RecordedStudy : public Recordings {
 protected:
  RecordedStudy() : Recordings("study/recorded.json") {}
};

TEST_F(RecordedStudy, Peaks) {
  Errors errors;
  for (const auto& [name, recorded] : all.items()) {
    const Report report = predicted(recorded, case_of(name).when);
    errors.add(recorded, report);
    EXPECT_NEAR(static_cast<double>(predicted_peak(report)) / static_cast<double>(measured_peak(recorded)), 1, 0.0025)
        << name;
  }
  EXPECT_GT(errors.reserved.size(), 500u);
  EXPECT_LE(Errors::mean(errors.reserved), 0.005);
  EXPECT_LE(Errors::worst(errors.reserved), 0.03);
  EXPECT_LE(Errors::mean(errors.allocated), 0.002);
  EXPECT_LE(Errors::worst(errors.allocated), 0.01);
}

/// Seconds inside of torch.cuda.empty_cache() a step: the median of steps from the second on.
double measured_seconds(const Json& recorded) {
  std::map<int, double> steps;
  for (const Json& row : recorded["phases"])
    if (const int step = row[0].get<int>(); step >= 1 && !row[8].is_null()) steps[step] += row[8].get<double>();
  std::vector<double> sums;
  for (const auto& [step, seconds] : steps)
    sums.push_back(seconds + recorded["micro_empty_seconds"][static_cast<std::size_t>(step)].get<double>());
  std::sort(sums.begin(), sums.end());
  return (sums[sums.size() / 2] + sums[(sums.size() - 1) / 2]) / 2;
}

double predicted_seconds(const Report& report) {
  double sum = 0;
  for (const PhaseReport& phase : report.devices[0].phases)
    if (phase.step == 2) sum += phase.seconds;
  return sum;
}

TEST_F(RecordedStudy, SecondsThatEmptyingTakes) {
  // What giving segments back took in a microbenchmark on that machine (validator/results/2xh200-2026-11-29); getting
  // them again is outside of what was measured.
  hardware.host_times.segment = 1e-9;
  hardware.host_times.segment_return = 66e-6;
  hardware.host_rates.device_get = 1e18;
  hardware.host_rates.device_return = 1.28e12;
  std::vector<double> ratios;
  for (const auto& [name, recorded] : all.items()) {
    const Case one = case_of(name);
    if (one.when == Emptying::never) continue;
    const double lost = predicted_seconds(predicted(recorded, one.when)) -
                        predicted_seconds(predicted(all[one.base + "-none"], Emptying::never));
    // Mapped segments are mapped again at the rate at which they are unmapped; that rate comes from another machine.
    const bool maps = name.find("expandable") != std::string::npos;
    const double ratio = (maps ? lost / 2 : lost) / measured_seconds(recorded);
    EXPECT_GE(ratio, maps ? 0.5 : 0.7) << name;
    EXPECT_LE(ratio, 1.3) << name;
    ratios.push_back(ratio);
  }
  ASSERT_GE(ratios.size(), 12u);
  std::sort(ratios.begin(), ratios.end());
  EXPECT_NEAR(ratios[ratios.size() / 2], 1, 0.1);
}

/// Names: MODELS-STRATEGY-WHEN. The engines' own words for when the cache is emptied leave out one phase.
class RecordedEngines : public Recordings {
 protected:
  RecordedEngines() : Recordings("study/engines.json") {}

  Report of(const std::string& name) const {
    const Emptying when = case_of(name).when;
    const bool own = when == Emptying::never || when == Emptying::inference || when == Emptying::phases;
    return predicted(all[name], own ? Emptying::own : when);
  }
};

TEST_F(RecordedEngines, PeaksOrderAndWhatEmptyingSaves) {
  Errors errors;
  std::map<std::string, std::pair<double, double>> peaks;  // measured, predicted
  for (const auto& [name, recorded] : all.items()) {
    const Report report = of(name);
    errors.add(recorded, report);
    peaks[name] = {static_cast<double>(measured_peak(recorded)), static_cast<double>(predicted_peak(report))};
  }
  EXPECT_LE(Errors::mean(errors.reserved), 0.005);
  EXPECT_LE(Errors::worst(errors.reserved), 0.03);
  EXPECT_LE(Errors::mean(errors.allocated), 0.002);
  EXPECT_LE(Errors::worst(errors.allocated), 0.01);
  for (const auto& [name, peak] : peaks) {
    const auto never = peaks.find(case_of(name).base + "-none");
    ASSERT_NE(never, peaks.end()) << name;
    const double measured = 1 - peak.first / never->second.first, saved = 1 - peak.second / never->second.second;
    EXPECT_NEAR(saved, measured, 0.03) << name;
    if (std::abs(measured) > 0.005) {
      EXPECT_GT(saved * measured, 0) << name;
    }
    for (const auto& [other, than] : peaks)
      if (peak.first > 1.03 * than.first) {
        EXPECT_GT(peak.second, than.second) << name << " and " << other;
      }
  }
}

}  // namespace
}  // namespace headroom::study
