#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <map>

#include "planner/frameworks/registry.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/simulate.h"
#include "tests/support/data.h"

// What runs in real PyTorch took of a card that they had alone, context and NCCL included.
namespace headroom {
namespace {

namespace fs = std::filesystem;

/// The profile that ships for a recording's cards.
Result<Hardware> profile_of(const Document& recording) {
  const bool h200 = recording.find("device")->text().find("H200") != std::string::npos;
  const Document* ranks = recording.find("ranks");
  if (ranks == nullptr || ranks->as_int() == 1) return load_hardware(h200 ? "h200" : "h100");
  return load_hardware(test::source(h200 ? "configs/hardware/measured/2xh200-2026-11-28.yaml"
                                         : "configs/hardware/measured/2xh100-2026-11-28.yaml")
                           .string());
}

/// Relative errors of the predicted device peaks, phase by phase.
std::vector<double> errors_of(const fs::path& file) {
  const Result<Document> recording = read_document(file.string());
  JobOptions options;
  options.framework = "torch";
  const Result<ReadJob> read = read_job(std::array{file.string()}, options);
  const Result<Hardware> hardware = profile_of(*recording);
  if (!read || !hardware) {
    ADD_FAILURE() << (read ? hardware.error() : read.error()).text();
    return {};
  }
  const Result<Report> report = simulate(read->job, *hardware);
  if (!report) {
    ADD_FAILURE() << report.error().text();
    return {};
  }
  std::map<std::pair<std::int64_t, std::string>, Bytes> predicted;
  for (const PhaseReport& phase : report->devices.front().phases)
    predicted[{phase.step, phase.phase}] = phase.peak_device;
  std::vector<double> errors;
  for (const Document& phase : recording->find("phases")->items()) {
    const auto bytes = [&](const char* key) { return *phase.find(key)->as_int(); };
    const Bytes real = bytes("peak_reserved") + bytes("device_used_end") - bytes("reserved_end");
    const Bytes said = predicted[{bytes("step"), phase.find("phase")->text()}];
    errors.push_back(static_cast<double>(said) / static_cast<double>(real) - 1);
    EXPECT_LE(std::abs(errors.back()), 0.03)
        << file << ": " << phase.find("phase")->text() << " of step " << bytes("step");
  }
  return errors;
}

TEST(DeviceUse, IsPredictedWithinOnePercentInTheMeanAndThreeAtWorst) {
  int runs = 0;
  for (const auto& entry : fs::recursive_directory_iterator(test::source("validator/results"))) {
    if (entry.path().parent_path().filename() != "pytorch") continue;
    const std::vector<double> errors = errors_of(entry.path());
    double sum = 0;
    for (const double error : errors) sum += std::abs(error);
    EXPECT_LE(sum, 0.01 * static_cast<double>(errors.size())) << entry.path();
    ++runs;
  }
  EXPECT_GE(runs, 10);
}

}  // namespace
}  // namespace headroom
