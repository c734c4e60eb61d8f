#include "simulator/replay/stream_snapshot.h"

#include <charconv>

#include "simulator/replay/snapshot_recorder.h"

namespace headroom::replay {
namespace {

/// `FILE:LINE:FUNCTION|…` and `FILE:LINE FUNCTION` as a frame; any other text as a function's name.
SnapshotRecorder::FrameText frame_of(std::string_view label) {
  const std::size_t colon = label.find(':');
  if (colon != std::string_view::npos) {
    std::uint32_t line = 0;
    const auto [end, error] = std::from_chars(label.data() + colon + 1, label.data() + label.size(), line);
    if (error == std::errc{} && end != label.data() + label.size() && (*end == ':' || *end == ' '))
      return {label.substr(static_cast<std::size_t>(end - label.data()) + 1), label.substr(0, colon), line};
  }
  return {label, "label", 0};
}

class Recorder : public StreamObserver {
 public:
  explicit Recorder(const AllocationStream& stream) : stream_(stream) {
    for (const std::string& label : stream.labels) {
      const SnapshotRecorder::FrameText frame = frame_of(label);
      stacks_.push_back(recorder_.stack({&frame, 1}));
    }
  }

  Snapshot snapshot;

  void before(const StreamEvent& event) override {
    if (event.kind == StreamEvent::Kind::allocate)
      recorder_.set_stack(event.label < stacks_.size() ? stacks_[event.label] : 0);
    if (event.kind != StreamEvent::Kind::phase) return;
    end_phase();
    phase_ = event.id;
    if (phase_ != kNoPhase) recorder_.begin_phase(stream_.phases[phase_]);
  }
  void after_run(const allocator::CachingAllocator& allocator, std::string_view conf) override {
    end_phase();
    snapshot = recorder_.finish(allocator, conf);
  }

  allocator::Observer* allocator_observer() override { return &recorder_; }

 private:
  void end_phase() {
    if (phase_ != kNoPhase) recorder_.end_phase(stream_.phases[phase_]);
    phase_ = kNoPhase;
  }

  const AllocationStream& stream_;
  SnapshotRecorder recorder_;
  std::vector<StackId> stacks_;
  std::uint32_t phase_ = kNoPhase;
};

}  // namespace

Result<Snapshot> snapshot_of(const AllocationStream& stream, const WhatIfSetting& setting,
                             std::optional<Bytes> limit) {
  Recorder recorder(stream);
  HEADROOM_TRY(run_setting(stream, setting, limit, &recorder));
  return std::move(recorder.snapshot);
}

}  // namespace headroom::replay
