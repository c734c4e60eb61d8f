#include "simulator/replay/snapshot_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/replay/snapshot_analysis.h"
#include "simulator/replay/snapshot_writer.h"
#include "tests/support/data.h"

namespace headroom::replay {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;

std::string bytes_of(const std::string& name) {
  auto source = ByteSource::open(test::data("snapshots/" + name + ".pickle.gz").string());
  return read_all(*source, 1 << 24).value();
}

Result<Snapshot> read(std::string_view bytes) {
  ByteSource source = ByteSource::memory(bytes);
  return read_snapshot(source);
}

/// A string as Python pickles it.
std::string text(const std::string& value) {
  return "\x8c" + std::string(1, static_cast<char>(value.size())) + value;
}

std::string replaced(std::string bytes, const std::string& from, const std::string& to) {
  const std::size_t at = bytes.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return bytes.replace(at, from.size(), to);
}

TEST(SnapshotReader, ReadsWhatPyTorchWrote) {
  const Snapshot s = read(bytes_of("basic")).value();
  ASSERT_EQ(s.segments.size(), 2u);
  EXPECT_EQ(s.segments[0].address, 140373152235520);
  EXPECT_TRUE(s.segments[0].small);
  EXPECT_EQ(s.segments[1].size, 20 * kMiB);
  ASSERT_EQ(s.segments[1].blocks.size(), 2u);
  EXPECT_EQ(s.segments[1].blocks[0].state, SnapshotBlockState::allocated);
  ASSERT_EQ(s.traces.size(), 1u);
  ASSERT_EQ(s.traces[0].second, 13u);
  EXPECT_EQ(s.events[1].action, TraceAction::alloc);
  EXPECT_EQ(s.events[1].size, 4000);
  EXPECT_EQ(s.events[12].action, TraceAction::oom);
  EXPECT_FALSE(s.settings.max_split_size);
  EXPECT_EQ(frame_text(s, s.stacks.stack(s.events[1].stack)[0]),
            "/home/rlhf/tests/support/record_snapshots.py:51 basic");
}

TEST(SnapshotReader, ReadsTheCppWritersProtocol2) {
  const Snapshot s = read(bytes_of("cpp")).value();
  EXPECT_EQ(s.segments.size(), 3u);
  ASSERT_EQ(s.traces.size(), 1u);
  EXPECT_EQ(s.traces[0].second, 8u);
  EXPECT_EQ(s.stacks.stack(s.events[1].stack).size(), 3u);
}

TEST(SnapshotReader, ReadsStreamsPoolsAndStates) {
  const Snapshot s = read(bytes_of("streams")).value();
  ASSERT_EQ(s.segments.size(), 6u);
  EXPECT_EQ(s.segments[1].pool, (PoolKey{0, 1}));
  EXPECT_EQ(s.segments[3].blocks[1].state, SnapshotBlockState::pending_free);
  EXPECT_EQ(s.contexts.size(), 3u);
}

TEST(SnapshotReader, EveryTruncationIsAnError) {
  const std::string bytes = bytes_of("basic");
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(read(bytes.substr(0, length))) << length;
}

TEST(SnapshotReader, NamesWrongTypes) {
  const std::string bytes = bytes_of("basic");
  const auto error = [&](const std::string& from, const std::string& to) {
    const auto result = read(replaced(bytes, from, to));
    return result ? "no error" : result.error().text();
  };
  EXPECT_THAT(error(text("stream") + "\x94K\0"s, text("stream") + "\x94N"),
              HasSubstr("segment 0: stream: expected an integer, found None"));
  EXPECT_THAT(error(text("active_allocated"), text("active_forgotten")),
              HasSubstr("found `active_forgotten`"));
  EXPECT_THAT(error(text("action"), text("Action")), HasSubstr("device_traces: expected trace entries"));
  EXPECT_THAT(error(text("blocks"), text("Blocks")), HasSubstr("segments: expected segments"));
  EXPECT_THAT(error(text("total_size"), text("Total_size")), HasSubstr("total_size: missing"));
  EXPECT_EQ(error(text("segments"), text("Segments")), "no error");
}

TEST(SnapshotReader, RefusesSegmentsThatTheirBlocksDoNotTile) {
  Snapshot s = read(bytes_of("basic")).value();
  s.segments[1].blocks[1].size -= 512;
  EXPECT_THAT(read(snapshot_pickle(s)).error().text(),
              HasSubstr("its blocks hold 20971008 bytes, expected 20971520"));
  s = read(bytes_of("basic")).value();
  s.segments[1].blocks[1].address += 512;
  EXPECT_THAT(read(snapshot_pickle(s)).error().text(), HasSubstr("segment 1: block 1 lies at"));
}

TEST(SnapshotReader, RefusesNegativeAndHugeSizes) {
  Snapshot s = read(bytes_of("basic")).value();
  s.events[1].size = -4000;
  EXPECT_THAT(read(snapshot_pickle(s)).error().text(),
              HasSubstr("trace entry 1: size: expected a size from 0 to 2^60, found -4000"));
  s.events[1].size = INT64_MAX;
  EXPECT_FALSE(read(snapshot_pickle(s)));
}

TEST(SnapshotReader, NamesFreesThatCannotBe) {
  Snapshot s = read(bytes_of("basic")).value();
  const auto error = [&] { return analyse_device(s, 0).error().text(); };
  s.events[9].address = s.events[10].address = 4096;
  EXPECT_THAT(error(), HasSubstr("event 9: frees 0x1000, which was never allocated and lies in no segment"));
  s = read(bytes_of("basic")).value();
  s.events[11] = s.events[9];
  EXPECT_THAT(error(), HasSubstr("event 11: frees"));
  EXPECT_THAT(error(), HasSubstr("a second time"));
  s = read(bytes_of("basic")).value();
  s.events[6] = s.events[3];
  EXPECT_THAT(error(), HasSubstr("event 6: allocates"));
}

TEST(SnapshotReader, CyclicObjectsAreWrongTypes) {
  // segments = [root], device_traces = [[root]], frames that hold themselves.
  const std::string root = "\x80\x04}\x94(\x8c\x08segments](h";
  EXPECT_THAT(read(root + std::string(1, '\0') + "eu.").error().text(),
              HasSubstr("segments: expected segments"));
  const std::string trace =
      "\x80\x04}(\x8c\x0d"
      "device_traces](]\x94(h" +
      std::string(1, '\0') + "eeu.";
  EXPECT_THAT(read(trace).error().text(), HasSubstr("device_traces: expected trace entries, found a list"));
  const std::string frames =
      "\x80\x04}(\x8c\x06"
      "actionK\x01\x8c\x06"
      "frames]\x94h" +
      std::string(1, '\0') + "au.";
  EXPECT_THAT(read(frames).error().text(), HasSubstr("action: expected a string, found an integer"));
}

TEST(SnapshotWriter, ReadsBackAsItWas) {
  for (const char* name : {"basic", "cpp", "streams", "expandable", "training", "truncated"}) {
    const Snapshot a = read(bytes_of(name)).value();
    const Snapshot b = read(snapshot_pickle(a)).value();
    ASSERT_EQ(a.events.size(), b.events.size());
    for (std::size_t i = 0; i < a.events.size(); ++i) {
      EXPECT_EQ(a.events[i].address, b.events[i].address);
      EXPECT_EQ(a.events[i].size, b.events[i].size);
      EXPECT_EQ(a.events[i].action, b.events[i].action);
      EXPECT_EQ(a.contexts[a.events[i].context].stream, b.contexts[b.events[i].context].stream);
      ASSERT_EQ(a.stacks.stack(a.events[i].stack).size(), b.stacks.stack(b.events[i].stack).size());
    }
    ASSERT_EQ(a.segments.size(), b.segments.size());
    for (std::size_t i = 0; i < a.segments.size(); ++i)
      EXPECT_EQ(a.segments[i].blocks.size(), b.segments[i].blocks.size());
    EXPECT_EQ(a.annotations.size(), b.annotations.size());
    EXPECT_EQ(a.settings.conf, b.settings.conf);
    // And once more: the same bytes.
    EXPECT_EQ(snapshot_pickle(b), snapshot_pickle(read(snapshot_pickle(b)).value()));
  }
}

}  // namespace
}  // namespace headroom::replay
