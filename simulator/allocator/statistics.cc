#include "simulator/allocator/statistics.h"

#include <string_view>

namespace headroom::allocator {
namespace {

PoolStatistics from(const std::array<Statistic, Counters::kQuantities>& s) {
  return {.allocation = s[Counters::allocation],
          .allocated_bytes = s[Counters::allocated_bytes],
          .active = s[Counters::active],
          .active_bytes = s[Counters::active_bytes],
          .requested_bytes = s[Counters::requested_bytes],
          .segment = s[Counters::segment],
          .reserved_bytes = s[Counters::reserved_bytes],
          .inactive_split = s[Counters::inactive_split],
          .inactive_split_bytes = s[Counters::inactive_split_bytes]};
}

using Named = std::vector<std::pair<std::string, std::int64_t>>;

void append(Named& out, const std::string& name, const Statistic& s) {
  out.emplace_back(name + ".current", s.current);
  out.emplace_back(name + ".peak", s.peak);
  out.emplace_back(name + ".allocated", s.allocated);
  out.emplace_back(name + ".freed", s.freed);
}

void append(Named& out, const std::string& pool, const PoolStatistics& s) {
  append(out, "allocation." + pool, s.allocation);
  append(out, "allocated_bytes." + pool, s.allocated_bytes);
  append(out, "active." + pool, s.active);
  append(out, "active_bytes." + pool, s.active_bytes);
  append(out, "requested_bytes." + pool, s.requested_bytes);
  append(out, "segment." + pool, s.segment);
  append(out, "reserved_bytes." + pool, s.reserved_bytes);
  append(out, "inactive_split." + pool, s.inactive_split);
  append(out, "inactive_split_bytes." + pool, s.inactive_split_bytes);
}

}  // namespace

Named named_statistics(const MemoryStatistics& statistics) {
  Named out;
  append(out, "all", statistics.all);
  append(out, "small_pool", statistics.small_pool);
  append(out, "large_pool", statistics.large_pool);
  append(out, "oversize_allocations", statistics.oversize_allocations);
  append(out, "oversize_segments", statistics.oversize_segments);
  out.emplace_back("num_alloc_retries", statistics.num_alloc_retries);
  out.emplace_back("num_ooms", statistics.num_ooms);
  out.emplace_back("num_sync_all_streams", statistics.num_sync_all_streams);
  out.emplace_back("num_device_alloc", statistics.num_device_alloc);
  out.emplace_back("num_device_free", statistics.num_device_free);
  out.emplace_back("max_split_size", statistics.max_split_size);
  return out;
}

void Counters::count_active_apart() {
  if (active_differs_) return;
  for (auto& half : cells_) {
    half[active] = half[allocation];
    half[active_bytes] = half[allocated_bytes];
  }
  peak_[active] = peak_[allocation];
  peak_[active_bytes] = peak_[allocated_bytes];
  active_differs_ = true;
}

void Counters::reset_peak() {
  for (std::size_t q = 0; q < kQuantities; ++q) {
    peak_[q] = 0;
    for (auto& half : cells_) {
      half[q].peak = half[q].current();
      peak_[q] += half[q].peak;
    }
  }
}

void Counters::reset_accumulated() {
  for (auto& half : cells_) {
    for (Cell& cell : half) {
      cell.old_gained = cell.gained;
      cell.old_lost = cell.lost;
    }
  }
}

Statistic Counters::of_half(int half, Quantity quantity) const {
  const Cell& cell = cells_[static_cast<std::size_t>(half)][counted_as(quantity)];
  return {.current = cell.current(),
          .peak = cell.peak,
          .allocated = cell.gained - cell.old_gained,
          .freed = cell.lost - cell.old_lost};
}

PoolStatistics Counters::pool(int half) const {
  std::array<Statistic, kQuantities> s;
  for (std::uint8_t q = 0; q < kQuantities; ++q) s[q] = of_half(half, Quantity{q});
  return from(s);
}

PoolStatistics Counters::all() const {
  std::array<Statistic, kQuantities> s;
  for (std::uint8_t q = 0; q < kQuantities; ++q) {
    const Statistic small = of_half(0, Quantity{q}), large = of_half(1, Quantity{q});
    s[q] = {.current = small.current + large.current,
            .peak = peak(Quantity{q}),
            .allocated = small.allocated + large.allocated,
            .freed = small.freed + large.freed};
  }
  return from(s);
}

void Counters::begin_watch(int half) {
  static_assert(kQuantities == std::tuple_size_v<decltype(CounterEffect::gained)>);
  watched_ = cells_[half];
  for (Cell& cell : cells_[half]) cell.peak = cell.current();
}

CounterEffect Counters::end_watch(int half) {
  CounterEffect effect;
  for (std::size_t i = 0; i < kQuantities; ++i) {
    Cell& cell = cells_[half][i];
    const Cell& before = watched_[i];
    effect.gained[i] = cell.gained - before.gained;
    effect.lost[i] = cell.lost - before.lost;
    effect.highest[i] = cell.peak - before.current();
    cell.peak = std::max(cell.peak, before.peak);
  }
  return effect;
}

void Counters::apply(int half, const CounterEffect& effect) {
  for (std::size_t i = 0; i < kQuantities; ++i) {
    Cell& cell = cells_[half][i];
    const std::int64_t top = cell.current() + effect.highest[i];
    cell.peak = std::max(cell.peak, top);
    peak_[i] = std::max(peak_[i], top + cells_[1 - half][i].current());
    cell.gained += effect.gained[i];
    cell.lost += effect.lost[i];
  }
}

}  // namespace headroom::allocator
