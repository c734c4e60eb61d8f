#include "simulator/replay/what_if.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/base/parallel.h"
#include "simulator/allocator/simulated_settings.h"
#include "simulator/allocator/virtual_device.h"
#include "simulator/replay/what_if_advice.h"

namespace headroom::replay {
namespace {

using allocator::BlockId;
using allocator::CachingAllocator;
using Kind = StreamEvent::Kind;

/// More than any card: a run without a limit fails only over what no device can have held.
constexpr Bytes kNoLimit = Bytes{1} << 44;

/// A device whose streams are idle, but for events that are held: those are done when the recording says so.
class RecordedStreams : public allocator::VirtualDevice {
 public:
  RecordedStreams(Bytes capacity, bool limited)
      : VirtualDevice(capacity), total_(limited ? 2 * capacity : capacity) {}

  /// Twice the capacity under a limit, so that half of it, a fraction below 1, is the limit that garbage
  /// collection needs.
  Bytes total_memory() const override { return total_; }
  allocator::EventToken record_event(allocator::Stream) override {
    done_.push_back(true);
    return done_.size() - 1;
  }
  bool event_done(allocator::EventToken event) override { return done_[event]; }
  void wait_event(allocator::EventToken event) override { done_[event] = true; }

  allocator::EventToken last_event() const { return done_.size() - 1; }
  void hold(allocator::EventToken event) { done_[event] = false; }
  void finish(allocator::EventToken event) { done_[event] = true; }

 private:
  Bytes total_;
  std::vector<bool> done_;
};

/// Runs one stream over one allocator.
class Run {
 public:
  Run(const AllocationStream& stream, const WhatIfSetting& setting,
      const allocator::AllocatorSettings& settings, std::optional<Bytes> limit, StreamObserver* observer)
      : stream_(stream),
        setting_(setting),
        device_(limit.value_or(kNoLimit), limit.has_value()),
        settings_(settings),
        allocator_(settings, device_, observer != nullptr ? observer->allocator_observer() : nullptr),
        observer_(observer),
        blocks_(stream.allocations, allocator::kNullBlock) {
    if (limit && settings.garbage_collection_threshold > 0) allocator_.set_memory_fraction(0.5);
    for (std::uint32_t pool = 1; pool < stream.pools; ++pool) pools_.push_back(allocator_.create_pool());
  }

  WhatIfOutcome run() {
    WhatIfOutcome outcome;
    outcome.setting = setting_;
    for (std::size_t i = 0; i < stream_.events.size(); ++i) {
      if (i == stream_.initial) begin_counting();
      if (observer_ != nullptr) observer_->before(stream_.events[i]);
      if (!step(stream_.events[i])) {
        outcome.out_of_memory = allocator_.out_of_memory();
        outcome.failed_event = i;
        if (phase_ != kNoPhase) outcome.failed_phase = stream_.phases[phase_];
        break;
      }
    }
    const allocator::MemoryStatistics statistics = allocator_.statistics();
    outcome.peak_allocated = statistics.all.allocated_bytes.peak;
    outcome.peak_reserved = statistics.all.reserved_bytes.peak;
    outcome.reserved_end = statistics.all.reserved_bytes.current;
    outcome.retries = statistics.num_alloc_retries;
    outcome.device_allocs = statistics.num_device_alloc;
    outcome.device_frees = statistics.num_device_free;
    if (observer_ != nullptr) observer_->after_run(allocator_, setting_.conf);
    return outcome;
  }

 private:
  void begin_counting() {
    if (stream_.initial == 0) return;
    allocator_.reset_peak();
    allocator_.reset_accumulated();
  }

  bool step(const StreamEvent& e) {
    switch (e.kind) {
      case Kind::allocate:
        return allocate(e);
      case Kind::free_requested:
        if (blocks_[e.id] == allocator::kNullBlock) return true;  // of no bytes: no stream uses it
        // Another stream still uses it. One stand-in stream for each such block, so that none waits for
        // another.
        allocator_.record_stream(blocks_[e.id], stand_in());
        free(e.id);
        device_.hold(device_.last_event());
        pending_.emplace_back(e.id, device_.last_event());
        return true;
      case Kind::record_stream:
        allocator_.record_stream(blocks_[e.id], e.stream);
        return true;
      case Kind::free:
        return finish_free(e.id);
      case Kind::empty_cache:
        allocator_.empty_cache();
        return true;
      case Kind::expandable:
        if (!setting_.switches) return true;  // another setting is asked about
        settings_.expandable_segments = e.id == 1;
        allocator_.change_settings(settings_);
        return true;
      case Kind::phase:
        if (phase_ != kNoPhase && setting_.empty_at_phase_ends) allocator_.empty_cache();
        phase_ = e.id;
        return true;
      default:
        return true;
    }
  }

  bool allocate(const StreamEvent& e) {
    if (e.pool != 0) allocator_.begin_pool(pools_[e.pool - 1u]);
    const BlockId block = allocator_.allocate(e.bytes, e.stream);
    if (e.pool != 0) {
      allocator_.end_pool(pools_[e.pool - 1u]);
    }
    if (block == allocator::kOutOfMemory) return false;
    blocks_[e.id] = block;
    return true;
  }

  void free(std::uint32_t id) {
    allocator_.free(blocks_[id]);
    blocks_[id] = allocator::kNullBlock;
  }

  bool finish_free(std::uint32_t id) {
    if (!pending_.empty()) {
      const auto at =
          std::ranges::find(pending_, id, &std::pair<std::uint32_t, allocator::EventToken>::first);
      if (at != pending_.end()) {
        device_.finish(at->second);
        pending_.erase(at);
        return true;
      }
    }
    free(id);
    return true;
  }

  allocator::Stream stand_in() { return stream_.streams + next_stand_in_++ % 4096; }

  const AllocationStream& stream_;
  const WhatIfSetting& setting_;
  RecordedStreams device_;
  allocator::AllocatorSettings settings_;
  CachingAllocator allocator_;
  StreamObserver* observer_;
  std::vector<BlockId> blocks_;
  std::vector<allocator::PoolId> pools_;
  std::vector<std::pair<std::uint32_t, allocator::EventToken>> pending_;
  std::uint32_t next_stand_in_ = 0, phase_ = kNoPhase;
};

}  // namespace

Result<WhatIfOutcome> run_setting(const AllocationStream& stream, const WhatIfSetting& setting,
                                  std::optional<Bytes> limit, StreamObserver* observer) {
  auto settings = allocator::parse_simulated_settings(setting.conf);
  if (!settings) {
    Error error = settings.error();
    error.message = fmt::format("setting `{}`: {}", setting.conf, error.message);
    return fail(std::move(error));
  }
  if (setting.needs_limit && !limit) {
    WhatIfOutcome outcome;
    outcome.setting = setting;
    outcome.skipped = "works only under a limit";
    return outcome;
  }
  settings->per_process_memory_fraction.reset();
  return Run(stream, setting, *settings, limit, observer).run();
}

Result<WhatIf> what_if(const AllocationStream& stream, std::span<const WhatIfSetting> settings,
                       std::optional<Bytes> limit, unsigned threads) {
  std::vector<WhatIfSetting> rows{{"as recorded", stream.settings, false, false, true}};
  rows.insert(rows.end(), settings.begin(), settings.end());
  if (stream.phases.empty())
    std::erase_if(rows, [](const WhatIfSetting& row) { return row.empty_at_phase_ends; });
  std::vector<Result<WhatIfOutcome>> results(rows.size());
  parallel_for(rows.size(), threads,
               [&](std::size_t i) { results[i] = run_setting(stream, rows[i], limit); });
  WhatIf table;
  table.limit = limit;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    HEADROOM_ASSIGN(WhatIfOutcome outcome, std::move(results[i]));
    if (i == 0) {
      table.baseline = std::move(outcome);
    } else {
      table.outcomes.push_back(std::move(outcome));
    }
  }
  const auto fails = [](const WhatIfOutcome& row) { return row.out_of_memory || !row.skipped.empty(); };
  if (limit && fails(table.baseline) && std::ranges::all_of(table.outcomes, fails)) {
    HEADROOM_ASSIGN(const WhatIfOutcome whole, run_setting(stream, rows.front(), std::nullopt));
    table.needed = whole.peak_allocated;
  }
  advise(table);
  return table;
}

}  // namespace headroom::replay
