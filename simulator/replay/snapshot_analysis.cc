#include "simulator/replay/snapshot_analysis.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace headroom::replay {
namespace {

using State = SnapshotHeap::State;

/// Of an installed package, or compiled code.
bool is_library(std::string_view file) {
  for (const std::string_view part : {"site-packages/", "dist-packages/", "/lib/python", "<frozen"})
    if (file.find(part) != std::string_view::npos) return true;
  for (const std::string_view end : {".cpp", ".cc", ".c", ".h", ".cu", ".hpp", "??"})
    if (file.ends_with(end)) return true;
  return file.empty();
}

class Analysis {
 public:
  Analysis(const Snapshot& snapshot, DeviceAnalysis& result, const allocator::AllocatorSettings& settings)
      : snapshot_(snapshot), result_(result), settings_(settings) {}

  Status run() {
    result_.phases = annotated_phases(snapshot_, result_.history);
    HEADROOM_TRY(find_peaks());
    return look_at_peaks();
  }

 private:
  const TraceEvent& event(std::int64_t index) const {
    return snapshot_.events[result_.history.first + static_cast<std::size_t>(index)];
  }
  std::int64_t count() const { return static_cast<std::int64_t>(result_.history.count); }

  Moment moment(const SnapshotHeap& heap, std::int64_t index) const {
    Moment m;
    m.event = index;
    if (count() > 0) m.time_us = event(std::max<std::int64_t>(index, 0)).time_us;
    for (const PhaseUse& phase : result_.phases)
      if (index >= phase.first && index < phase.last) m.phase = phase.name;
    m.allocated = heap.allocated();
    m.active = heap.active();
    m.reserved = heap.reserved();
    m.inactive_split = heap.inactive_split();
    m.blocks = heap.live_blocks();
    return m;
  }

  Status find_peaks() {
    SnapshotReplay replay(snapshot_, result_.history, settings_);
    HEADROOM_TRY(replay.start());
    const SnapshotHeap& heap = replay.heap();
    result_.start = moment(heap, -1);
    Bytes allocated = heap.allocated(), reserved = heap.reserved();
    std::int64_t allocated_at = -1, reserved_at = -1;
    result_.peak_active = heap.active();
    std::size_t phase = 0;
    for (std::int64_t i = 0; i < count(); ++i) {
      HEADROOM_TRY(replay.step(static_cast<std::size_t>(i)));
      const TraceEvent& e = event(i);
      ++result_.actions[static_cast<std::size_t>(e.action)];
      if (heap.allocated() > allocated) {
        allocated = heap.allocated();
        allocated_at = i;
      }
      if (heap.reserved() > reserved) {
        reserved = heap.reserved();
        reserved_at = i;
      }
      result_.peak_active = std::max(result_.peak_active, heap.active());
      if (e.action == TraceAction::oom)
        result_.ooms.push_back({i, e.size, e.address, heap.allocated(), heap.reserved(), e.stack});
      while (phase < result_.phases.size() && result_.phases[phase].last <= i) ++phase;
      if (phase < result_.phases.size() && result_.phases[phase].first <= i)
        note_phase(result_.phases[phase], heap);
    }
    result_.end = moment(heap, count() - 1);
    result_.homeless = heap.homeless();
    result_.peak_allocated.event = allocated_at;
    result_.peak_reserved.event = reserved_at;
    return {};
  }

  static void note_phase(PhaseUse& phase, const SnapshotHeap& heap) {
    phase.peak_allocated = std::max(phase.peak_allocated, heap.allocated());
    phase.peak_reserved = std::max(phase.peak_reserved, heap.reserved());
    phase.allocated_end = heap.allocated();
    phase.reserved_end = heap.reserved();
  }

  /// The second pass stops where the first found something. The reserved peak is looked at twice: just before
  /// the growth, to see what the request could not use, and after.
  Status look_at_peaks() {
    const std::int64_t allocated = result_.peak_allocated.event, reserved = result_.peak_reserved.event;
    SnapshotReplay replay(snapshot_, result_.history, settings_);
    HEADROOM_TRY(replay.start());
    for (std::int64_t i = -1; i <= std::max(allocated, reserved); ++i) {
      if (i == reserved && i >= 0) judge_growth(replay.heap(), i);
      if (i >= 0) HEADROOM_TRY(replay.step(static_cast<std::size_t>(i)));
      if (i == allocated) group_holders(replay.heap());
      if (i == reserved) describe_reserved_peak(replay.heap());
    }
    return {};
  }

  template <typename Visit>
  static void each_block(const SnapshotHeap& heap, const Visit& visit) {
    for (const SnapshotHeap::Node first : heap.segments())
      for (SnapshotHeap::Node node = first; node != SnapshotHeap::kNone; node = heap.block(node).next)
        visit(heap.block(node));
  }

  void group_holders(const SnapshotHeap& heap) {
    result_.peak_allocated = moment(heap, result_.peak_allocated.event);
    struct Group {
      Holder holder;
      Bytes largest = -1;
    };
    std::map<std::optional<std::uint32_t>, Group> groups;
    std::unordered_map<StackId, std::optional<std::uint32_t>> sites;
    each_block(heap, [&](const SnapshotHeap::Block& b) {
      if (b.state != State::allocated) return;
      auto [at, fresh] = sites.try_emplace(b.stack);
      if (fresh) at->second = site_of(snapshot_, b.stack);
      Group& group = groups[at->second];
      group.holder.site = at->second;
      group.holder.bytes += b.size;
      ++group.holder.blocks;
      group.holder.unrecorded += b.born == SnapshotHeap::kBeforeStart;
      if (b.size > group.largest) {
        group.largest = b.size;
        group.holder.stack = b.stack;
      }
    });
    for (const auto& [site, group] : groups) result_.holders.push_back(group.holder);
    std::ranges::stable_sort(result_.holders, std::greater{}, &Holder::bytes);
  }

  void describe_reserved_peak(const SnapshotHeap& heap) {
    result_.peak_reserved = moment(heap, result_.peak_reserved.event);
    Fragmentation& f = result_.fragmentation;
    f.free = heap.reserved() - heap.active();
    f.inactive_split = heap.inactive_split();
    each_block(heap, [&](const SnapshotHeap::Block& b) {
      if (b.state != State::free) return;
      ++f.free_blocks;
      f.largest = std::max(f.largest, b.size);
      if (b.previous == SnapshotHeap::kNone && b.next == SnapshotHeap::kNone) f.whole_segments += b.size;
    });
    find_pinned(heap);
    for (const SnapshotHeap::Node first : heap.segments()) draw(heap, first);
  }

  void draw(const SnapshotHeap& heap, SnapshotHeap::Node first) {
    PeakSegment segment;
    segment.address = heap.block(first).address;
    segment.small = heap.block(first).home.small;
    segment.expandable = heap.block(first).home.expandable;
    for (SnapshotHeap::Node node = first; node != SnapshotHeap::kNone; node = heap.block(node).next) {
      const SnapshotHeap::Block& b = heap.block(node);
      segment.size += b.size;
      segment.parts.push_back({b.size, b.state == State::free, b.stack});
    }
    result_.segments.push_back(std::move(segment));
  }

  void judge_growth(const SnapshotHeap& heap, std::int64_t peak) {
    std::int64_t i = peak;
    while (i < count() && event(i).action != TraceAction::alloc) ++i;
    if (i == count()) return;
    Fragmentation& f = result_.fragmentation;
    f.request = event(i).size;
    const Bytes rounded = allocator::round_request(settings_, std::max<Bytes>(f.request, 1));
    const std::uint16_t stream = result_.history.stream_of_context[event(i).context];
    const bool small = rounded <= allocator::kSmallMax;
    each_block(heap, [&](const SnapshotHeap::Block& b) {
      if (b.state != State::free) return;
      const bool own = b.home.stream == stream && b.home.small == small && b.size < rounded;
      (own ? f.too_small : f.elsewhere) += b.size;
    });
  }

  void find_pinned(const SnapshotHeap& heap) {
    std::vector<std::int64_t> addresses;
    for (const SnapshotHeap::Node first : heap.segments()) {
      PinnedSegment segment;
      segment.address = heap.block(first).address;
      for (SnapshotHeap::Node node = first; node != SnapshotHeap::kNone; node = heap.block(node).next) {
        const SnapshotHeap::Block& b = heap.block(node);
        segment.size += b.size;
        if (b.state == State::free) continue;
        segment.used += b.size;
        const bool before = b.born == SnapshotHeap::kBeforeStart;
        segment.blocks.push_back(
            {b.size, b.stack, before ? -1 : static_cast<std::int64_t>(b.born), death_of(b.address)});
      }
      if (segment.used == 0 || segment.used * 4 >= segment.size || heap.block(first).home.expandable)
        continue;
      if (std::ranges::none_of(segment.blocks, [&](const PinningBlock& b) { return long_lived(b); }))
        continue;
      std::ranges::stable_sort(segment.blocks, std::greater{}, &PinningBlock::size);
      result_.pinned.push_back(std::move(segment));
    }
    std::ranges::stable_sort(result_.pinned, std::greater{},
                             [](const PinnedSegment& s) { return s.size - s.used; });
  }

  bool long_lived(const PinningBlock& block) const {
    return !block.died || (*block.died - std::max<std::int64_t>(block.born, 0)) * 4 >= count();
  }

  /// The first free of each address after the reserved peak.
  std::optional<std::int64_t> death_of(std::int64_t address) {
    if (!deaths_known_) {
      deaths_known_ = true;
      for (std::int64_t i = result_.peak_reserved.event + 1; i < count(); ++i) {
        const TraceEvent& e = event(i);
        if (e.action != TraceAction::free_requested && e.action != TraceAction::free_completed) continue;
        if (deaths_.find(e.address) == AddressMap::kNone)
          deaths_.set(e.address, static_cast<std::uint32_t>(i));
      }
    }
    const std::uint32_t at = deaths_.find(address);
    if (at == AddressMap::kNone) return std::nullopt;
    return at;
  }

  const Snapshot& snapshot_;
  DeviceAnalysis& result_;
  const allocator::AllocatorSettings& settings_;
  AddressMap deaths_;
  bool deaths_known_ = false;
};

}  // namespace

std::optional<std::uint32_t> site_of(const Snapshot& snapshot, StackId stack) {
  const auto frames = snapshot.stacks.stack(stack);
  for (const std::uint32_t frame : frames)
    if (!is_library(snapshot.strings[snapshot.stacks.frame(frame).file])) return frame;
  if (frames.empty()) return std::nullopt;
  return frames.front();
}

std::vector<PhaseUse> annotated_phases(const Snapshot& snapshot, const SnapshotHistory& history) {
  std::vector<Annotation> marks;
  for (const Annotation& a : snapshot.annotations)
    if (a.device == static_cast<std::int64_t>(history.device)) marks.push_back(a);
  std::ranges::stable_sort(marks, {}, &Annotation::time_us);
  // Times rise along a history.
  const auto event_at = [&](std::int64_t time_us) {
    std::size_t low = 0, high = history.count;
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      if (snapshot.events[history.first + middle].time_us < time_us) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return static_cast<std::int64_t>(low);
  };
  std::vector<PhaseUse> phases;
  std::vector<std::string> open;
  for (const Annotation& mark : marks) {
    if (mark.start) {
      if (open.empty()) phases.push_back({mark.name, event_at(mark.time_us), 0, 0, 0, 0, 0});
      open.push_back(mark.name);
    } else if (const auto at = std::find(open.rbegin(), open.rend(), mark.name); at != open.rend()) {
      open.erase(std::next(at).base(), open.end());
      if (open.empty()) phases.back().last = event_at(mark.time_us);
    }
  }
  if (!open.empty()) phases.back().last = static_cast<std::int64_t>(history.count);
  std::erase_if(phases, [](const PhaseUse& phase) { return phase.last <= phase.first; });
  return phases;
}

Result<DeviceAnalysis> analyse_device(const Snapshot& snapshot, std::size_t device) {
  DeviceAnalysis result;
  HEADROOM_ASSIGN(result.history, complete_history(snapshot, device));
  const allocator::AllocatorSettings settings = settings_of(snapshot);
  HEADROOM_TRY(Analysis(snapshot, result, settings).run());
  return result;
}

}  // namespace headroom::replay
