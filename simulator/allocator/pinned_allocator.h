#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "models/base/bytes.h"
#include "simulator/memory/component.h"
#include "simulator/memory/operation.h"

namespace headroom {

/// PyTorch's caching allocator of pinned host memory (at/core/CachingHostAllocator): each request is rounded
/// up to a power of two, and a freed block is kept for the next request that rounds to the same size. It
/// never splits or merges blocks and gives nothing back before empty_cache, so a model's copy can take up to
/// twice its bytes.
struct PinnedSettings {
  std::optional<Bytes>
      largest_rounded;  ///< pinned_max_round_threshold_mb: larger requests are taken as they are
  std::optional<Bytes> largest_kept;  ///< pinned_max_cached_size_mb: larger blocks go back when freed
};

class PinnedAllocator {
 public:
  explicit PinnedAllocator(const PinnedSettings& settings = {}) : settings_(settings) {}

  /// A block of at least `requested` bytes; zero bytes give kNoHostBlock.
  HostBlock allocate(Bytes requested, Component component);
  /// kNoHostBlock is ignored.
  void free(HostBlock block);
  /// Kept blocks go back to the system.
  void empty_cache();

  /// Bytes taken from the system.
  Bytes reserved() const { return reserved_; }
  /// Requested bytes in use by component; rounding and kept blocks as `allocator_slack`. Sums to reserved().
  Breakdown breakdown() const;

 private:
  struct Entry {
    Bytes requested = 0, size = 0;
    Component component = Component::other;
  };

  PinnedSettings settings_;
  std::vector<Entry> blocks_;
  std::vector<std::uint32_t> unused_;   ///< entries to use again
  std::map<Bytes, std::int64_t> kept_;  ///< freed blocks by size
  Breakdown in_use_;
  Bytes reserved_ = 0;
};

}  // namespace headroom
