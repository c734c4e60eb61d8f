#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "models/document/document.h"
#include "planner/frameworks/registry.h"
#include "simulator/phases/simulate.h"
#include "simulator/replay/stream_file.h"
#include "simulator/replay/text_file.h"
#include "tests/support/data.h"

namespace headroom {
namespace {

/// OPT, GPT-2 and GPT-NeoX against whole recorded loops.

struct Simulated {
  Report report;
  EventStream stream;
  Document recording;
};

Simulated simulate_recording(const std::string& name, bool events) {
  const std::string path = test::data("rlhf/" + name + ".json").string();
  JobOptions options;
  options.framework = "torch";
  const std::vector<std::string> paths = {path};
  const Result<ReadJob> read = read_job(paths, options);
  EXPECT_TRUE(read) << read.error().text();
  Simulated out;
  SimulateOptions run;
  if (events) run.events = &out.stream;
  const Result<Report> report = simulate(read->job, {}, run);
  EXPECT_TRUE(report) << report.error().text();
  out.report = *report;
  out.recording = parse_document(replay::read_text_file(path).value(), path).value();
  return out;
}

/// An allocation as its bytes, a free as -1 - (how many allocations came before the freed one).
using Events = std::vector<std::int64_t>;

Events simulated_events(const EventStream& stream) {
  Events out;
  for (const MemoryEvent& event : stream.events) {
    if (event.kind == MemoryEvent::Kind::allocate) out.push_back(event.bytes);
    if (event.kind == MemoryEvent::Kind::free) out.push_back(-1 - static_cast<std::int64_t>(event.id));
  }
  return out;
}

Events recorded_events(const std::string& name) {
  const std::string path = test::data("rlhf/" + name + ".trace.json.gz").string();
  const auto stream = replay::parse_stream(replay::read_text_file(path).value(), path).value();
  Events out;
  for (std::size_t i = 0; i < stream.events.size(); ++i) {
    const replay::StreamEvent& event = stream.events[i];
    if (event.kind == replay::StreamEvent::Kind::allocate) out.push_back(event.bytes);
    if (event.kind == replay::StreamEvent::Kind::free)
      out.push_back(-1 - static_cast<std::int64_t>(event.id));
  }
  return out;
}

struct Recorded {
  const char* name;
  /// Runs of frees whose order is that of a hash map of addresses: ends of autocast regions.
  int unordered_runs;
};

void PrintTo(const Recorded& one, std::ostream* out) {
  *out << one.name;
}

class FamilyTrace : public testing::TestWithParam<Recorded> {};

TEST_P(FamilyTrace, EqualsTheRecordingEventForEvent) {
  const Simulated run = simulate_recording(GetParam().name, true);
  Events predicted = simulated_events(run.stream), recorded = recorded_events(GetParam().name);
  // What a process frees at its end is not part of the loop.
  ASSERT_LE(predicted.size(), recorded.size());
  EXPECT_TRUE(std::all_of(recorded.begin() + static_cast<std::ptrdiff_t>(predicted.size()), recorded.end(),
                          [](std::int64_t event) { return event < 0; }));
  int unordered = 0;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    if (predicted[i] == recorded[i]) continue;
    ASSERT_TRUE(predicted[i] < 0 && recorded[i] < 0)
        << "event " << i << ": " << predicted[i] << " instead of " << recorded[i];
    std::size_t end = i;
    while (end < predicted.size() && predicted[end] < 0 && recorded[end] < 0) ++end;
    const auto from = static_cast<std::ptrdiff_t>(i), to = static_cast<std::ptrdiff_t>(end);
    std::sort(predicted.begin() + from, predicted.begin() + to);
    std::sort(recorded.begin() + from, recorded.begin() + to);
    ASSERT_TRUE(std::equal(predicted.begin() + from, predicted.begin() + to, recorded.begin() + from))
        << "frees from event " << i;
    ++unordered;
    i = end;
  }
  EXPECT_LE(unordered, GetParam().unordered_runs);
}

// Two steps of five autocast regions around a trained model.
INSTANTIATE_TEST_SUITE_P(OfLoops, FamilyTrace,
                         testing::Values(Recorded{"fr-opt", 0}, Recorded{"opt125-ppo-trace", 0},
                                         Recorded{"fr-gpt2", 10}, Recorded{"fr-neox-eager", 10}),
                         [](const auto& parameter) {
                           std::string name = parameter.param.name;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

class FamilyPeaks : public testing::TestWithParam<const char*> {};

TEST_P(FamilyPeaks, EqualTheRecordedOnes) {
  const Simulated run = simulate_recording(GetParam(), false);
  const std::vector<Document>& phases = run.recording.find("phases")->items();
  const std::vector<PhaseReport>& rows = run.report.devices.front().phases;
  ASSERT_EQ(rows.size(), phases.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Document& recorded = phases[i];
    const ProcessPhase& row = rows[i].processes.front();
    EXPECT_EQ(row.n_allocs, recorded.find("n_allocs")->as_int()) << i << ' ' << rows[i].phase;
    EXPECT_EQ(row.peak_allocated, recorded.find("peak_alloc")->as_int()) << i << ' ' << rows[i].phase;
    EXPECT_EQ(row.peak_reserved, recorded.find("peak_reserved")->as_int()) << i << ' ' << rows[i].phase;
  }
}

INSTANTIATE_TEST_SUITE_P(OfLoops, FamilyPeaks,
                         testing::Values("fr-opt", "fr-gpt2", "fr-neox-eager", "opt125-ppo-trace",
                                         "opt13-ppo-ckpt", "gpt2m-ppo-amp", "gpt2m-ppo-bf16-split",
                                         "py410-ppo-amp-eager"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace headroom
