#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>

#include "planner/frameworks/registry.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/simulate.h"
#include "tests/support/data.h"
#include "tests/support/recorded_events.h"

namespace headroom {
namespace {

/// Complete streams of allocations and frees, from the first weight on: predicted from the case alone and
/// compared event by event.
class RecordedStream : public ::testing::TestWithParam<const char*> {};

EventStream predicted(const std::string& name) {
  const std::string path = test::data("rlhf/" + name + ".json");
  const Result<ReadJob> read = read_job(std::array{path}, {});
  if (!read) throw std::runtime_error(read.error().text());
  const Result<Hardware> hardware = load_hardware(read->job.gpu);
  if (!hardware) throw std::runtime_error(hardware.error().text());
  SimulateOptions options = options_for(read->job, *hardware);
  EventStream events;
  options.events = &events;
  const Result<Report> report = simulate(read->job, options);
  if (!report) throw std::runtime_error(report.error().text());
  return events;
}

std::string shown(const EventStream& stream, const MemoryEvent& event) {
  return fmt::format("{} {} of {} bytes on stream {} by {} in {}",
                     event.kind == MemoryEvent::Kind::allocate ? "allocation" : "free", event.id, event.bytes,
                     event.stream, tape::operation_text(event.label.operation),
                     stream.modules[event.label.module]);
}

TEST_P(RecordedStream, EveryEventIsPredicted) {
  const std::string name = GetParam();
  const std::vector<test::RecordedEvent> recorded =
      test::recorded_events(test::data("rlhf/" + name + ".trace.json.gz"));
  const EventStream stream = predicted(name);
  std::size_t at = 0;
  std::uint32_t before = 0;
  std::map<Stream, std::int64_t> streams = {{0, 0}};  // numbered by first use, as recorded
  for (const MemoryEvent& event : stream.events) {
    if (event.kind != MemoryEvent::Kind::allocate && event.kind != MemoryEvent::Kind::free) continue;
    // The process group's barrier came before the recording began.
    if (at == 0 && before == 0 && tape::operation_text(event.label.operation) == "barrier") {
      before = 1;
      continue;
    }
    // Frees after the last recorded event belong to the end of the process.
    if (at == recorded.size()) {
      ASSERT_EQ(event.kind, MemoryEvent::Kind::free) << shown(stream, event);
      continue;
    }
    const test::RecordedEvent& expected = recorded[at];
    const bool allocation = event.kind == MemoryEvent::Kind::allocate;
    const std::int64_t number =
        streams.try_emplace(event.stream, static_cast<std::int64_t>(streams.size())).first->second;
    ASSERT_TRUE(allocation == expected.allocation && event.id - before == expected.id &&
                (!allocation ||
                 (event.bytes == expected.bytes && (expected.stream < 0 || number == expected.stream))))
        << "event " << at << ": predicted " << shown(stream, event) << ", recorded "
        << (expected.allocation ? "allocation " : "free ") << expected.id << " of " << expected.bytes
        << " bytes on stream " << expected.stream << " by " << expected.label;
    ++at;
  }
  EXPECT_EQ(at, recorded.size());
}

INSTANTIATE_TEST_SUITE_P(Rlhf, RecordedStream,
                         ::testing::Values("fr-llama", "fr-qwen2-ckpt", "fr-qwen2-lora",
                                           "ll1b-grpo-ckpt-trace", "fsdp-streams-q05",
                                           "fsdp-streams-ll1b-zero2", "fsdp-q05-trace"),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace headroom
