#include "simulator/replay/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "simulator/replay/address_map.h"
#include "simulator/replay/snapshot_analysis.h"

namespace headroom::replay {
namespace {

using Kind = StreamEvent::Kind;

/// More than any address space, so that hostile sizes cannot overflow a sum.
constexpr Bytes kLargest = Bytes{1} << 60;

bool is_release(Kind kind) {
  return kind == Kind::segment_free || kind == Kind::segment_unmap;
}
bool is_growth(Kind kind) {
  return kind == Kind::segment_alloc || kind == Kind::segment_map;
}

/// Converts one device's history.
class Converter {
 public:
  Converter(const Snapshot& snapshot, const SnapshotHistory& history)
      : snapshot_(snapshot), history_(history) {
    for (const SnapshotSegment& segment : snapshot.segments)
      if (segment.device == static_cast<std::int64_t>(history.device)) segments_.push_back(&segment);
    std::ranges::sort(segments_, {}, &SnapshotSegment::address);
  }

  AllocationStream run() {
    out_.name = fmt::format("device {}", history_.device);
    out_.settings = conf_of(snapshot_.settings);
    if (!snapshot_.settings.conf.empty() && out_.settings != snapshot_.settings.conf)
      out_.notes.push_back(fmt::format("the recorded settings `{}` are not understood; taken as `{}`",
                                       snapshot_.settings.conf, out_.settings));
    out_.streams = static_cast<std::uint32_t>(history_.streams.size());
    out_.pools = static_cast<std::uint32_t>(history_.pools.size());
    allocate_start();
    const std::vector<PhaseUse> phases = annotated_phases(snapshot_, history_);
    std::size_t next = 0;
    bool open = false;
    for (std::size_t i = 0; i < history_.count; ++i) {
      const auto index = static_cast<std::int64_t>(i);
      if (open && phases[next].last <= index) {
        open = false;
        ++next;
        const bool follows = next < phases.size() && phases[next].first == index;
        if (!follows) emit({.id = kNoPhase, .kind = Kind::phase});
      }
      if (!open && next < phases.size() && phases[next].first <= index) {
        emit({.id = static_cast<std::uint32_t>(out_.phases.size()), .kind = Kind::phase});
        out_.phases.push_back(phases[next].name);
        open = true;
      }
      convert(snapshot_.events[history_.first + i]);
    }
    if (open) emit({.id = kNoPhase, .kind = Kind::phase});
    out_.events = with_cache_emptying(out_.events, causes_);
    out_.initial = history_.blocks.size();
    return std::move(out_);
  }

 private:
  void emit(const StreamEvent& event, ReleaseCause cause = ReleaseCause::unknown) {
    out_.events.push_back(event);
    causes_.push_back(cause);
  }

  void allocate_start() {
    for (const StartBlock& block : history_.blocks) {
      const StartSegment* home = nullptr;
      const auto after =
          std::ranges::upper_bound(history_.segments, block.address, {}, &StartSegment::address);
      if (after != history_.segments.begin()) home = &*std::prev(after);
      StreamEvent event{.bytes = block.requested, .id = out_.allocations++, .label = label_of(block.stack)};
      if (home != nullptr) {
        event.stream = home->home.stream;
        event.pool = home->home.pool;
      }
      ids_.set(block.address, event.id);
      emit(event);
    }
    if (!history_.blocks.empty())
      out_.notes.push_back(
          fmt::format("{} blocks of before the recording are allocated first, packed: where they really "
                      "lay between free memory depends on the unrecorded past",
                      history_.blocks.size()));
  }

  void convert(const TraceEvent& e) {
    const std::uint32_t stream = history_.stream_of_context[e.context];
    StreamEvent event{.bytes = e.size, .label = label_of(e.stack), .stream = stream};
    switch (e.action) {
      case TraceAction::alloc:
        event.id = out_.allocations++;
        event.pool = pool_at(e.address, stream);
        ids_.set(e.address, event.id);
        return emit(event);
      case TraceAction::free_requested:
      case TraceAction::free_completed:
        return convert_free(e, event);
      case TraceAction::segment_alloc:
        event.kind = Kind::segment_alloc;
        return emit(event);
      case TraceAction::segment_map:
        event.kind = Kind::segment_map;
        return emit(event);
      case TraceAction::segment_free:
        event.kind = Kind::segment_free;
        return emit(event, cause_of(e.stack));
      case TraceAction::segment_unmap:
        event.kind = Kind::segment_unmap;
        return emit(event, cause_of(e.stack));
      case TraceAction::oom:
        // The request that failed; nothing frees it.
        event.id = out_.allocations++;
        return emit(event);
      default:
        return;
    }
  }

  /// free_requested with free_completed right behind it is one free.
  void convert_free(const TraceEvent& e, StreamEvent event) {
    const std::uint32_t id = ids_.find(e.address);
    if (id == AddressMap::kNone) return;
    event.id = id;
    event.bytes = 0;
    if (e.action == TraceAction::free_completed || !history_.has_free_completed) {
      event.kind = Kind::free;
      ids_.erase(e.address);
      const std::size_t last = out_.events.size();
      if (last > 0 && out_.events[last - 1].kind == Kind::free_requested && out_.events[last - 1].id == id) {
        out_.events[last - 1].kind = Kind::free;
        return;
      }
    } else {
      event.kind = Kind::free_requested;
    }
    emit(event);
  }

  std::uint16_t pool_at(std::int64_t address, std::uint32_t stream) const {
    const auto after = std::ranges::upper_bound(segments_, address, {}, &SnapshotSegment::address);
    if (after == segments_.begin()) return 0;
    const SnapshotSegment& segment = **std::prev(after);
    if (address - segment.address >= segment.size || segment.stream != history_.streams[stream]) return 0;
    const auto pool = std::ranges::find(history_.pools, segment.pool);
    return static_cast<std::uint16_t>(pool - history_.pools.begin());
  }

  /// Labels are sites: one for many stacks.
  std::uint32_t label_of(StackId stack) {
    const auto [at, fresh] = label_of_stack_.try_emplace(stack, kNoLabel);
    if (!fresh) return at->second;
    const auto site = site_of(snapshot_, stack);
    if (!site) return kNoLabel;
    const auto [label, new_site] =
        label_of_site_.try_emplace(*site, static_cast<std::uint32_t>(out_.labels.size()));
    if (new_site) out_.labels.push_back(frame_text(snapshot_, *site));
    return at->second = label->second;
  }

  ReleaseCause cause_of(StackId stack) const {
    const auto frames = snapshot_.stacks.stack(stack);
    if (frames.empty()) return ReleaseCause::unknown;
    for (const std::uint32_t frame : frames) {
      const std::string_view name = snapshot_.strings[snapshot_.stacks.frame(frame).name];
      if (name.find("empty_cache") != std::string_view::npos ||
          name.find("emptyCache") != std::string_view::npos)
        return ReleaseCause::empty_cache;
    }
    return ReleaseCause::allocator;
  }

  const Snapshot& snapshot_;
  const SnapshotHistory& history_;
  std::vector<const SnapshotSegment*> segments_;
  AllocationStream out_;
  std::vector<ReleaseCause> causes_;
  AddressMap ids_;
  std::unordered_map<StackId, std::uint32_t> label_of_stack_;
  std::unordered_map<std::uint32_t, std::uint32_t> label_of_site_;
};

}  // namespace

bool AllocationStream::has_segment_events() const {
  for (std::size_t i = 0; i < events.size(); ++i)
    if (is_growth(events[i].kind)) return true;
  return false;
}

AllocationStream stream_of(const Snapshot& snapshot, const SnapshotHistory& history) {
  return Converter(snapshot, history).run();
}

ChunkedVector<StreamEvent> with_cache_emptying(const ChunkedVector<StreamEvent>& events,
                                               const std::vector<ReleaseCause>& known) {
  ChunkedVector<StreamEvent> out;
  for (std::size_t i = 0; i < events.size();) {
    if (!is_release(events[i].kind)) {
      out.push_back(events[i++]);
      continue;
    }
    std::size_t end = i;
    ReleaseCause cause = ReleaseCause::unknown;
    for (; end < events.size() && is_release(events[end].kind); ++end)
      if (end < known.size() && known[end] != ReleaseCause::unknown && cause != ReleaseCause::empty_cache)
        cause = known[end];
    if (cause == ReleaseCause::unknown) {
      const bool retried = end < events.size() && is_growth(events[end].kind);
      cause = retried ? ReleaseCause::allocator : ReleaseCause::empty_cache;
    }
    const bool emptied_before = out.size() > 0 && out[out.size() - 1].kind == Kind::empty_cache;
    if (cause == ReleaseCause::empty_cache && !emptied_before) out.push_back({.kind = Kind::empty_cache});
    for (; i < end; ++i) out.push_back(events[i]);
  }
  return out;
}

Status check_stream(const AllocationStream& stream) {
  enum State : std::uint8_t { unseen, live, requested, freed };
  std::vector<std::uint8_t> states(stream.allocations, unseen);
  for (std::size_t i = 0; i < stream.events.size(); ++i) {
    const StreamEvent& e = stream.events[i];
    const auto bad = [&](std::string message) {
      return fail(
          Error{.message = std::move(message), .file = stream.name, .key = fmt::format("event {}", i)});
    };
    if (e.bytes < 0) return bad(fmt::format("a size of {} bytes, expected at least 0", e.bytes));
    const bool has_id = e.kind == Kind::allocate || e.kind == Kind::free || e.kind == Kind::free_requested ||
                        e.kind == Kind::record_stream;
    if (has_id && e.id >= stream.allocations) return bad(fmt::format("allocation {} is unknown", e.id));
    switch (e.kind) {
      case Kind::allocate:
        if (states[e.id] != unseen) return bad(fmt::format("allocation {} was made before", e.id));
        states[e.id] = live;
        break;
      case Kind::free_requested:
        if (states[e.id] != live) return bad(fmt::format("frees allocation {}, which is not live", e.id));
        states[e.id] = requested;
        break;
      case Kind::record_stream:
        if (states[e.id] != live) return bad(fmt::format("uses allocation {}, which is not live", e.id));
        break;
      case Kind::free:
        if (states[e.id] == freed) return bad(fmt::format("frees allocation {} a second time", e.id));
        if (states[e.id] == unseen)
          return bad(fmt::format("frees allocation {}, which was never made", e.id));
        states[e.id] = freed;
        break;
      default:
        break;
    }
  }
  return {};
}

std::optional<Bytes> recorded_peak_reserved(const AllocationStream& stream) {
  Bytes reserved = 0, peak = 0;
  bool seen = false;
  for (std::size_t i = 0; i < stream.events.size(); ++i) {
    const StreamEvent& e = stream.events[i];
    if (is_growth(e.kind)) {
      reserved = std::min(reserved, kLargest) + e.bytes;
      seen = true;
    } else if (is_release(e.kind)) {
      reserved = std::max(reserved, -kLargest) - e.bytes;
    }
    peak = std::max(peak, reserved);
  }
  if (!seen) return std::nullopt;
  return peak;
}

}  // namespace headroom::replay
