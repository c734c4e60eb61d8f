#include "simulator/phases/fragmentation.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "planner/frameworks/registry.h"
#include "simulator/allocator/virtual_device.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/simulate.h"
#include "simulator/tape/core/names.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

/// An allocator with a recorder.
class Recorded {
 public:
  explicit Recorded(allocator::AllocatorSettings settings = {}) : settings_(settings) {}

  template <typename Program>
  std::vector<PhaseFragmentation> of(const Program& program) {
    FragmentationRecorder recorder;
    allocator::VirtualDevice device(80 * kGiB);
    SimulatedMemory memory(settings_, device);
    recorder.attach(memory);
    program(memory, recorder);
    return recorder.take();
  }

 private:
  allocator::AllocatorSettings settings_;
};

Label label(Component component, const char* operation = "") {
  return {.component = component, .operation = tape::operation_name(operation)};
}

Bytes sum(const std::vector<FreePart>& parts) {
  return std::accumulate(parts.begin(), parts.end(), Bytes{0},
                         [](Bytes total, const FreePart& part) { return total + part.bytes; });
}

TEST(Fragmentation, TellsWhoGotWhatIsFreeAndWhoKeepsIt) {
  const auto phases = Recorded().of([](SimulatedMemory& memory, FragmentationRecorder& recorder) {
    recorder.begin_phase("score", 0);
    const Block logits = memory.allocate(30 * kMiB, 0, label(Component::logits, "log_softmax"));
    const Block cache = memory.allocate(50 * kMiB, 0, label(Component::kv_cache));
    memory.free(logits);
    const Block gradient = memory.allocate(4 * kMiB, 0, label(Component::gradients));  // in the logits' segment
    memory.free(cache);
    recorder.end_phase();
    recorder.begin_phase("train", 0);
    const Block large = memory.allocate(100 * kMiB, 0, label(Component::activations));
    recorder.end_phase();
    memory.free(large);
    memory.free(gradient);
  });
  ASSERT_EQ(phases.size(), 2u);
  const PhaseFragmentation& train = phases[1];
  EXPECT_EQ(train.reserved, 180 * kMiB);
  EXPECT_EQ(train.allocated, 104 * kMiB);
  ASSERT_EQ(train.parts.size(), 2u);
  EXPECT_EQ(train.parts[0].phase, "score");
  EXPECT_EQ(train.parts[0].component, Component::kv_cache);
  EXPECT_EQ(train.parts[0].bytes, 50 * kMiB);
  EXPECT_FALSE(train.parts[0].kept());
  EXPECT_EQ(train.parts[1].component, Component::logits);
  EXPECT_EQ(train.parts[1].operation, "log_softmax");
  EXPECT_EQ(train.parts[1].bytes, 26 * kMiB);
  EXPECT_EQ(train.parts[1].kept_by, Component::gradients);
  EXPECT_EQ(train.kept(), 26 * kMiB);
  // The peak of `score`: where most is reserved, most is allocated before the logits go.
  EXPECT_EQ(phases[0].reserved, 80 * kMiB);
  EXPECT_EQ(phases[0].allocated, 80 * kMiB);
  EXPECT_TRUE(phases[0].parts.empty());
}

TEST(Fragmentation, AnEmptiedCacheLeavesWhatIsPinned) {
  const auto phases = Recorded().of([](SimulatedMemory& memory, FragmentationRecorder& recorder) {
    const Block first = memory.allocate(30 * kMiB, 0, label(Component::logits));
    const Block other = memory.allocate(50 * kMiB, 0, label(Component::logits));
    memory.free(first);
    const Block pin = memory.allocate(4 * kMiB, 0, label(Component::optimizer));
    memory.free(other);
    memory.empty_cache();
    recorder.begin_phase("train", 1);
    const Block large = memory.allocate(100 * kMiB, 0, label(Component::activations));
    recorder.end_phase();
    memory.free(large);
    memory.free(pin);
  });
  EXPECT_EQ(phases[0].reserved, 130 * kMiB);
  ASSERT_EQ(phases[0].parts.size(), 1u);
  EXPECT_EQ(phases[0].parts[0].bytes, 26 * kMiB);
  EXPECT_EQ(phases[0].parts[0].phase, "start");
  EXPECT_EQ(phases[0].parts[0].kept_by, Component::optimizer);
}

TEST(Fragmentation, FollowsPiecesOfAnExpandableSegment) {
  allocator::AllocatorSettings settings;
  settings.expandable_segments = true;
  const auto phases = Recorded(settings).of([](SimulatedMemory& memory, FragmentationRecorder& recorder) {
    recorder.begin_phase("a", 0);
    const Block low = memory.allocate(40 * kMiB, 0, label(Component::logits));   // maps 40
    const Block high = memory.allocate(40 * kMiB, 0, label(Component::weights));  // maps 40 more
    memory.free(low);
    recorder.end_phase();
    memory.empty_cache();  // gives the lower half back
    recorder.begin_phase("b", 0);
    const Block again = memory.allocate(30 * kMiB, 0, label(Component::kv_cache));  // maps 40 there
    recorder.end_phase();
    memory.free(again);
    memory.free(high);
  });
  ASSERT_EQ(phases.size(), 2u);
  EXPECT_EQ(phases[1].reserved, 80 * kMiB);
  EXPECT_EQ(sum(phases[1].parts), 10 * kMiB);
  for (const FreePart& part : phases[1].parts) {
    EXPECT_EQ(part.phase, "b");
    EXPECT_EQ(part.component, Component::kv_cache);
  }
}

TEST(Fragmentation, WhatComesAfterThePeakIsTakenBack) {
  const auto phases = Recorded().of([](SimulatedMemory& memory, FragmentationRecorder& recorder) {
    const Block pin = memory.allocate(4 * kMiB, 0, label(Component::weights));       // at the start of 20 MiB
    const Block shared = memory.allocate(30 * kMiB, 0, label(Component::activations));
    memory.record_stream(shared, 1);
    memory.free(memory.allocate(40 * kMiB, 0, label(Component::logits)));
    recorder.begin_phase("train", 2);
    const Block large = memory.allocate(100 * kMiB, 0, label(Component::gradients));  // the peak
    memory.relabel(pin, label(Component::optimizer));
    memory.free(shared);
    memory.free(large);
    memory.synchronize();
    memory.empty_cache();
    const Block small = memory.allocate(10 * kMiB, 0, label(Component::temporaries));
    memory.free(pin);
    recorder.end_phase();
    memory.free(small);
  });
  EXPECT_EQ(phases[0].reserved, 190 * kMiB);
  EXPECT_EQ(phases[0].allocated, 134 * kMiB);
  ASSERT_EQ(phases[0].parts.size(), 2u);
  EXPECT_EQ(phases[0].parts[0].component, Component::logits);
  EXPECT_EQ(phases[0].parts[0].bytes, 40 * kMiB);
  EXPECT_FALSE(phases[0].parts[0].kept());
  EXPECT_EQ(phases[0].parts[1].bytes, 16 * kMiB);
  EXPECT_EQ(phases[0].parts[1].kept_by, Component::weights);
  // The gradients; after the cache was emptied nothing had to be got. The logits, the gradients and what was shared.
  EXPECT_EQ(phases[0].gets, 4);
  EXPECT_EQ(phases[0].returns, 3);
}

TEST(Fragmentation, PointsKeepThePeaks) {
  const auto phases = Recorded().of([](SimulatedMemory& memory, FragmentationRecorder& recorder) {
    recorder.begin_phase("many", 0);
    for (int i = 0; i < 10'000; ++i)
      memory.free(memory.allocate(i == 7'777 ? 64 * kMiB : 4 * kMiB, 0, label(Component::temporaries)));
    recorder.end_phase();
  });
  EXPECT_LE(phases[0].points.size(), 48u);
  Bytes reserved = 0, allocated = 0;
  for (const MemoryPoint& point : phases[0].points) {
    reserved = std::max(reserved, point.reserved);
    allocated = std::max(allocated, point.allocated);
  }
  EXPECT_EQ(reserved, phases[0].reserved);
  EXPECT_EQ(allocated, 64 * kMiB);
}

/// Of whole runs: what is looked at is the run that is reported, and parts sum to what is free.
class FragmentationOfRuns : public ::testing::TestWithParam<const char*> {};

TEST_P(FragmentationOfRuns, AgreesWithTheReport) {
  JobOptions options;
  options.steps = 2;
  const auto read = read_job(std::array{test::data(GetParam()).string()}, options);
  ASSERT_TRUE(read) << read.error().text();
  Hardware hardware = *find_hardware("h200");
  std::vector<ProcessFragmentation> processes;
  SimulateOptions asked;
  asked.fragmentation = &processes;
  const auto report = simulate(read->job, hardware, asked);
  ASSERT_TRUE(report) << report.error().text();
  const auto plain = simulate(read->job, hardware);
  ASSERT_EQ(processes.size(), 1u);
  std::size_t at = 0;
  for (std::size_t i = 0; i < report->devices[0].phases.size(); ++i) {
    const PhaseReport& phase = report->devices[0].phases[i];
    const ProcessPhase& row = phase.processes.at(0);
    EXPECT_EQ(row.peak_reserved, plain->devices[0].phases[i].processes.at(0).peak_reserved);
    ASSERT_LT(at, processes[0].phases.size());
    const PhaseFragmentation& seen = processes[0].phases[at++];
    EXPECT_EQ(seen.phase, phase.phase);
    EXPECT_EQ(seen.step, phase.step);
    if (phase.step >= 0) {
      EXPECT_EQ(seen.reserved, row.peak_reserved) << phase.phase;
      EXPECT_LE(seen.allocated, row.peak_allocated);
    }
    EXPECT_EQ(sum(seen.parts), seen.free()) << phase.phase << " " << phase.step;
    EXPECT_LE(seen.kept(), seen.free());
  }
}

INSTANTIATE_TEST_SUITE_P(Recorded, FragmentationOfRuns,
                         ::testing::Values("deepspeed/opt13-z3.json", "deepspeed/gpt2m-z2.json",
                                           "rlhf/opt13-ppo-expandable.json", "rlhf/fsdp-q05-grpo.json",
                                           "rlhf/opt13-ppo-ems.json"));

}  // namespace
}  // namespace headroom
