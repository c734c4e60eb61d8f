#include "simulator/replay/snapshot_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace headroom::replay {
namespace {

using allocator::AllocatorSettings;

tl::unexpected<Error> at_event(std::size_t index, std::string message) {
  return fail(Error{.message = std::move(message), .file = {}, .key = fmt::format("event {}", index)});
}

std::string hex(std::int64_t address) {
  return fmt::format("0x{:x}", static_cast<std::uint64_t>(address));
}

/// Native segments of the small pool have one size, which no large one has; mapped memory comes in chunks of
/// that size, in the large pool in larger ones.
bool is_small(const TraceEvent& e) {
  if (e.action == TraceAction::segment_unmap)
    return e.size % allocator::AllocatorSettings{}.large_segment_size != 0;
  return e.size == allocator::kSmallSegment;
}

/// The state of an address, as far as events tell.
enum Known : std::uint32_t { kLive, kPending, kFree };

class Completion {
 public:
  Completion(const Snapshot& snapshot, std::size_t device) : snapshot_(snapshot) {
    history_.device = device;
    std::tie(history_.first, history_.count) = snapshot.traces[device];
  }

  Result<SnapshotHistory> run() {
    number_streams_and_pools();
    note_actions();
    HEADROOM_TRY(walk_blocks());
    add_blocks_of_the_end();
    add_start_segments();
    std::ranges::sort(history_.blocks, {}, &StartBlock::address);
    measure_blocks_by_their_neighbours();
    count_unmeasured_blocks();
    HEADROOM_TRY(check_homes());
    describe_missing();
    return std::move(history_);
  }

 private:
  const TraceEvent& event(std::size_t index) const { return snapshot_.events[history_.first + index]; }

  void number_streams_and_pools() {
    const auto number = [](auto& table, const auto& value) {
      const auto at = std::ranges::find(table, value);
      if (at != table.end()) return static_cast<std::uint16_t>(at - table.begin());
      table.push_back(value);
      return static_cast<std::uint16_t>(table.size() - 1);
    };
    for (const TraceContext& context : snapshot_.contexts)
      history_.stream_of_context.push_back(number(history_.streams, context.stream));
    for (const SnapshotSegment& segment : snapshot_.segments) {
      if (segment.device != static_cast<std::int64_t>(history_.device)) continue;
      homes_.push_back({number(history_.streams, segment.stream), number(history_.pools, segment.pool),
                        segment.small, segment.expandable});
      segments_.push_back(&segment);
    }
  }

  void note_actions() {
    for (std::size_t i = 0; i < history_.count; ++i) {
      switch (event(i).action) {
        case TraceAction::free_requested:
          history_.has_free_requested = true;
          break;
        case TraceAction::free_completed:
          history_.has_free_completed = true;
          break;
        case TraceAction::segment_alloc:
        case TraceAction::segment_free:
        case TraceAction::segment_map:
        case TraceAction::segment_unmap:
          history_.has_segment_events = true;
          break;
        default:
          break;
      }
    }
  }

  /// Follows every address; a free that no allocation explains reveals a block of the start.
  Status walk_blocks() {
    for (std::size_t i = 0; i < history_.count; ++i) {
      const TraceEvent& e = event(i);
      const std::uint32_t state = known_.find(e.address);
      switch (e.action) {
        case TraceAction::alloc:
          if (state == kLive || state == kPending)
            return at_event(i, fmt::format("allocates {}, which is still in use", hex(e.address)));
          known_.set(e.address, kLive);
          break;
        case TraceAction::free_requested:
          if (state == kFree || state == kPending)
            return at_event(i, fmt::format("frees {} a second time", hex(e.address)));
          if (state == AddressMap::kNone) reveal(e, false, i);
          known_.set(e.address, history_.has_free_completed ? kPending : kFree);
          break;
        case TraceAction::free_completed:
          if (state == kFree || (state == kLive && history_.has_free_requested))
            return at_event(i, fmt::format("completes the free of {}, which was not freed", hex(e.address)));
          if (state == AddressMap::kNone) reveal(e, true, i);
          known_.set(e.address, kFree);
          break;
        default:
          break;
      }
    }
    return {};
  }

  void reveal(const TraceEvent& e, bool pending, std::size_t index) {
    revealed_.emplace_back(e.address, index);
    history_.blocks.push_back(
        {e.address, e.size, std::nullopt, e.stack, pending && history_.has_free_requested});
  }

  void add_blocks_of_the_end() {
    for (const SnapshotSegment* segment : segments_)
      for (const SnapshotBlock& block : segment->blocks) {
        if (block.state == SnapshotBlockState::inactive) continue;
        if (known_.find(block.address) != AddressMap::kNone) continue;
        history_.blocks.push_back({block.address, block.requested, block.size, block.stack,
                                   block.state == SnapshotBlockState::pending_free});
      }
  }

  /// Walks the segment events backwards from the segments of the end.
  void add_start_segments() {
    std::map<std::int64_t, StartSegment> native, mapped;
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      auto& into = homes_[s].expandable ? mapped : native;
      into[segments_[s]->address] = {segments_[s]->address, segments_[s]->size, homes_[s]};
    }
    for (std::size_t i = history_.count; i-- > 0;) {
      const TraceEvent& e = event(i);
      const SnapshotHeap::Home home{
          history_.stream_of_context.empty() ? std::uint16_t{0} : history_.stream_of_context[e.context], 0,
          is_small(e), e.action == TraceAction::segment_unmap};
      switch (e.action) {
        case TraceAction::segment_alloc:
          unlisted_ += native.erase(e.address) == 0;
          break;
        case TraceAction::segment_free:
          native[e.address] = {e.address, e.size, home};
          break;
        case TraceAction::segment_map:
          unlisted_ += !cut(mapped, e.address, e.size);
          break;
        case TraceAction::segment_unmap:
          join(mapped, {e.address, e.size, home});
          break;
        default:
          break;
      }
    }
    for (auto* from : {&native, &mapped})
      for (const auto& [address, segment] : *from) history_.segments.push_back(segment);
    std::ranges::sort(history_.segments, {}, &StartSegment::address);
  }

  /// Removes an interval from inside one of `runs`.
  static bool cut(std::map<std::int64_t, StartSegment>& runs, std::int64_t address, Bytes size) {
    auto run = runs.upper_bound(address);
    if (run == runs.begin()) return false;
    --run;
    const StartSegment whole = run->second;
    const Bytes front = address - whole.address, back = whole.size - front - size;
    if (back < 0) return false;
    runs.erase(run);
    if (front > 0) runs[whole.address] = {whole.address, front, whole.home};
    if (back > 0) runs[address + size] = {address + size, back, whole.home};
    return true;
  }

  /// Adds an interval, merging it with what it touches.
  static void join(std::map<std::int64_t, StartSegment>& runs, StartSegment added) {
    auto after = runs.lower_bound(added.address);
    if (after != runs.begin()) {
      const auto before = std::prev(after);
      if (before->second.address + before->second.size == added.address &&
          before->second.home.stream == added.home.stream) {
        added = {before->second.address, before->second.size + added.size, before->second.home};
        runs.erase(before);
      }
    }
    if (after != runs.end() && added.address + added.size == after->first &&
        after->second.home.stream == added.home.stream) {
      added.size += after->second.size;
      added.home = after->second.home;
      runs.erase(after);
    }
    runs[added.address] = added;
  }

  const StartSegment* start_segment(std::int64_t address) const {
    const auto after = std::ranges::upper_bound(history_.segments, address, {}, &StartSegment::address);
    if (after == history_.segments.begin()) return nullptr;
    const StartSegment& segment = *std::prev(after);
    return address - segment.address < segment.size ? &segment : nullptr;
  }

  /// A block of the start lies in a segment of the start, if segments are known at all.
  Status check_homes() {
    if (segments_.empty() && !history_.has_segment_events) return {};
    for (const auto& [address, index] : revealed_)
      if (start_segment(address) == nullptr)
        return at_event(
            index, fmt::format("frees {}, which was never allocated and lies in no segment", hex(address)));
    return {};
  }

  /// The allocator hands out the front of a hole. So an allocation just behind a block of the start that is
  /// still in use shows where the block ends.
  void measure_blocks_by_their_neighbours() {
    std::map<std::int64_t, std::size_t> freed_at(revealed_.begin(), revealed_.end());
    std::size_t last = 0;
    for (const auto& [address, index] : revealed_) last = std::max(last, index);
    for (std::size_t i = 0; i < last && !revealed_.empty(); ++i) {
      const TraceEvent& e = event(i);
      if (e.action != TraceAction::alloc) continue;
      const auto after = std::ranges::lower_bound(history_.blocks, e.address, {}, &StartBlock::address);
      if (after == history_.blocks.begin()) continue;
      StartBlock& before = *std::prev(after);
      if (before.exact || freed_at[before.address] < i) continue;
      const Bytes rest = e.address - before.address - before.requested;
      const StartSegment* home = start_segment(before.address);
      if (home == nullptr || home->home.small || home->home.expandable || home != start_segment(e.address))
        continue;
      if (rest >= 0 && rest <= allocator::kSmallMax + allocator::kMinBlock)
        before.exact = e.address - before.address;
    }
  }

  /// Blocks of the start followed by a hole of more than 1 MiB may hold its first part, up to 1 MiB.
  void count_unmeasured_blocks() {
    for (std::size_t i = 0; i < history_.blocks.size(); ++i) {
      const StartBlock& block = history_.blocks[i];
      const StartSegment* home = start_segment(block.address);
      if (block.exact || home == nullptr || home->home.small || home->home.expandable) continue;
      std::int64_t end = home->address + home->size;
      if (i + 1 < history_.blocks.size()) end = std::min(end, history_.blocks[i + 1].address);
      history_.unmeasured_blocks +=
          end - block.address - block.requested > allocator::kSmallMax + allocator::kMinBlock;
    }
  }

  void describe_missing() {
    auto& missing = history_.missing;
    Bytes bytes = 0;
    for (const StartBlock& block : history_.blocks) bytes += block.exact.value_or(block.requested);
    if (!history_.blocks.empty())
      missing.push_back(
          fmt::format("the history begins with {} blocks of {} in use: their allocations were not recorded "
                      "(recording began later, or "
                      "the oldest entries were overwritten); the state at its start is reconstructed from "
                      "the segments, and peaks "
                      "before it are unknown",
                      history_.blocks.size(), format_gib(bytes)));
    if (history_.unmeasured_blocks > 0)
      missing.push_back(
          fmt::format("{} of these blocks may be up to 1 MiB larger than assumed: the allocator leaves such "
                      "rests unsplit, and no later event shows where they end",
                      history_.unmeasured_blocks));
    if (history_.blocks.empty() && !history_.segments.empty() && history_.count > 0)
      missing.push_back(
          fmt::format("{} segments were held before the first recorded event", history_.segments.size()));
    if (history_.count == 0)
      missing.emplace_back(
          "no history was recorded (torch.cuda.memory._record_memory_history was not on): only the state "
          "at the dump is known");
    if (history_.count > 0 && !history_.has_segment_events && segments_.empty())
      missing.emplace_back("neither segments nor segment events are in the file: reserved memory is unknown");
    if (history_.has_free_requested && !history_.has_free_completed)
      missing.emplace_back(
          "completed frees were not recorded: a free is taken as completed when it was requested");
    if (unlisted_ > 0)
      missing.push_back(
          fmt::format("{} segments of the history are not among the segments at its end", unlisted_));
  }

  const Snapshot& snapshot_;
  SnapshotHistory history_;
  std::vector<const SnapshotSegment*> segments_;  ///< of this device
  std::vector<SnapshotHeap::Home> homes_;
  AddressMap known_;
  std::vector<std::pair<std::int64_t, std::size_t>> revealed_;
  std::int64_t unlisted_ = 0;
};

}  // namespace

Result<SnapshotHistory> complete_history(const Snapshot& snapshot, std::size_t device) {
  return Completion(snapshot, device).run();
}

std::string conf_of(const SnapshotSettings& settings) {
  if (!settings.conf.empty() && allocator::parse_allocator_settings(settings.conf)) return settings.conf;
  std::string conf;
  const auto add = [&](const std::string& option) { conf += (conf.empty() ? "" : ",") + option; };
  if (settings.expandable_segments) add("expandable_segments:True");
  if (settings.max_split_size) add(fmt::format("max_split_size_mb:{}", *settings.max_split_size / kMiB));
  if (settings.garbage_collection_threshold > 0)
    add(fmt::format("garbage_collection_threshold:{}", settings.garbage_collection_threshold));
  if (std::ranges::any_of(settings.roundup_power2_divisions, [](int divisions) { return divisions != 0; })) {
    std::string list;
    for (std::size_t i = 0; i < settings.roundup_power2_divisions.size(); ++i)
      list += fmt::format("{}{}:{}", i == 0 ? "" : ",", 1 << i, settings.roundup_power2_divisions[i]);
    add(fmt::format("roundup_power2_divisions:[{}]", list));
  }
  return allocator::parse_allocator_settings(conf) ? conf : "";
}

AllocatorSettings settings_of(const Snapshot& snapshot) {
  return allocator::parse_allocator_settings(conf_of(snapshot.settings)).value_or(AllocatorSettings{});
}

SnapshotReplay::SnapshotReplay(const Snapshot& snapshot, const SnapshotHistory& history,
                               const AllocatorSettings& settings)
    : snapshot_(snapshot), history_(history), heap_(settings) {
  for (std::size_t s = 0; s < snapshot.segments.size(); ++s)
    if (snapshot.segments[s].device == static_cast<std::int64_t>(history.device))
      final_segments_.emplace_back(snapshot.segments[s].address, s);
  std::ranges::sort(final_segments_);
}

Status SnapshotReplay::start() {
  for (const StartSegment& segment : history_.segments)
    HEADROOM_TRY(heap_.add_segment(segment.address, segment.size, segment.home));
  for (std::size_t i = 0; i < history_.blocks.size(); ++i) {
    const StartBlock& block = history_.blocks[i];
    std::optional<Bytes> size = block.exact;
    // The hole still reaches to the end of the segment: it must not hide the next block.
    if (!size && i + 1 < history_.blocks.size()) {
      const Bytes room = history_.blocks[i + 1].address - block.address;
      const Bytes rounded = allocator::round_request(heap_.settings(), std::max<Bytes>(block.requested, 1));
      const SnapshotHeap::Home home = heap_.home_at(block.address);
      const bool leftover =
          !home.small && !home.expandable && room > rounded && room - rounded <= allocator::kSmallMax;
      if (room < heap_.room_at(block.address)) size = leftover ? room : rounded;
    }
    HEADROOM_TRY(
        heap_.allocate(block.address, block.requested, block.stack, SnapshotHeap::kBeforeStart, size));
    if (block.pending) HEADROOM_TRY(heap_.request_free(block.address));
  }
  return {};
}

SnapshotHeap::Home SnapshotReplay::home_of(const TraceEvent& event) const {
  SnapshotHeap::Home home{history_.stream_of_context[event.context], 0, is_small(event),
                          event.action == TraceAction::segment_map};
  // The segment that still stands at the end tells its pool; an address can have had others before.
  const auto after =
      std::ranges::upper_bound(final_segments_, std::pair(event.address, snapshot_.segments.size()));
  if (after == final_segments_.begin()) return home;
  const SnapshotSegment& segment = snapshot_.segments[std::prev(after)->second];
  const bool inside = event.address - segment.address < segment.size && segment.expandable == home.expandable;
  const bool same = home.expandable || (event.address == segment.address && event.size == segment.size);
  if (!inside || !same || segment.stream != history_.streams[home.stream]) return home;
  const auto pool = std::ranges::find(history_.pools, segment.pool);
  home.pool = static_cast<std::uint16_t>(pool - history_.pools.begin());
  return home;
}

Status SnapshotReplay::step(std::size_t index) {
  const TraceEvent& e = snapshot_.events[history_.first + index];
  const auto result = [&]() -> Status {
    switch (e.action) {
      case TraceAction::alloc:
        return heap_.allocate(e.address, e.size, e.stack, static_cast<std::uint32_t>(index));
      case TraceAction::free_requested:
        HEADROOM_TRY(heap_.request_free(e.address));
        return history_.has_free_completed ? Status{} : heap_.complete_free(e.address);
      case TraceAction::free_completed:
        if (!history_.has_free_requested) HEADROOM_TRY(heap_.request_free(e.address));
        return heap_.complete_free(e.address);
      case TraceAction::segment_alloc:
        return heap_.add_segment(e.address, e.size, home_of(e));
      case TraceAction::segment_free:
        return heap_.remove_segment(e.address, e.size);
      case TraceAction::segment_map:
        return heap_.map(e.address, e.size, home_of(e));
      case TraceAction::segment_unmap:
        return heap_.unmap(e.address, e.size);
      default:
        return {};
    }
  }();
  if (!result) return at_event(index, result.error().message);
  return {};
}

}  // namespace headroom::replay
