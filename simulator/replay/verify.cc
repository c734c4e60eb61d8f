#include "simulator/replay/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "simulator/replay/recorded_device.h"

namespace headroom::replay {
namespace {

using allocator::Address;
using allocator::BlockId;
using allocator::Stream;
using Action = RecordedSegmentEvent::Action;

// What a process decides by chance: the order of the raw handles of streams, and of the event queues.
struct Chance {
  bool second_side_stream_lower = false;
  bool queues_ascending = false;
};

// The pieces of expandable ranges, named as the recorder names them: by the address of a map event, with its
// first size, until an unmap starts at that address.
class Pieces {
 public:
  void add(Address address, Bytes bytes) {
    const auto found =
        std::find_if(pieces_.begin(), pieces_.end(), [&](const Piece& p) { return p.address == address; });
    const Piece piece{.address = address, .bytes = bytes, .ordinal = next_++};
    if (found != pieces_.end()) {
      *found = piece;
    } else {
      pieces_.push_back(piece);
    }
  }
  void remove(Address address) {
    std::erase_if(pieces_, [&](const Piece& p) { return p.address == address; });
  }
  std::pair<std::int64_t, Bytes> find(Address address) const {
    for (const Piece& p : pieces_)
      if (p.address <= address && address < p.address + p.bytes) return {p.ordinal, address - p.address};
    return {-2, -2};
  }

 private:
  struct Piece {
    Address address;
    Bytes bytes;
    std::int64_t ordinal;
  };
  std::vector<Piece> pieces_;
  std::int64_t next_ = 0;
};

// Compares the segment events as they happen.
class SegmentEvents : public allocator::Observer {
 public:
  SegmentEvents(const Recording& recording, bool addresses) : recording_(recording), addresses_(addresses) {}

  void segment_alloc(Address a, Bytes n, Stream s) override {
    pieces_.add(a, n);
    see(Action::segment_alloc, a, n, s);
  }
  void segment_free(Address a, Bytes n, Stream s) override {
    pieces_.remove(a);
    see(Action::segment_free, a, n, s);
  }
  void segment_map(Address a, Bytes n, Stream s) override {
    pieces_.add(a, n);
    see(Action::segment_map, a, n, s);
  }
  void segment_unmap(Address a, Bytes n, Stream s) override {
    pieces_.remove(a);
    see(Action::segment_unmap, a, n, s);
  }
  void out_of_memory(const allocator::OutOfMemory& facts) override {
    see(Action::oom, 0, facts.rounded, facts.stream);
  }

  const Pieces& pieces() const { return pieces_; }
  std::string difference() const {
    if (!difference_.empty() || next_ == recording_.segment_events.size()) return difference_;
    return fmt::format("segment event {}: expected {}, recorded {}", next_, "none",
                       show(recording_.segment_events[next_]));
  }
  /// The first difference so far, not counting events still to come.
  const std::string& difference_so_far() const { return difference_; }

 private:
  static std::string show(const RecordedSegmentEvent& e) {
    return fmt::format("{} of {} bytes on {}", name(e.action), e.bytes,
                       e.other_stream ? "another stream" : "stream 0");
  }
  void see(Action action, Address address, Bytes bytes, Stream stream) {
    if (!difference_.empty()) return;
    const RecordedSegmentEvent got{.action = action, .bytes = bytes, .other_stream = stream != 0};
    const std::size_t index = next_++;
    if (index >= recording_.segment_events.size()) {
      difference_ = fmt::format("segment event {}: simulated {}, recorded none", index, show(got));
      return;
    }
    const RecordedSegmentEvent& want = recording_.segment_events[index];
    if (want.action != got.action || want.bytes != got.bytes || want.other_stream != got.other_stream) {
      difference_ = fmt::format("segment event {}: simulated {}, recorded {}", index, show(got), show(want));
      return;
    }
    if (addresses_ && want.address && action != Action::oom) check_address(index, address, *want.address);
  }
  // Simulated and recorded addresses differ by one constant.
  void check_address(std::size_t index, Address simulated, Bytes recorded) {
    if (!base_) base_ = simulated - recorded;
    if (simulated - recorded == *base_) return;
    difference_ = fmt::format("segment event {}: simulated address {}, recorded {}", index,
                              simulated - *base_, recorded);
  }

  const Recording& recording_;
  bool addresses_;
  std::size_t next_ = 0;
  Pieces pieces_;
  std::optional<Address> base_;
  std::string difference_;
};

class Replay {
 public:
  Replay(const Recording& recording, Comparison comparison, const allocator::AllocatorSettings& settings,
         Chance chance)
      : recording_(recording),
        device_(recording.total_memory),
        allocator_(settings, device_),
        events_(recording, comparison == Comparison::verify) {
    allocator_.set_stream_handle(1, chance.second_side_stream_lower ? 2 : 1);
    allocator_.set_stream_handle(2, chance.second_side_stream_lower ? 1 : 2);
    allocator_.set_event_queues_ascending(chance.queues_ascending);
    // The recorder's start: one tensor of 4 bytes, dropped, and the cache emptied before and after the limit
    // is set.
    allocator_.free(allocator_.allocate(4));
    allocator_.empty_cache();
    if (recording.fraction > 0) allocator_.set_memory_fraction(recording.fraction);
    allocator_.empty_cache();
    if (comparison == Comparison::verify) {
      device_.follow(recording);
      const bool addressed =
          !recording.segment_events.empty() && recording.segment_events.front().address.has_value();
      if (!addressed) allocator_.set_tie_breaker(&ties_);
    }
    allocator_.set_observer(&events_);
  }

  CaseResult run() {
    CaseResult result;
    result.name = recording_.name;
    result.events = recording_.events.size();
    for (std::size_t i = 0; i < recording_.events.size(); ++i) {
      result.difference = step(recording_.events[i], recording_.rows[i]);
      if (!result.difference.empty()) {
        result.difference = fmt::format("event {}: {}", i, result.difference);
        return result;
      }
      ++result.events_matched;
    }
    result.difference = events_.difference();
    if (result.difference.empty()) result.difference = compare_final();
    result.matched = result.difference.empty();
    return result;
  }

 private:
  std::string step(const RecordedEvent& event, const RecordedRow& row) {
    std::pair<std::int64_t, Bytes> place{0, 0};
    switch (event.kind) {
      case RecordedEvent::Kind::allocate: {
        if (event.bytes < 0) return fmt::format("expected a size of at least 0, found {}", event.bytes);
        if (tensors_.count(event.id) != 0) return fmt::format("tensor {} is allocated already", event.id);
        ties_.expect(row.segment + kSegmentsBefore, row.offset);
        const BlockId block = allocator_.allocate(event.bytes, event.stream);
        tensors_[event.id] = block;
        place = place_of(block);
        break;
      }
      case RecordedEvent::Kind::free: {
        const auto tensor = tensors_.find(event.id);
        if (tensor == tensors_.end()) return fmt::format("tensor {} is freed but not allocated", event.id);
        if (tensor->second != allocator::kOutOfMemory) allocator_.free(tensor->second);
        tensors_.erase(tensor);
        break;
      }
      case RecordedEvent::Kind::record_stream: {
        const auto tensor = tensors_.find(event.id);
        if (tensor == tensors_.end()) return fmt::format("tensor {} is used but not allocated", event.id);
        if (tensor->second != allocator::kOutOfMemory) allocator_.record_stream(tensor->second, event.stream);
        break;
      }
      case RecordedEvent::Kind::synchronize:
        break;
      case RecordedEvent::Kind::empty_cache:
        allocator_.empty_cache();
        break;
    }
    return difference(row, place);
  }

  std::pair<std::int64_t, Bytes> place_of(BlockId block) const {
    if (block == allocator::kOutOfMemory) return {-1, -1};
    if (block == allocator::kNullBlock) return {-2, -2};
    if (allocator_.settings().expandable_segments) return events_.pieces().find(allocator_.address(block));
    return {static_cast<std::int64_t>(allocator_.segment_ordinal(block)) - kSegmentsBefore,
            allocator_.segment_offset(block)};
  }

  std::string difference(const RecordedRow& row, std::pair<std::int64_t, Bytes> place) const {
    if (!events_.difference_so_far().empty()) return events_.difference_so_far();
    if (!device_.contradiction().empty()) return device_.contradiction();
    if (place.first != row.segment || place.second != row.offset) {
      return fmt::format("simulated segment {} offset {}, recorded segment {} offset {}", place.first,
                         place.second, row.segment, row.offset);
    }
    if (!ties_.contradiction().empty()) return ties_.contradiction();
    const auto counter = [](std::string_view what, Bytes simulated, Bytes recorded) {
      return simulated == recorded ? std::string()
                                   : fmt::format("simulated {} {}, recorded {}", what, simulated, recorded);
    };
    for (const std::string& text :
         {counter("allocated", allocator_.allocated(), row.allocated),
          counter("reserved", allocator_.reserved(), row.reserved),
          counter("active", allocator_.active(), row.active),
          counter("inactive_split", allocator_.inactive_split(), row.inactive_split)})
      if (!text.empty()) return text;
    return {};
  }

  // The recording leaves statistics out that are zero.
  std::string compare_final() const {
    auto recorded = recording_.final;
    for (const auto& [key, value] : named_statistics(allocator_.statistics())) {
      const auto found = std::find_if(recorded.begin(), recorded.end(),
                                      [&, &key = key](const auto& r) { return r.first == key; });
      const std::int64_t want = found == recorded.end() ? 0 : found->second;
      if (value != want) return fmt::format("final {}: simulated {}, recorded {}", key, value, want);
      if (found != recorded.end()) recorded.erase(found);
    }
    return recorded.empty() ? std::string() : fmt::format("final {}: not simulated", recorded.front().first);
  }

  static constexpr std::int64_t kSegmentsBefore = 1;  // that of the recorder's first tensor

  const Recording& recording_;
  RecordedDevice device_;
  allocator::CachingAllocator allocator_;
  RecordedTies ties_;
  SegmentEvents events_;
  std::unordered_map<std::int64_t, BlockId> tensors_;
};

}  // namespace

CaseResult compare(const Recording& recording, Comparison comparison) {
  const auto settings = allocator::parse_allocator_settings(recording.settings);
  if (!settings || !recording.contradiction.empty()) {
    CaseResult result;
    result.name = recording.name;
    result.events = recording.events.size();
    result.difference = settings ? recording.contradiction : "settings: " + settings.error().text();
    return result;
  }
  // As in nearly all recordings: heap addresses of later streams grow in native mode and fall in expandable
  // mode.
  const bool lower = settings->expandable_segments;
  CaseResult best = Replay(recording, comparison, *settings, {.second_side_stream_lower = lower}).run();
  const bool several = std::any_of(recording.events.begin(), recording.events.end(),
                                   [](const RecordedEvent& event) { return event.stream > 1; });
  if (best.matched || !several) return best;
  for (const Chance chance : {Chance{lower, true}, Chance{!lower, false}, Chance{!lower, true}}) {
    CaseResult other = Replay(recording, comparison, *settings, chance).run();
    if (other.matched || other.events_matched > best.events_matched) best = std::move(other);
    if (best.matched) break;
  }
  return best;
}

std::vector<CaseResult> compare(const std::vector<Recording>& recordings, Comparison comparison) {
  std::vector<CaseResult> results;
  for (const Recording& recording : recordings) results.push_back(compare(recording, comparison));
  return results;
}

}  // namespace headroom::replay
