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

/// The running counters behind MemoryStatistics, laid out for the hot path.
class Counters {
 public:
  enum Quantity {
    allocation,
    allocated_bytes,
    active,
    active_bytes,
    requested_bytes,
    inactive_split,
    inactive_split_bytes,
    segment,
    reserved_bytes,
    kQuantities
  };

  void add(int half, Quantity quantity, std::int64_t amount) {
    Half& h = halves_[half];
    h.current[quantity] += amount;
    h.gained[quantity] += amount;
    h.peak[quantity] = std::max(h.peak[quantity], h.current[quantity]);
    current_[quantity] += amount;
    peak_[quantity] = std::max(peak_[quantity], current_[quantity]);
  }
  void subtract(int half, Quantity quantity, std::int64_t amount) {
    halves_[half].current[quantity] -= amount;
    current_[quantity] -= amount;
  }
  /// One net change of either sign.
  void change(int half, Quantity quantity, std::int64_t amount) {
    if (amount >= 0) {
      add(half, quantity, amount);
    } else {
      subtract(half, quantity, -amount);
    }
  }

  std::int64_t current(Quantity quantity) const { return current_[quantity]; }
  std::int64_t peak(Quantity quantity) const { return peak_[quantity]; }
  /// Peaks restart from the current values.
  void reset_peak();
  /// The sums of increases and decreases restart from zero.
  void reset_accumulated();

  PoolStatistics pool(int half) const;  ///< 0 small, 1 large
  PoolStatistics all() const;

 private:
  struct Half {
    std::array<std::int64_t, kQuantities> current{}, peak{}, gained{};
    std::array<std::int64_t, kQuantities> old_gained{}, old_lost{};  ///< as of the last reset_accumulated
  };
  Statistic of_half(int half, std::size_t quantity) const;

  std::array<Half, 2> halves_{};
  std::array<std::int64_t, kQuantities> current_{}, peak_{};
};

}  // namespace headroom::allocator
