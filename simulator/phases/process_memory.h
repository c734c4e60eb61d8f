#pragma once

#include <memory>
#include <optional>
#include <string>

#include "simulator/hardware/hardware.h"
#include "simulator/memory/memory.h"
#include "simulator/phases/device_run.h"

namespace headroom {

/// A trainer's memory as a run sees it: one of the executors' Memories, with its peaks piece by piece.
class ProcessMemory {
 public:
  virtual ~ProcessMemory() = default;
  virtual Memory& memory() = 0;

  struct State {
    Breakdown allocated;
    Bytes reserved = 0;
    Breakdown host;
  };
  struct Piece {
    State peak;  ///< allocated at its peak; the highest reserved and host values
    Bytes peak_active = 0;
  };
  virtual State now() const = 0;
  /// Peaks since the last call.
  virtual Piece take_piece() = 0;
  virtual void set_expandable(bool on) = 0;
  virtual std::optional<std::string> out_of_memory() const = 0;
  virtual std::int64_t allocations() const = 0;
  virtual std::int64_t segments() const { return 0; }
  virtual std::int64_t retries() const { return 0; }
  virtual Bytes inactive_split() const { return 0; }
};

/// `limit`: bytes that the allocator may take from the device.
Result<std::unique_ptr<ProcessMemory>> make_process_memory(Fidelity fidelity, const std::string& settings,
                                                           Bytes limit);

}  // namespace headroom
