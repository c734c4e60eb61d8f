#pragma once

#include <optional>
#include <vector>

#include "models/base/bytes.h"
#include "simulator/allocator/host_memory.h"
#include "simulator/allocator/pinned_host_allocator.h"
#include "simulator/memory/component.h"
#include "simulator/memory/operation.h"

namespace headroom {

/// The part of the allocator settings that decides about pinned memory.
struct PinnedSettings {
  std::optional<Bytes>
      largest_rounded;  ///< pinned_max_round_threshold_mb: larger requests are taken as they are
  std::optional<Bytes> largest_kept;  ///< pinned_max_cached_size_mb: larger blocks go back when freed
};

/// One process's pinned host memory by component: PinnedHostAllocator with labels.
class PinnedAllocator {
 public:
  explicit PinnedAllocator(const PinnedSettings& settings = {});
  PinnedAllocator(const PinnedAllocator&) = delete;
  PinnedAllocator& operator=(const PinnedAllocator&) = delete;

  /// A block of at least `requested` bytes; zero bytes give kNoHostBlock.
  HostBlock allocate(Bytes requested, Component component);
  /// kNoHostBlock is ignored.
  void free(HostBlock block);
  /// Kept blocks go back to the system.
  void empty_cache();

  /// Bytes taken from the system.
  Bytes reserved() const { return allocator_.held(); }
  /// Requested bytes in use by component; rounding and kept blocks as `allocator_slack`. Sums to reserved().
  Breakdown breakdown() const;

 private:
  struct Entry {
    Bytes requested = 0;
    Component component = Component::other;
  };

  allocator::VirtualHost host_;
  allocator::Events events_;  ///< copies are done when their block is freed
  allocator::PinnedHostAllocator allocator_;
  std::vector<Entry> entries_;  ///< by block
  Breakdown in_use_;
};

}  // namespace headroom
