#include "validator/probe_seconds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "planner/frameworks/registry.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/device_run.h"
#include "tests/support/data.h"

namespace headroom::gpu {
namespace {

using Json = nlohmann::json;

/// As `calibrate` measured on two H200 (validator/results/2xh200-2026-11-28-2).
constexpr double kLaunch = 4.55e-6;

Job job_of(const std::string& path) {
  return read_job(std::array{path}, {}).value().job;
}

std::map<std::pair<int, std::string>, double> seconds_of(const Report& report) {
  std::map<std::pair<int, std::string>, double> out;
  for (const PhaseReport& phase : report.devices.front().phases) out[{phase.step, phase.phase}] = phase.seconds;
  return out;
}

TEST(ProbeSeconds, HostRunsNoPython) {
  const Hardware card = *find_hardware("h200");
  const Hardware probes = with_probes_host(card, kLaunch);
  EXPECT_DOUBLE_EQ(probes.host_times.launch, kLaunch);
  EXPECT_DOUBLE_EQ(probes.host_times.product, 0);
  EXPECT_DOUBLE_EQ(probes.host_times.segment, card.host_times.segment);
  EXPECT_DOUBLE_EQ(probes.host_rates.pin, card.host_rates.pin);
}

// Of equal micro-batches a few are run and stand for the others, in a prediction's seconds but not in the probe's.
TEST(ProbeSeconds, CountWorkAsOftenAsItIsRun) {
  const Hardware card = *find_hardware("h200");
  const Job job = job_of(test::source("configs/examples/verl/qwen2.5-0.5b-grpo-1x4090.yaml"));
  const auto whole = seconds_of(run_on_device(job, with_probes_host(card, kLaunch), Fidelity::every_allocation).value());
  const auto run = seconds_of(probes_own_seconds(job, card, kLaunch).value());
  int steps = 0;
  for (const auto& [phase, seconds] : whole)
    if (phase.second == "train_actor") {
      EXPECT_LT(run.at(phase), seconds) << phase.first;
      ++steps;
    }
  EXPECT_GT(steps, 0);
}

// What runs on H100 and H200 measured that are committed, of recorded loops on one card.
TEST(ProbeSeconds, AreNearWhatProbesMeasured) {
  std::vector<double> errors;
  for (const auto& folder : std::filesystem::directory_iterator(test::source("validator/results"))) {
    const std::string card = folder.path().filename().string().find("h200") != std::string::npos ? "h200" : "h100";
    std::ifstream lines(folder.path() / "validate.jsonl");
    for (std::string line; std::getline(lines, line);) {
      const Json job = Json::parse(line);
      const std::string path = test::data("rlhf/" + job.at("name").get<std::string>() + ".json");
      if (!std::filesystem::exists(path) || job.at("validation").at("present").at("ranks").get<int>() > 1) continue;
      const auto predicted = seconds_of(probes_own_seconds(job_of(path), *find_hardware(card), kLaunch).value());
      for (const Json& phase : job.at("validation").at("phases")) {
        const std::pair<int, std::string> key{phase.at("step").get<int>(), phase.at("phase").get<std::string>()};
        // Sampling, token by token, is bound by what the probe does between launches.
        if (key.first < 1 || key.second == "generate" || !predicted.contains(key)) continue;
        errors.push_back(std::abs(predicted.at(key) / phase.at("probe").at("seconds").get<double>() - 1));
      }
    }
  }
  std::sort(errors.begin(), errors.end());
  ASSERT_GE(errors.size(), 100u);
  EXPECT_LE(errors[errors.size() / 2], 0.15);
}

}  // namespace
}  // namespace headroom::gpu
