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

void Counters::reset_peak() {
  peak_ = current_;
  for (Half& half : halves_) half.peak = half.current;
}

void Counters::reset_accumulated() {
  for (Half& half : halves_) {
    half.old_gained = half.gained;
    for (std::size_t q = 0; q < kQuantities; ++q) half.old_lost[q] = half.gained[q] - half.current[q];
  }
}

Statistic Counters::of_half(int half, std::size_t q) const {
  const Half& h = halves_[static_cast<std::size_t>(half)];
  return {.current = h.current[q],
          .peak = h.peak[q],
          .allocated = h.gained[q] - h.old_gained[q],
          .freed = h.gained[q] - h.current[q] - h.old_lost[q]};
}

PoolStatistics Counters::pool(int half) const {
  std::array<Statistic, kQuantities> s;
  for (std::size_t q = 0; q < kQuantities; ++q) s[q] = of_half(half, q);
  return from(s);
}

PoolStatistics Counters::all() const {
  std::array<Statistic, kQuantities> s;
  for (std::size_t q = 0; q < kQuantities; ++q) {
    const Statistic small = of_half(0, q), large = of_half(1, q);
    s[q] = {.current = current_[q],
            .peak = peak_[q],
            .allocated = small.allocated + large.allocated,
            .freed = small.freed + large.freed};
  }
  return from(s);
}

}  // namespace headroom::allocator
