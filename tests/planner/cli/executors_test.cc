#include "planner/cli/executors.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>

#include "planner/frameworks/registry.h"
#include "simulator/hardware/library.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

std::vector<std::string> examples() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(test::source("configs/examples/verl")))
    if (entry.path().extension() == ".yaml") out.push_back(entry.path().string());
  std::sort(out.begin(), out.end());
  return out;
}

class Executors : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    JobOptions options;
    options.steps = 2;
    auto read = read_job(std::array{GetParam()}, options);
    ASSERT_TRUE(read) << read.error().text();
    job = read->job;
    if (job.gpu.empty()) job.gpu = "h100";
    hardware = load_hardware(job.gpu).value();
  }
  Job job;
  Hardware hardware;
};

/// The closed form runs the same program without an allocator: what is allocated must agree.
TEST_P(Executors, ClosedFormAndSimulatorAgreeOnAllocatedPeaks) {
  const auto closed = cli::closed_form_executor()(job, hardware);
  const auto simulated = cli::simulating_executor()(job, hardware);
  ASSERT_TRUE(closed) << closed.error().text();
  ASSERT_TRUE(simulated) << simulated.error().text();
  ASSERT_EQ(closed->devices.size(), simulated->devices.size());
  for (std::size_t d = 0; d < closed->devices.size(); ++d) {
    const auto& a = closed->devices[d].phases;
    const auto& b = simulated->devices[d].phases;
    ASSERT_LE(b.size(), a.size());
    for (std::size_t p = 0; p < b.size(); ++p) {
      ASSERT_EQ(a[p].phase, b[p].phase);
      for (std::size_t i = 0; i < std::min(a[p].processes.size(), b[p].processes.size()); ++i) {
        if (b[p].processes[i].out_of_memory) continue;
        const auto x = static_cast<double>(a[p].processes[i].peak_allocated);
        const auto y = static_cast<double>(b[p].processes[i].peak_allocated);
        EXPECT_LE(std::abs(x - y), 0.01 * std::max(y, 1.0) + 4 * kMiB) << a[p].phase << " step " << a[p].step;
      }
    }
  }
}

TEST_P(Executors, ComponentsSumToTheirTotals) {
  const auto report = cli::simulating_executor()(job, hardware);
  ASSERT_TRUE(report);
  for (const DeviceReport& device : report->devices)
    for (const PhaseReport& phase : device.phases) {
      EXPECT_EQ(phase.at_peak_device.total(), phase.peak_device);
      EXPECT_EQ(phase.at_peak_host.total(), phase.peak_host);
      Bytes floor = 0;
      for (const ProcessPhase& process : phase.processes) {
        EXPECT_EQ(process.at_peak_allocated.total(), process.peak_allocated) << process.process;
        EXPECT_GE(process.peak_reserved, process.peak_allocated);
        floor = std::max(floor, process.peak_reserved);
      }
      EXPECT_GE(phase.peak_device, floor) << phase.phase;
    }
}

INSTANTIATE_TEST_SUITE_P(VerlExamples, Executors, ::testing::ValuesIn(examples()), [](const auto& instance) {
  std::string name = std::filesystem::path(instance.param).stem().string();
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
});

}  // namespace
}  // namespace headroom
