#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/base/bytes.h"

namespace headroom::allocator {

/// One quantity of `torch.cuda.memory_stats()`: now, its highest value, and the sums of all increases and
/// decreases.
struct Statistic {
  std::int64_t current = 0, peak = 0, allocated = 0, freed = 0;

  void increase(std::int64_t amount) {
    current += amount;
    allocated += amount;
    peak = std::max(peak, current);
  }
  void decrease(std::int64_t amount) {
    current -= amount;
    freed += amount;
  }
  friend bool operator==(const Statistic&, const Statistic&) = default;
};

/// The quantities that exist for all, small_pool and large_pool.
struct PoolStatistics {
  Statistic allocation;                            ///< blocks handed out
  Statistic allocated_bytes;                       ///< their sizes
  Statistic active, active_bytes;                  ///< handed out, or freed and waiting for other streams
  Statistic requested_bytes;                       ///< what the program asked for, of active blocks
  Statistic segment;                               ///< native segments held
  Statistic reserved_bytes;                        ///< segments and mapped memory held
  Statistic inactive_split, inactive_split_bytes;  ///< free parts of partly used native segments
  friend bool operator==(const PoolStatistics&, const PoolStatistics&) = default;
};

/// All of `torch.cuda.memory_stats()` that the caching allocator counts.
struct MemoryStatistics {
  PoolStatistics all, small_pool, large_pool;
  Statistic oversize_allocations, oversize_segments;  ///< sizes from max_split_size on
  std::int64_t num_alloc_retries = 0, num_ooms = 0, num_sync_all_streams = 0;
  std::int64_t num_device_alloc = 0, num_device_free = 0;
  std::int64_t max_split_size = -1;  ///< the setting; -1: unlimited
  friend bool operator==(const MemoryStatistics&, const MemoryStatistics&) = default;
};

/// The same under PyTorch's names (`allocated_bytes.all.peak`, `num_ooms`, …), in a fixed order.
std::vector<std::pair<std::string, std::int64_t>> named_statistics(const MemoryStatistics& statistics);

/// What a stretch of operations on one half of the pools did to the counters.
struct CounterEffect {
  std::array<std::int64_t, 9> gained{}, lost{};
  std::array<std::int64_t, 9> highest{};  ///< above the start, at its highest
};

/// The running counters behind MemoryStatistics, laid out for the hot path: a decrease is one addition, an
/// increase one more and two tests of peaks.
class Counters {
 public:
  enum Quantity : std::uint8_t {
    allocation,
    allocated_bytes,
    requested_bytes,
    inactive_split,
    inactive_split_bytes,
    active,
    active_bytes,
    segment,
    reserved_bytes,
    kQuantities
  };

  void add(int half, Quantity quantity, std::int64_t amount) {
    Cell& cell = cells_[half][quantity];
    cell.gained += amount;
    raise_peaks(half, quantity, cell);
  }
  void subtract(int half, Quantity quantity, std::int64_t amount) { cells_[half][quantity].lost += amount; }
  /// One net change of either sign.
  void change(int half, Quantity quantity, std::int64_t amount) {
    Cell& cell = cells_[half][quantity];
    const std::int64_t gain = std::max<std::int64_t>(amount, 0);
    cell.gained += gain;
    cell.lost += gain - amount;
    raise_peaks(half, quantity, cell);
  }

  /// A block was handed out.
  void allocate(int half, Bytes size, Bytes requested) {
    add(half, allocation, 1);
    add(half, allocated_bytes, size);
    add(half, requested_bytes, requested);
    if (active_differs_) [[unlikely]] {
      add(half, active, 1);
      add(half, active_bytes, size);
    }
  }
  /// A block was given back by the program; until `deactivate` it is still active.
  void free(int half, Bytes size) {
    subtract(half, allocation, 1);
    subtract(half, allocated_bytes, size);
  }
  void deactivate(int half, Bytes size, Bytes requested) {
    subtract(half, requested_bytes, requested);
    if (active_differs_) [[unlikely]] {
      subtract(half, active, 1);
      subtract(half, active_bytes, size);
    }
  }
  /// Before the first block that stays active after its free: until then, active is what is allocated and is
  /// not counted apart.
  void count_active_apart();

  std::int64_t current(Quantity quantity) const {
    const Quantity counted = counted_as(quantity);
    return cells_[0][counted].current() + cells_[1][counted].current();
  }
  std::int64_t peak(Quantity quantity) const { return peak_[counted_as(quantity)]; }
  /// Peaks restart from the current values.
  void reset_peak();
  /// The sums of increases and decreases restart from zero.
  void reset_accumulated();

  PoolStatistics pool(int half) const;  ///< 0 small, 1 large
  PoolStatistics all() const;

  std::int64_t current(int half, Quantity quantity) const { return cells_[half][quantity].current(); }
  /// From `begin_watch` to `end_watch`, in which only this half may change: what was done, to be done again
  /// by `apply` without doing it.
  void begin_watch(int half);
  CounterEffect end_watch(int half);
  void apply(int half, const CounterEffect& effect);

 private:
  struct Cell {
    std::int64_t gained = 0, lost = 0, peak = 0;
    std::int64_t old_gained = 0, old_lost = 0;  ///< as of the last reset_accumulated
    std::int64_t current() const { return gained - lost; }
  };

  void raise_peaks(int half, Quantity quantity, Cell& cell) {
    const std::int64_t here = cell.current();
    if (here > cell.peak) [[unlikely]]
      cell.peak = here;
    const std::int64_t both = here + cells_[1 - half][quantity].current();
    if (both > peak_[quantity]) [[unlikely]]
      peak_[quantity] = both;
  }
  Quantity counted_as(Quantity quantity) const {
    if (active_differs_) return quantity;
    return quantity == active ? allocation : quantity == active_bytes ? allocated_bytes : quantity;
  }
  Statistic of_half(int half, Quantity quantity) const;

  std::array<std::array<Cell, kQuantities>, 2> cells_{};
  std::array<std::int64_t, kQuantities> peak_{};  ///< of both halves together
  bool active_differs_ = false;
  std::array<Cell, kQuantities> watched_{};  ///< as they were when the watch began
};

}  // namespace headroom::allocator
