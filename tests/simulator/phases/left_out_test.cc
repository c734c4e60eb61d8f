#include <gtest/gtest.h>

#include <array>
#include <string>
#include <tuple>

#include "planner/frameworks/registry.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/phase_interpreter.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

struct Case {
  const char* name;
  std::string path;
};

class LeftOut : public testing::TestWithParam<std::tuple<Case, Fidelity>> {};

void expect_equal(const ProcessPhase& a, const ProcessPhase& b) {
  EXPECT_EQ(a.allocated_start, b.allocated_start);
  EXPECT_EQ(a.peak_allocated, b.peak_allocated);
  EXPECT_EQ(a.allocated_end, b.allocated_end);
  EXPECT_EQ(a.peak_reserved, b.peak_reserved);
  EXPECT_EQ(a.reserved_end, b.reserved_end);
  EXPECT_EQ(a.peak_active, b.peak_active);
  EXPECT_EQ(a.n_allocs, b.n_allocs);
  EXPECT_EQ(a.segments, b.segments);
  EXPECT_EQ(a.at_peak_allocated, b.at_peak_allocated);
}

/// Tokens and layers that a generation leaves out change no figure of the report; seconds grow along a line
/// between the tokens that are run.
TEST_P(LeftOut, ChangesNoFigure) {
  const auto& [one, fidelity] = GetParam();
  const auto read = read_job(std::array{one.path}, {});
  ASSERT_TRUE(read) << read.error().text();
  const Hardware hardware = load_hardware("h100").value();
  const MakeTrainer make_trainer = program_over(fidelity);
  const GpuKind kind = gpu_kinds(read->job).front();
  const auto whole = run_gpu(read->job, hardware, make_trainer, kind, {.leave_out_repetitions = false});
  const auto quick = run_gpu(read->job, hardware, make_trainer, kind);
  ASSERT_TRUE(whole) << whole.error().text();
  ASSERT_TRUE(quick) << quick.error().text();
  const auto &a = quick->report.phases, &b = whole->report.phases;
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < b.size(); ++i) {
    SCOPED_TRACE(b[i].phase + " step " + std::to_string(b[i].step));
    EXPECT_EQ(a[i].at_peak_device, b[i].at_peak_device);
    EXPECT_EQ(a[i].at_peak_host, b[i].at_peak_host);
    EXPECT_NEAR(a[i].seconds, b[i].seconds, 1e-3 * b[i].seconds);
    ASSERT_EQ(a[i].processes.size(), b[i].processes.size());
    for (std::size_t p = 0; p < b[i].processes.size(); ++p)
      expect_equal(a[i].processes[p], b[i].processes[p]);
  }
}

std::vector<Case> cases() {
  return {{"llama", test::data("rlhf/fr-llama.json")},
          {"qwen2_lora", test::data("rlhf/fr-qwen2-lora.json")},
          {"opt", test::data("rlhf/fr-opt.json")},
          {"gpt2", test::data("rlhf/fr-gpt2.json")},
          {"neox_eager", test::data("rlhf/fr-neox-eager.json")},
          {"own_job", test::source("configs/examples/job/llama-3.2-1b-ppo-1xh100.yaml")},
          {"kept_scores", test::data("trl-loops/ppo-loop-gpt2.json")}};
}

INSTANTIATE_TEST_SUITE_P(Generations, LeftOut,
                         testing::Combine(testing::ValuesIn(cases()),
                                          testing::Values(Fidelity::live_bytes, Fidelity::every_allocation)),
                         [](const auto& one) {
                           return std::get<0>(one.param).name +
                                  std::string(std::get<1>(one.param) == Fidelity::live_bytes ? "_live"
                                                                                             : "_simulated");
                         });

}  // namespace
}  // namespace headroom
