#include "simulator/replay/snapshot_analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "simulator/replay/snapshot_reader.h"
#include "simulator/replay/snapshot_writer.h"
#include "tests/support/data.h"

namespace headroom::replay {
namespace {

using testing::HasSubstr;

Snapshot recorded(const std::string& name) {
  auto snapshot = read_snapshot(test::data("snapshots/" + name + ".pickle.gz").string());
  EXPECT_TRUE(snapshot) << snapshot.error().text();
  return std::move(*snapshot);
}

/// memory_stats() at the dump.
nlohmann::json statistics(const std::string& name) {
  std::ifstream in(test::data("snapshots/" + name + ".stats.json"));
  return nlohmann::json::parse(in)["stats"];
}

DeviceAnalysis analysed(const Snapshot& snapshot) {
  auto analysis = analyse_device(snapshot, 0);
  EXPECT_TRUE(analysis) << analysis.error().text();
  return std::move(*analysis);
}

/// The replayed history ends in the counters that PyTorch had, and passed through the same peaks.
class RecordedSnapshot : public testing::TestWithParam<const char*> {};

TEST_P(RecordedSnapshot, ReplaysToItsStatistics) {
  const Snapshot snapshot = recorded(GetParam());
  const auto stats = statistics(GetParam());
  const DeviceAnalysis a = analysed(snapshot);
  EXPECT_EQ(a.end.allocated, stats["allocated_bytes.all.current"]);
  EXPECT_EQ(a.end.active, stats["active_bytes.all.current"]);
  EXPECT_EQ(a.end.reserved, stats["reserved_bytes.all.current"]);
  EXPECT_EQ(a.end.inactive_split, stats["inactive_split_bytes.all.current"]);
  EXPECT_EQ(a.end.blocks, stats["allocation.all.current"]);
  EXPECT_EQ(static_cast<std::int64_t>(a.ooms.size()), stats["num_ooms"]);
  EXPECT_EQ(a.homeless, 0);
  EXPECT_EQ(a.peak_reserved.reserved, stats["reserved_bytes.all.peak"]);
  if (std::string(GetParam()) == "truncated") return;  // Its allocated peak is lost with the older events.
  EXPECT_EQ(a.peak_allocated.allocated, stats["allocated_bytes.all.peak"]);
  EXPECT_EQ(a.peak_active, stats["active_bytes.all.peak"]);
}

INSTANTIATE_TEST_SUITE_P(OfPyTorch211, RecordedSnapshot,
                         testing::Values("basic", "streams", "expandable", "training", "training-emptied",
                                         "truncated"));

TEST(SnapshotAnalysis, EndsInTheBlocksOfTheSnapshot) {
  for (const char* name : {"basic", "streams", "expandable", "training", "training-emptied", "truncated"}) {
    const Snapshot snapshot = recorded(name);
    const auto history = complete_history(snapshot, 0);
    ASSERT_TRUE(history) << history.error().text();
    const auto settings = settings_of(snapshot);
    SnapshotReplay replay(snapshot, *history, settings);
    ASSERT_TRUE(replay.start());
    for (std::size_t i = 0; i < history->count; ++i) ASSERT_TRUE(replay.step(i));
    const SnapshotHeap& heap = replay.heap();
    ASSERT_EQ(heap.segments().size(), snapshot.segments.size()) << name;
    for (const SnapshotSegment& segment : snapshot.segments) {
      SnapshotHeap::Node node = heap.at(segment.address);
      for (const SnapshotBlock& block : segment.blocks) {
        ASSERT_NE(node, SnapshotHeap::kNone) << name;
        EXPECT_EQ(heap.block(node).address, block.address) << name;
        EXPECT_EQ(heap.block(node).size, block.size) << name;
        EXPECT_EQ(heap.block(node).state == SnapshotHeap::State::free,
                  block.state == SnapshotBlockState::inactive);
        node = heap.block(node).next;
      }
      EXPECT_EQ(node, SnapshotHeap::kNone) << name;
    }
  }
}

TEST(SnapshotAnalysis, TruncatedHistoriesAgreeWithWholeOnes) {
  // The same program twice: once with all events, once with the last 400. From there on both see the same
  // memory.
  const Snapshot whole = recorded("training"), last = recorded("truncated");
  const DeviceAnalysis a = analysed(whole), b = analysed(last);
  EXPECT_EQ(b.history.count, 400u);
  EXPECT_GT(b.start.blocks, 0);
  ASSERT_FALSE(b.history.missing.empty());
  EXPECT_THAT(b.history.missing.front(), HasSubstr("were not recorded"));
  auto settings = settings_of(whole);
  SnapshotReplay replay(whole, a.history, settings);
  ASSERT_TRUE(replay.start());
  const std::size_t skipped = a.history.count - 400;
  for (std::size_t i = 0; i < skipped; ++i) ASSERT_TRUE(replay.step(i));
  EXPECT_EQ(replay.heap().reserved(), b.start.reserved);
  // One block's unsplit rest cannot be seen any more; it is counted as free instead.
  EXPECT_EQ(b.history.unmeasured_blocks, 1);
  const Bytes rest = replay.heap().allocated() - b.start.allocated;
  EXPECT_GT(rest, 0);
  EXPECT_LE(rest, kMiB);
  EXPECT_EQ(replay.heap().inactive_split() + rest, b.start.inactive_split);
  EXPECT_EQ(replay.heap().live_blocks(), b.start.blocks);
}

TEST(SnapshotAnalysis, FindsPhasesAndHolders) {
  const Snapshot snapshot = recorded("training");
  const DeviceAnalysis a = analysed(snapshot);
  std::vector<std::string> names;
  for (const PhaseUse& phase : a.phases) names.push_back(phase.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"generate", "logprob", "train", "generate", "logprob", "train"}));
  EXPECT_EQ(a.peak_allocated.phase, "train");
  Bytes held = 0;
  for (const Holder& holder : a.holders) held += holder.bytes;
  EXPECT_EQ(held, a.peak_allocated.allocated);
  for (const Holder& holder : a.holders) {
    if (!holder.site) continue;
    EXPECT_THAT(frame_text(snapshot, holder.site.value()), HasSubstr("record_snapshots.py"));
  }
}

TEST(SnapshotAnalysis, SettingsOfAnotherVersionAreTakenByTheirValues) {
  SnapshotSettings settings{
      .conf = "some_new_option:3", .max_split_size = 64 * kMiB, .expandable_segments = true};
  settings.roundup_power2_divisions.fill(4);
  const std::string conf = conf_of(settings);
  EXPECT_THAT(conf, testing::StartsWith(
                        "expandable_segments:True,max_split_size_mb:64,roundup_power2_divisions:[1:4,"));
  const auto parsed = allocator::parse_allocator_settings(conf);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->roundup_power2_divisions, settings.roundup_power2_divisions);
  settings.conf = "max_split_size_mb:128";
  EXPECT_EQ(conf_of(settings), settings.conf);
}

/// `other` as one device more of `snapshot`, without its stacks.
void add_device(Snapshot& snapshot, const Snapshot& other) {
  const auto device = static_cast<std::int64_t>(snapshot.traces.size());
  const std::size_t first_event = snapshot.events.size();
  const auto first_context = static_cast<std::uint16_t>(snapshot.contexts.size());
  for (std::size_t i = 0; i < other.events.size(); ++i) {
    TraceEvent event = other.events[i];
    event.context = static_cast<std::uint16_t>(event.context + first_context);
    event.stack = 0;
    snapshot.events.push_back(event);
  }
  snapshot.contexts.insert(snapshot.contexts.end(), other.contexts.begin(), other.contexts.end());
  snapshot.traces.emplace_back(first_event, other.events.size());
  for (SnapshotSegment segment : other.segments) {
    segment.device = device;
    segment.stack = 0;
    for (SnapshotBlock& block : segment.blocks) block.stack = 0;
    snapshot.segments.push_back(std::move(segment));
  }
}

// Addresses mean something on their own device only: here every device has the same.
TEST(SnapshotAnalysis, DevicesOfOnePickleAreKeptApart) {
  Snapshot written = recorded("basic");
  add_device(written, recorded("streams"));
  written.traces.emplace_back(written.events.size(), 0);  // A device that was not used.
  add_device(written, recorded("basic"));
  const std::string pickle = snapshot_pickle(written);
  ByteSource source = ByteSource::memory(pickle);
  const auto snapshot = read_snapshot(source);
  ASSERT_TRUE(snapshot) << snapshot.error().text();
  ASSERT_EQ(snapshot->traces.size(), 4u);
  const std::vector<std::string> names{"basic", "streams", "", "basic"};
  for (std::size_t device = 0; device < names.size(); ++device) {
    const auto a = analyse_device(*snapshot, device);
    ASSERT_TRUE(a) << a.error().text();
    if (names[device].empty()) {
      EXPECT_EQ(a->peak_reserved.reserved, 0);
      continue;
    }
    const DeviceAnalysis alone = analysed(recorded(names[device]));
    EXPECT_EQ(a->peak_allocated.allocated, alone.peak_allocated.allocated) << device;
    EXPECT_EQ(a->peak_reserved.reserved, alone.peak_reserved.reserved) << device;
    EXPECT_EQ(a->end.reserved, alone.end.reserved) << device;
    EXPECT_EQ(a->end.blocks, alone.end.blocks) << device;
    EXPECT_EQ(a->homeless, 0) << device;
  }
}

TEST(SnapshotAnalysis, ReportsOutOfMemory) {
  const DeviceAnalysis a = analysed(recorded("basic"));
  ASSERT_EQ(a.ooms.size(), 1u);
  EXPECT_EQ(a.ooms[0].size, Bytes{1} << 45);
  EXPECT_EQ(a.ooms[0].device_free, 84442021888);
}

}  // namespace
}  // namespace headroom::replay
