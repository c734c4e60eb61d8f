#pragma once

#include <cstdint>
#include <vector>

#include "simulator/hardware/hardware.h"
#include "simulator/memory/operation.h"

namespace headroom {

/// Seconds that host memory costs beside what is copied: pages touched for the first time, given back,
/// pinned.
///
/// As glibc's malloc does it: blocks from 32 MiB on (its largest mmap threshold, which a process that frees
/// large blocks soon has) are mapped and unmapped each time; smaller ones come from a heap that keeps what it
/// once had. PyTorch keeps pinned memory likewise.
class HostBlocks {
 public:
  explicit HostBlocks(const HostRates& rates) : rates_(rates) {}

  /// Seconds of getting the block; of a pageable one the touching is paid by `first_touch`.
  double allocate(HostBlock block, Bytes bytes, HostKind kind);
  double free(HostBlock block);
  /// Seconds of writing to the block for the first time; 0 afterwards, and for pinned memory.
  double first_touch(HostBlock block);
  bool pinned(HostBlock block) const;

 private:
  struct Entry {
    Bytes bytes = 0;
    HostKind kind = HostKind::pageable;
    Bytes untouched = 0;
  };
  const Entry* find(HostBlock block) const;

  const HostRates& rates_;
  std::vector<Entry> entries_;
  Bytes heap_ = 0, most_heap_ = 0, pinned_ = 0, most_pinned_ = 0;
};

}  // namespace headroom
