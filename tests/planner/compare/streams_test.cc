#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>

#include "models/document/document.h"
#include "planner/frameworks/registry.h"
#include "simulator/hardware/library.h"
#include "simulator/phases/simulate.h"
#include "tests/support/data.h"
#include "tests/support/recorded_events.h"

namespace headroom {
namespace {

/// Complete streams of allocations and frees, from the first weight on: predicted from the case alone and
/// compared event by event.
class RecordedStream : public ::testing::TestWithParam<std::string> {};

/// What a recording says of its process beside its case: `imported`, the models' code was imported before the
/// run began, so that nothing of it lies on the device; `sdpa`, the kernel that attention was held to where
/// the case has no key for it.
struct RecordedProcess {
  bool imported = false;
  AttentionKernel attention = AttentionKernel::by_gpu;
};

RecordedProcess process_of(const std::string& path) {
  const std::map<std::string, AttentionKernel> words = {{"flash", AttentionKernel::flash},
                                                        {"efficient", AttentionKernel::efficient},
                                                        {"math", AttentionKernel::math}};
  const Result<Document> document = read_document(path);
  if (!document) throw std::runtime_error(document.error().text());
  RecordedProcess out;
  out.imported = document->find("imported") != nullptr;
  if (const Document* word = document->find("sdpa")) out.attention = words.at(word->text());
  return out;
}

EventStream predicted(const std::string& path, const RecordedProcess& process) {
  const Result<ReadJob> read = read_job(std::array{path}, {});
  if (!read) throw std::runtime_error(read.error().text());
  const Result<Hardware> hardware = load_hardware(read->job.gpu);
  if (!hardware) throw std::runtime_error(hardware.error().text());
  SimulateOptions options;
  EventStream events;
  options.events = &events;
  Job job = read->job;
  for (Role& role : job.roles)
    if (role.attention_kernel == AttentionKernel::by_gpu) role.attention_kernel = process.attention;
  const Result<Report> report = simulate(job, *hardware, options);
  if (!report) throw std::runtime_error(report.error().text());
  return events;
}

/// Recorded events with runs of frees in the order of the prediction, where both free the same blocks: the
/// order within a run depends on PyTorch's hash maps (autocast's cache) and moves no block.
class Recorded {
 public:
  explicit Recorded(std::vector<test::RecordedEvent> events) : events_(std::move(events)) {}
  std::size_t size() const { return events_.size(); }
  const test::RecordedEvent& at(std::size_t i, std::int64_t freed) {
    if (!events_[i].allocation && events_[i].id != freed)
      for (std::size_t j = i + 1; j < events_.size() && !events_[j].allocation; ++j)
        if (events_[j].id == freed) {
          std::swap(events_[i], events_[j]);
          break;
        }
    return events_[i];
  }

 private:
  std::vector<test::RecordedEvent> events_;
};

std::string shown(const EventStream& stream, const MemoryEvent& event) {
  return fmt::format("{} {} of {} bytes on stream {} by {} in {}",
                     event.kind == MemoryEvent::Kind::allocate ? "allocation" : "free", event.id, event.bytes,
                     event.stream, tape::operation_text(event.label.operation),
                     stream.modules[event.label.module]);
}

TEST_P(RecordedStream, EveryEventIsPredicted) {
  const std::string name = GetParam();
  Recorded recorded(test::recorded_events(test::data(name + ".trace.json.gz")));
  const RecordedProcess process = process_of(test::data(name + ".json"));
  const EventStream stream = predicted(test::data(name + ".json"), process);
  std::size_t at = 0;
  std::uint32_t before = 0;
  std::map<Stream, std::int64_t> streams = {{0, 0}};  // numbered by first use, as recorded
  for (const MemoryEvent& event : stream.events) {
    if (event.kind != MemoryEvent::Kind::allocate && event.kind != MemoryEvent::Kind::free) continue;
    // The process group's barrier came before the recording began, and so did what was imported early.
    const std::string_view operation = tape::operation_text(event.label.operation);
    if (event.kind == MemoryEvent::Kind::allocate &&
        ((at == 0 && operation == "barrier") || (process.imported && operation == "import"))) {
      ++before;
      continue;
    }
    // Frees after the last recorded event belong to the end of the process.
    if (at == recorded.size()) {
      ASSERT_EQ(event.kind, MemoryEvent::Kind::free) << shown(stream, event);
      continue;
    }
    const bool allocation = event.kind == MemoryEvent::Kind::allocate;
    const test::RecordedEvent& expected = recorded.at(at, event.id - before);
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

std::string test_name(const ::testing::TestParamInfo<std::string>& one) {
  std::string name = one.param.substr(one.param.find('/') + 1);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Rlhf, RecordedStream,
                         ::testing::Values("rlhf/fr-llama", "rlhf/fr-qwen2-ckpt", "rlhf/fr-qwen2-lora",
                                           "rlhf/fr-opt", "rlhf/fr-gpt2", "rlhf/fr-neox-eager",
                                           "rlhf/opt125-ppo-trace", "rlhf/ll1b-grpo-ckpt-trace",
                                           "rlhf/fsdp-streams-q05", "rlhf/fsdp-streams-ll1b-zero2",
                                           "rlhf/fsdp-q05-trace"),
                         test_name);

/// Runs of two layers: every family and setting that was recorded (`precision`, `attn`, `reentrant`, ...).
std::vector<std::string> layers() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(test::data("layers")))
    if (file.path().extension() == ".json") names.push_back("layers/" + file.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}
INSTANTIATE_TEST_SUITE_P(Layers, RecordedStream, ::testing::ValuesIn(layers()), test_name);

}  // namespace
}  // namespace headroom
