#include "planner/cli/executors.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "planner/frameworks/registry.h"
#include "simulator/closed_form/folded_trainer.h"
#include "simulator/closed_form/layer_fold.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/device_run.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

/// Every example, and the loops whose recordings are kept: DeepSpeed-Chat's, TRL's, plain PyTorch's.
std::vector<std::string> runs() {
  std::vector<std::string> out;
  for (const char* folder : {"configs/examples", "tests/data/deepspeed", "tests/data/trl", "tests/data/rlhf"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(test::source(folder))) {
      if (entry.path().parent_path().filename() == "included") continue;  // no runs of their own
      const bool wanted = entry.path().extension() == ".yaml" ||
                          (entry.path().extension() == ".json" && entry.file_size() > 0);
      if (wanted) out.push_back(entry.path().string());
    }
  std::sort(out.begin(), out.end());
  return out;
}

/// Blocks keep remainders that are not worth splitting off (up to a MiB each), which no sum of requests sees.
constexpr double kRemainders = 16 * kMiB;

/// What the trainers' allocators keep as an engine starts, which no sum sees: so much smaller is a cache out of which
/// other processes' memory comes.
double kept_as_engines_start(const Job& job, const DeviceReport& closed, const DeviceReport& simulated) {
  if (std::none_of(job.engines.begin(), job.engines.end(), [](const Engine& engine) { return engine.counts_others; }))
    return 0;
  Bytes kept = 0;
  for (std::size_t p = 0; p < simulated.phases.size(); ++p)
    for (std::size_t i = 0; i < simulated.phases[p].processes.size(); ++i)
      if (simulated.phases[p].phase == "engine_init")
        kept += simulated.phases[p].processes[i].reserved_end - closed.phases[p].processes[i].reserved_end;
  return static_cast<double>(kept);
}

/// The closed form runs the same program without an allocator: what is allocated must agree, what is active
/// too, and reserved lies between that and what the allocator holds. An engine may differ by `kept`.
void expect_agreement(const ProcessPhase& closed, const ProcessPhase& simulated, double kept) {
  if (simulated.out_of_memory) return;
  const double allowed = 0.01 * static_cast<double>(simulated.peak_allocated) + kRemainders +
                         (simulated.n_allocs == 0 ? kept : 0);
  EXPECT_NEAR(static_cast<double>(closed.peak_allocated), static_cast<double>(simulated.peak_allocated),
              allowed);
  EXPECT_EQ(closed.at_peak_allocated.total(), closed.peak_allocated);
  EXPECT_GE(closed.peak_reserved, closed.peak_allocated);
  EXPECT_LE(static_cast<double>(closed.peak_reserved),
            static_cast<double>(simulated.peak_reserved) + allowed);
  if (simulated.peak_active == 0) return;
  EXPECT_NEAR(static_cast<double>(closed.peak_active), static_cast<double>(simulated.peak_active), allowed);
}

void expect_sums(const PhaseReport& phase) {
  EXPECT_EQ(phase.at_peak_device.total(), phase.peak_device);
  EXPECT_EQ(phase.at_peak_host.total(), phase.peak_host);
  Bytes floor = 0;
  for (const ProcessPhase& process : phase.processes) {
    EXPECT_EQ(process.at_peak_allocated.total(), process.peak_allocated) << process.process;
    EXPECT_GE(process.peak_reserved, process.peak_allocated);
    floor = std::max(floor, process.peak_reserved);
  }
  EXPECT_GE(phase.peak_device, floor);
}

/// Folding equal layers changes nothing but small remainders.
void expect_equal(const PhaseReport& folded, const PhaseReport& whole) {
  for (const auto& [a, b] : {std::pair{folded.at_peak_device, whole.at_peak_device},
                             std::pair{folded.at_peak_host, whole.at_peak_host}})
    for (std::size_t c = 0; c < kComponents; ++c)
      EXPECT_NEAR(static_cast<double>(a.bytes[c]), static_cast<double>(b.bytes[c]),
                  0.002 * static_cast<double>(b.total()) + kMiB)
          << name(static_cast<Component>(c));
  EXPECT_NEAR(static_cast<double>(folded.peak_device), static_cast<double>(whole.peak_device),
              0.001 * static_cast<double>(whole.peak_device));
  // Host and device take turns in deciding, which few layers show only in part: worst with offloaded
  // activations.
  EXPECT_NEAR(folded.seconds, whole.seconds, 0.12 * whole.seconds + 1e-4);
}

class Executors : public ::testing::TestWithParam<std::string> {};

TEST_P(Executors, AgreeWithEachOther) {
  JobOptions options;
  options.steps = 2;
  const auto read = read_job(std::array{GetParam()}, options);
  ASSERT_TRUE(read) << read.error().text();
  const Job& job = read->job;
  const Hardware hardware = load_hardware(job.gpu.empty() ? "h100" : job.gpu).value();
  const auto closed = cli::closed_form_executor()(job, hardware);
  const auto simulated = cli::simulating_executor()(job, hardware);
  ASSERT_EQ(closed.has_value(), simulated.has_value());
  if (!closed) GTEST_SKIP() << closed.error().text();
  const bool folds = closed_form::fold_of(job).has_value();
  const auto whole = folds ? run_on_device(job, hardware, Fidelity::live_bytes) : closed;
  ASSERT_TRUE(whole);
  ASSERT_EQ(closed->devices.size(), simulated->devices.size());
  for (std::size_t d = 0; d < closed->devices.size(); ++d) {
    const auto& a = closed->devices[d].phases;
    const auto& b = simulated->devices[d].phases;
    ASSERT_LE(b.size(), a.size());
    const double kept = kept_as_engines_start(job, closed->devices[d], simulated->devices[d]);
    for (std::size_t p = 0; p < b.size(); ++p) {
      ASSERT_EQ(a[p].phase, b[p].phase);
      SCOPED_TRACE(a[p].phase + " step " + std::to_string(a[p].step));
      for (std::size_t i = 0; i < std::min(a[p].processes.size(), b[p].processes.size()); ++i)
        expect_agreement(a[p].processes[i], b[p].processes[i], kept);
      expect_sums(a[p]);
      expect_sums(b[p]);
      expect_equal(a[p], whole->devices[d].phases[p]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Runs, Executors, ::testing::ValuesIn(runs()), [](const auto& instance) {
  const std::filesystem::path path = instance.param;
  std::string name = path.parent_path().filename().string() + "_" + path.stem().string();
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
});

}  // namespace
}  // namespace headroom
