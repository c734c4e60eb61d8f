#include "simulator/replay/snapshot_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace headroom::replay {
namespace {

constexpr std::string_view kStates[] = {"active_allocated", "active_pending_free", "inactive"};

class SnapshotWriter {
 public:
  SnapshotWriter(const Snapshot& snapshot, ByteSink sink)
      : snapshot_(snapshot),
        out_(std::move(sink)),
        written_(snapshot.stacks.size()),
        frames_(snapshot.stacks.frame_count()) {}

  Status write() {
    dict([&] {
      out_.string("segments");
      list(snapshot_.segments.size(), [&](std::size_t i) { segment(snapshot_.segments[i]); });
      out_.string("device_traces");
      list(snapshot_.traces.size(), [&](std::size_t device) {
        const auto [first, count] = snapshot_.traces[device];
        list(count, [&, first = first](std::size_t i) { event(snapshot_.events[first + i]); });
      });
      out_.string("allocator_settings");
      settings();
      out_.string("external_annotations");
      list(snapshot_.annotations.size(), [&](std::size_t i) { annotation(snapshot_.annotations[i]); });
    });
    return out_.finish();
  }

 private:
  template <typename Items>
  void dict(const Items& items) {
    out_.begin_dict();
    out_.begin_items();
    items();
    out_.end_dict_items();
  }

  template <typename Item>
  void list(std::size_t count, const Item& item) {
    out_.begin_list();
    for (std::size_t first = 0; first < count; first += PickleWriter::kBatch) {
      out_.begin_items();
      for (std::size_t i = first; i < std::min(count, first + PickleWriter::kBatch); ++i) item(i);
      out_.end_list_items();
    }
  }

  void field(std::string_view key, std::int64_t value) {
    out_.string(key);
    out_.integer(value);
  }
  void field(std::string_view key, std::string_view value) {
    out_.string(key);
    out_.string(value);
  }

  /// Equal stacks and frames are one object each.
  void stack(StackId id) {
    if (written_[id]) return out_.recall(*written_[id]);
    const auto frames = snapshot_.stacks.stack(id);
    out_.begin_list();
    written_[id] = out_.remember();
    if (frames.empty()) return;
    out_.begin_items();
    for (const std::uint32_t f : frames) frame(f);
    out_.end_list_items();
  }

  void frame(std::uint32_t id) {
    if (frames_[id]) return out_.recall(*frames_[id]);
    const Frame& f = snapshot_.stacks.frame(id);
    out_.begin_dict();
    frames_[id] = out_.remember();
    out_.begin_items();
    field("name", snapshot_.strings[f.name]);
    field("filename", snapshot_.strings[f.file]);
    field("line", f.line);
    out_.end_dict_items();
  }

  void segment(const SnapshotSegment& s) {
    Bytes allocated = 0, active = 0, requested = 0;
    for (const SnapshotBlock& b : s.blocks) {
      if (b.state == SnapshotBlockState::allocated) allocated += b.size;
      if (b.state == SnapshotBlockState::inactive) continue;
      active += b.size;
      requested += b.requested;
    }
    dict([&] {
      field("device", s.device);
      field("address", s.address);
      field("total_size", s.size);
      field("allocated_size", allocated);
      field("active_size", active);
      field("requested_size", requested);
      field("stream", s.stream);
      field("segment_type", s.small ? "small" : "large");
      out_.string("segment_pool_id");
      out_.pair(s.pool.first, s.pool.second);
      out_.string("is_expandable");
      out_.boolean(s.expandable);
      out_.string("frames");
      stack(s.stack);
      out_.string("blocks");
      list(s.blocks.size(), [&](std::size_t i) { block(s.blocks[i]); });
    });
  }

  void block(const SnapshotBlock& b) {
    dict([&] {
      field("address", b.address);
      field("size", b.size);
      field("requested_size", b.requested);
      field("state", kStates[static_cast<std::size_t>(b.state)]);
      out_.string("frames");
      stack(b.state == SnapshotBlockState::inactive ? 0 : b.stack);
    });
  }

  void event(const TraceEvent& e) {
    dict([&] {
      field("action", name(e.action));
      field(e.action == TraceAction::oom ? "device_free" : "addr", e.address);
      field("size", e.size);
      field("stream", snapshot_.contexts[e.context].stream);
      field("time_us", e.time_us);
      field("compile_context", "N/A");
      field("user_metadata", "");
      if (e.stack != 0) {
        out_.string("frames");
        stack(e.stack);
      }
    });
  }

  void annotation(const Annotation& a) {
    dict([&] {
      field("stage", a.start ? "START" : "END");
      field("name", a.name);
      field("device", a.device);
      field("time_us", a.time_us);
    });
  }

  void settings() {
    const SnapshotSettings& s = snapshot_.settings;
    dict([&] {
      field("PYTORCH_CUDA_ALLOC_CONF", s.conf);
      field("max_split_size", s.max_split_size.value_or(-1));
      out_.string("garbage_collection_threshold");
      out_.real(s.garbage_collection_threshold);
      out_.string("expandable_segments");
      out_.boolean(s.expandable_segments);
      field("pinned_num_register_threads", 1);
      for (const char* key : {"release_lock_on_cudamalloc", "pinned_use_cuda_host_register",
                              "graph_capture_record_stream_reuse"}) {
        out_.string(key);
        out_.boolean(false);
      }
      out_.string("roundup_power2_divisions");
      dict([&] {
        for (std::size_t i = 0; i < s.roundup_power2_divisions.size(); ++i)
          field(fmt::format("{}", 1 << i), s.roundup_power2_divisions[i]);
      });
    });
  }

  const Snapshot& snapshot_;
  PickleWriter out_;
  std::vector<std::optional<std::uint32_t>> written_, frames_;  ///< memo of stacks and frames
};

}  // namespace

Status write_snapshot(const Snapshot& snapshot, ByteSink sink) {
  return SnapshotWriter(snapshot, std::move(sink)).write();
}

std::string snapshot_pickle(const Snapshot& snapshot) {
  std::string bytes;
  (void)write_snapshot(snapshot, [&](std::string_view piece) {
    bytes += piece;
    return Status{};
  });
  return bytes;
}

}  // namespace headroom::replay
