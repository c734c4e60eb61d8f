#include "simulator/replay/snapshot_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "simulator/replay/snapshot_analysis.h"
#include "simulator/replay/snapshot_reader.h"
#include "simulator/replay/snapshot_writer.h"
#include "simulator/replay/stream_file.h"
#include "simulator/replay/stream_snapshot.h"
#include "simulator/replay/text_file.h"
#include "tests/support/data.h"

namespace headroom::replay {
namespace {

AllocationStream recorded(const std::string& name) {
  const std::string path = test::data("rlhf/" + name + ".trace.json.gz").string();
  return parse_stream(read_text_file(path).value(), path).value();
}

/// A simulated run, written as a pickle, read back, and analysed like a real one, gives what the simulation
/// counted: over native and expandable segments, splits, streams, retries and a failure at the end.
TEST(SnapshotRecorder, SimulatedRunsAreSnapshots) {
  const std::pair<const char*, const char*> cases[] = {
      {"fr-opt", ""},
      {"fr-opt", "expandable_segments:True"},
      {"fr-qwen2-lora", "max_split_size_mb:32"},
      {"fsdp-streams-ll1b-zero2", ""},
      {"fsdp-streams-ll1b-zero2", "expandable_segments:True"},
      {"opt125-ppo-trace", "roundup_power2_divisions:4"}};
  for (const auto& [name, conf] : cases) {
    const AllocationStream stream = recorded(name);
    for (const std::optional<Bytes> limit : {std::optional<Bytes>{}, std::optional<Bytes>{5 * kGiB}}) {
      const WhatIfSetting setting{"x", conf, true, false};
      const WhatIfOutcome outcome = run_setting(stream, setting, limit).value();
      const std::string pickle = snapshot_pickle(snapshot_of(stream, setting, limit).value());
      ByteSource source = ByteSource::memory(pickle);
      const auto snapshot = read_snapshot(source);
      ASSERT_TRUE(snapshot) << name << " " << conf << ": " << snapshot.error().text();
      const auto analysis = analyse_device(*snapshot, 0);
      ASSERT_TRUE(analysis) << name << " " << conf << " " << limit.value_or(0) << ": "
                            << analysis.error().text();
      EXPECT_EQ(analysis->peak_allocated.allocated, outcome.peak_allocated) << name << " " << conf;
      EXPECT_EQ(analysis->peak_reserved.reserved, outcome.peak_reserved) << name << " " << conf;
      EXPECT_EQ(analysis->end.reserved, outcome.reserved_end) << name << " " << conf;
      EXPECT_EQ(analysis->ooms.size(), outcome.out_of_memory ? 1u : 0u) << name << " " << conf;
      EXPECT_TRUE(analysis->history.blocks.empty());
      EXPECT_EQ(settings_of(*snapshot).expandable_segments, std::string(conf).starts_with("expandable"));
    }
  }
}

TEST(SnapshotRecorder, KeepsLabelsAndPhases) {
  const AllocationStream stream = recorded("fr-opt");
  const Snapshot snapshot = snapshot_of(stream, {"x", "", false, false}, std::nullopt).value();
  const DeviceAnalysis analysis = analyse_device(snapshot, 0).value();
  EXPECT_EQ(analysis.phases.size(), stream.phases.size());
  EXPECT_EQ(analysis.peak_allocated.phase, "phase 13");
  ASSERT_TRUE(analysis.holders.front().site);
  EXPECT_THAT(frame_text(snapshot, *analysis.holders.front().site), testing::HasSubstr(".py:"));
  // Turned into a stream again, it asks for the same.
  AllocationStream again = stream_of(snapshot, analysis.history);
  EXPECT_EQ(again.allocations, stream.allocations);
  EXPECT_EQ(run_setting(again, {"x", "", false, false}, std::nullopt)->peak_reserved,
            analysis.peak_reserved.reserved);
}

/// Python's own unpickler accepts the file and finds the keys that PyTorch's page uses.
TEST(SnapshotRecorder, PythonReadsThePickle) {
  if (std::system("python3 -c '' >/dev/null 2>&1") != 0) GTEST_SKIP() << "python3 is not installed";
  const Snapshot snapshot =
      snapshot_of(recorded("fr-qwen2-lora"), {"x", "", false, false}, std::nullopt).value();
  const auto path = test::scratch() / "headroom_written_snapshot.pickle";
  std::ofstream(path, std::ios::binary) << snapshot_pickle(snapshot);
  const std::string command = "python3 '" + test::source("tests/support/check_snapshot.py").string() + "' '" +
                              path.string() + "' 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output(4096, '\0');
  output.resize(std::fread(output.data(), 1, output.size(), pipe));
  const int code = pclose(pipe);
  std::filesystem::remove(path);
  EXPECT_EQ(code, 0) << output;
  EXPECT_EQ(output, "events " + std::to_string(snapshot.events.size()) + " segments " +
                        std::to_string(snapshot.segments.size()) + "\n");
}

}  // namespace
}  // namespace headroom::replay
