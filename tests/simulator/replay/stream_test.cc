#include "simulator/replay/stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/replay/snapshot_reader.h"
#include "simulator/replay/stream_file.h"
#include "simulator/replay/text_file.h"
#include "simulator/replay/what_if.h"
#include "tests/support/data.h"

namespace headroom::replay {
namespace {

using Kind = StreamEvent::Kind;
using testing::HasSubstr;

AllocationStream recorded(const std::string& name) {
  const std::string path = test::data("rlhf/" + name + ".trace.json.gz").string();
  auto stream = parse_stream(read_text_file(path).value(), path);
  EXPECT_TRUE(stream) << stream.error().text();
  return std::move(*stream);
}

WhatIfOutcome run_as_recorded(const AllocationStream& stream, StreamObserver* observer = nullptr) {
  return run_setting(stream, {"as recorded", stream.settings, false, false}, std::nullopt, observer).value();
}

/// Peaks as PyTorch's counters had them over the whole run.
struct Recorded {
  const char* name;
  std::size_t phases;
  Bytes peak_allocated, peak_reserved;
  Bytes before = 0;  ///< allocated when the recording began
};

void PrintTo(const Recorded& one, std::ostream* out) {
  *out << one.name;
}

class RecordedStream : public testing::TestWithParam<Recorded> {};

TEST_P(RecordedStream, RunsToItsPeaks) {
  const AllocationStream stream = recorded(GetParam().name);
  EXPECT_EQ(stream.phases.size(), GetParam().phases);
  const WhatIfOutcome outcome = run_as_recorded(stream);
  EXPECT_EQ(outcome.peak_reserved, GetParam().peak_reserved);
  EXPECT_EQ(outcome.peak_allocated + GetParam().before, GetParam().peak_allocated);
}

INSTANTIATE_TEST_SUITE_P(OfRlhfLoops, RecordedStream,
                         testing::Values(Recorded{"fr-opt", 15, 5922469376, 6119489536},
                                         Recorded{"fr-qwen2-lora", 9, 941443584, 950009856},
                                         Recorded{"opt125-ppo-trace", 15, 5117619200, 5523898368},
                                         Recorded{"fsdp-streams-ll1b-zero2", 9, 18728401408, 22466789376,
                                                  512}),
                         [](const auto& parameter) {
                           std::string name = parameter.param.name;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

/// Segments as the simulated allocator gets and returns them.
class SegmentSequence : public StreamObserver, public allocator::Observer {
 public:
  allocator::Observer* allocator_observer() override { return this; }
  std::vector<std::pair<Kind, Bytes>> events;
  void segment_alloc(allocator::Address, Bytes size, allocator::Stream) override {
    events.emplace_back(Kind::segment_alloc, size);
  }
  void segment_free(allocator::Address, Bytes size, allocator::Stream) override {
    events.emplace_back(Kind::segment_free, size);
  }
};

TEST(Stream, SimulatedSegmentsComeAndGoAsRecorded) {
  for (const char* name : {"fr-opt", "fr-qwen2-lora", "opt125-ppo-trace"}) {
    const AllocationStream stream = recorded(name);
    SegmentSequence simulated;
    run_as_recorded(stream, &simulated);
    std::vector<std::pair<Kind, Bytes>> expected;
    for (std::size_t i = 0; i < stream.events.size(); ++i) {
      const StreamEvent& e = stream.events[i];
      if (e.kind == Kind::segment_alloc || e.kind == Kind::segment_free)
        expected.emplace_back(e.kind, e.bytes);
    }
    EXPECT_EQ(simulated.events, expected) << name;
  }
}

TEST(Stream, IsWrittenAndReadBack) {
  const AllocationStream stream = recorded("fsdp-streams-ll1b-zero2");
  const std::string text = stream_text(stream);
  const AllocationStream again = parse_stream(text, "again").value();
  EXPECT_EQ(stream_text(again), text);
  EXPECT_EQ(again.streams, 4u);
  EXPECT_EQ(run_as_recorded(again).peak_reserved, run_as_recorded(stream).peak_reserved);
}

TEST(Stream, OfASnapshotRunsToTheSamePeaks) {
  // Histories that begin with nothing in use.
  for (const auto& [name, peak] :
       {std::pair{"basic", 65011712}, {"streams", 88080384}, {"expandable", 65011712}}) {
    const Snapshot snapshot =
        read_snapshot(test::data("snapshots/" + std::string(name) + ".pickle.gz").string()).value();
    const SnapshotHistory history = complete_history(snapshot, 0).value();
    const AllocationStream stream = stream_of(snapshot, history);
    EXPECT_TRUE(check_stream(stream));
    EXPECT_EQ(run_as_recorded(stream).peak_reserved, peak) << name;
    EXPECT_EQ(recorded_peak_reserved(stream), peak) << name;
  }
}

TEST(Stream, FindsEmptiedCachesByTheirStacks) {
  const auto emptied = [](const std::string& name) {
    const Snapshot snapshot = read_snapshot(test::data("snapshots/" + name + ".pickle.gz").string()).value();
    const AllocationStream stream = stream_of(snapshot, complete_history(snapshot, 0).value());
    int count = 0;
    for (std::size_t i = 0; i < stream.events.size(); ++i)
      count += stream.events[i].kind == Kind::empty_cache;
    return count;
  };
  EXPECT_EQ(emptied("training"), 0);
  EXPECT_EQ(emptied("training-emptied"), 4);  // After generate and train of two steps.
  EXPECT_EQ(emptied("basic"), 1);
}

TEST(Stream, ReleasesFollowedByGrowthAreRetries) {
  ChunkedVector<StreamEvent> events;
  for (const Kind kind : {Kind::segment_free, Kind::segment_alloc, Kind::allocate, Kind::segment_free,
                          Kind::segment_free, Kind::allocate})
    events.push_back({.bytes = 1, .kind = kind});
  const auto marked = with_cache_emptying(events, {});
  ASSERT_EQ(marked.size(), 7u);
  EXPECT_EQ(marked[3].kind, Kind::empty_cache);
}

TEST(StreamFile, ReadsEveryFormat) {
  const auto one =
      parse_stream(
          R"({"marker_size":8192,"labels":["x","y"],"events":[["a",0,7777,1],["f",0],["a",1,5],["S-",1]]})",
          "f")
          .value();
  ASSERT_EQ(one.events.size(), 6u);
  EXPECT_EQ(one.events[0].kind, Kind::phase);
  EXPECT_EQ(one.events[1].label, 1u);
  EXPECT_EQ(one.events[3].label, kNoLabel);
  EXPECT_EQ(one.events[4].kind, Kind::empty_cache);
  const auto two =
      parse_stream(R"({"format":2,"labels":["x","y"],"events":[["a",7,100,3,1],["q",7],["f",7]]})", "f")
          .value();
  EXPECT_EQ(two.events[0].stream, 3u);
  EXPECT_EQ(two.events[0].label, 1u);
  EXPECT_EQ(two.events[0].id, 0u);
  EXPECT_EQ(two.streams, 4u);
  const auto three =
      parse_stream(R"({"events":[["a",7,100,3,-1,2],["p",0],["e"],["p",-1]],"phases":["train"],"format":3})",
                   "f")
          .value();
  EXPECT_EQ(three.events[0].pool, 2);
  EXPECT_EQ(three.pools, 3u);
  EXPECT_EQ(three.events[3].id, kNoPhase);
}

TEST(StreamFile, NamesTheEventThatCannotBe) {
  const auto error = [](const std::string& events) {
    const auto stream =
        parse_stream(R"({"format":3,"phases":["p"],"events":[["a",0,1],)" + events + "]}", "f");
    return stream ? "no error" : stream.error().text();
  };
  EXPECT_EQ(error(R"(["f",0])"), "no error");
  EXPECT_EQ(error(R"(["f",1])"), "f: event 1: frees allocation 1, which was never made or is free already");
  EXPECT_THAT(error(R"(["f",0],["f",0])"), HasSubstr("event 2: frees allocation 0"));
  EXPECT_THAT(error(R"(["q",0],["q",0])"), HasSubstr("event 2: frees allocation 0, which is not live"));
  EXPECT_THAT(error(R"(["a",0,1])"), HasSubstr("event 1: allocation 0 is still live"));
  EXPECT_EQ(error(R"(["f",0],["a",0,1])"), "no error");
  EXPECT_THAT(error(R"(["a",1,-5])"), HasSubstr("event 1: a size of -5 bytes"));
  EXPECT_THAT(error(R"(["S+",-5])"), HasSubstr("event 1: a size of -5 bytes"));
  EXPECT_THAT(error(R"(["a",1,9223372036854775807])"), HasSubstr("event 1: a size of 9223372036854775807"));
  EXPECT_THAT(error(R"(["r",1,1])"), HasSubstr("event 1: uses allocation 1, which was never made"));
  EXPECT_THAT(error(R"(["q",0],["r",0,1])"), HasSubstr("event 2: uses allocation 0, which is not live"));
  EXPECT_THAT(error(R"(["a",1])"), HasSubstr("event 1: expected 3 elements, found 2"));
  EXPECT_THAT(error(R"(["z",1])"), HasSubstr("event 1: unknown kind `z`"));
  EXPECT_EQ(error(R"(["x",1],["x",0])"), "no error");
  EXPECT_THAT(error(R"(["x",2])"), HasSubstr("event 1: expected 1 (on) or 0 (off), found 2"));
  EXPECT_THAT(error(R"(["a",1,1.5])"), HasSubstr("event 1: expected integers, found a fraction"));
  EXPECT_THAT(error(R"(["a","b",1])"), HasSubstr("event 1: expected numbers"));
  EXPECT_THAT(error(R"([1])"), HasSubstr("event 1: expected a kind first"));
  EXPECT_THAT(error(R"(["p",3])"), HasSubstr("event 1: phase 3 of 1"));
  EXPECT_THAT(error(R"(["a",1,1,70000])"), HasSubstr("stream 70000"));
  EXPECT_THAT(error(R"(["f",0)"), HasSubstr("no valid JSON"));
  EXPECT_THAT(error(std::string(50, '[')), HasSubstr("found a list"));
}

TEST(StreamFile, NamesWhatIsNoStream) {
  EXPECT_THAT(parse_stream("", "f").error().text(),
              HasSubstr("f: the file is empty; expected a memory snapshot"));
  EXPECT_THAT(parse_stream("cos\nsystem\n", "f").error().text(),
              HasSubstr("neither a pickle nor a JSON object"));
  EXPECT_THAT(parse_stream("{}", "f").error().text(), HasSubstr("no `events`"));
  EXPECT_THAT(parse_stream(R"({"format":9,"events":[["e"]]})", "f").error().text(),
              HasSubstr("format 9; 1 to 3"));
}

}  // namespace
}  // namespace headroom::replay
