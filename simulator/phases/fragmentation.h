#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "simulator/allocator/caching_allocator.h"
#include "simulator/allocator/observer.h"
#include "simulator/memory/memory_watcher.h"
#include "simulator/memory/simulated_memory.h"

namespace headroom {

/// Memory that a process holds free at a peak: who made it be got from the driver, and what keeps it.
struct FreePart {
  int step = 0;  ///< in which it was got; init is -1
  std::string phase;
  Component component = Component::other;  ///< what it was got for
  std::string operation;                   ///< whose tensor that was, as the program names it
  /// Live blocks of the same segment are mostly of this component; `allocator_slack`: none is there, so that
  /// emptying the cache would have given the memory back.
  Component kept_by = Component::allocator_slack;
  Bytes bytes = 0;
  bool kept() const { return kept_by != Component::allocator_slack; }
};

/// Allocated and reserved bytes along a phase; of equally many allocations and frees the highest of each.
struct MemoryPoint {
  Bytes allocated = 0, reserved = 0;
};

/// One reported phase of one training process. All at its peak: where most is reserved, and while that is so most
/// is allocated; the first such moment.
struct PhaseFragmentation {
  int step = 0;
  std::string phase;
  Bytes reserved = 0, allocated = 0;
  std::vector<FreePart> parts;  ///< largest first; they sum to reserved - allocated
  std::vector<MemoryPoint> points;
  std::int64_t gets = 0, returns = 0;  ///< calls of the driver (cudaMalloc and cudaFree) since the phase before ended
  Bytes free() const { return reserved - allocated; }
  Bytes kept() const;  ///< of the free bytes, those that emptying the cache would not give back
};

struct ProcessFragmentation {
  std::string process;
  std::int64_t device = 0;  ///< index of the GPU in its pool, of those alike the first
  std::vector<PhaseFragmentation> phases;
};

/// The phase with the highest reserved value, the first of equals; null when there is none.
const PhaseFragmentation* peak_of(const std::vector<PhaseFragmentation>& phases);

/// Looks on at a process's allocator. A phase's peak is known when the phase ends: what has changed since the highest
/// moment so far is kept, and taken back then, so that the free blocks of that moment can be told apart.
class FragmentationRecorder final : public allocator::Observer, public MemoryWatcher {
 public:
  /// A run begins anew: what was recorded of it before is gone. `memory` outlives its program's last call.
  void attach(SimulatedMemory& memory);
  void begin_phase(const std::string& name, int step);
  void end_phase();
  std::vector<PhaseFragmentation> take() { return std::move(phases_); }

  void allocating(Label label) override { label_ = label; }
  void relabelling(allocator::BlockId block) override;
  void changed() override;
  void alloc(allocator::BlockId, allocator::Address address, Bytes, allocator::Stream) override;
  void free_requested(allocator::BlockId block, allocator::Address address, Bytes, allocator::Stream) override;
  void free_completed(allocator::BlockId block, allocator::Address address, Bytes, allocator::Stream) override;
  void segment_alloc(allocator::Address address, Bytes size, allocator::Stream) override { got(address, size, false); }
  void segment_map(allocator::Address address, Bytes size, allocator::Stream) override { got(address, size, true); }
  void segment_free(allocator::Address address, Bytes size, allocator::Stream) override { gave(address, size); }
  void segment_unmap(allocator::Address address, Bytes size, allocator::Stream) override { gave(address, size); }

 private:
  using Address = allocator::Address;
  /// A piece of memory as it came from the driver. Mapped ones that touch are one run of blocks.
  struct Piece {
    Bytes size = 0;
    std::size_t phase = 0;  ///< index in names_
    Label label;
    bool mapped = false;
  };
  using Pieces = std::map<Address, Piece>;
  /// A block that is not free. `waiting`: freed, while other streams may still use it.
  struct Used {
    Bytes size = 0;
    Component component = Component::other;
    bool waiting = false;
  };
  /// What was at an address before it changed: nothing, or this.
  struct Before {
    Address address = 0;
    bool there = false;
    Used used;
  };
  struct PieceBefore {
    Address address = 0;
    std::optional<Piece> piece;
  };
  /// What free bytes are told apart by: phase, label and who pins them.
  struct Key {
    std::size_t phase;
    Component component;
    std::uint16_t operation;
    Component kept_by;
    auto operator<=>(const Key&) const = default;
  };
  using Parts = std::map<Key, Bytes>;

  void got(Address address, Bytes size, bool mapped);
  void gave(Address address, Bytes size);
  void set_piece(Address address, std::optional<Piece> piece);
  void note(Address address, bool there, const Used& used);
  void see();
  void point();
  Pieces pieces_at_peak() const;
  std::map<Address, Used> used_at_peak() const;
  Parts look() const;
  static void add_free(const Pieces& pieces, Address address, Address end, Component kept_by, Parts& parts);

  SimulatedMemory* memory_ = nullptr;
  Label label_;
  Pieces pieces_;
  std::vector<std::pair<int, std::string>> names_;  ///< step and name of every phase so far
  std::vector<PhaseFragmentation> phases_;
  bool running_ = false;
  MemoryPoint high_;  ///< since the last point
  std::size_t events_ = 0, stretch_ = 1;
  std::int64_t gets_ = 0, returns_ = 0;  ///< of the driver until the last phase's end
  // Since the running phase's highest moment so far, in order.
  std::vector<Before> blocks_before_;
  std::vector<PieceBefore> pieces_before_;
};

}  // namespace headroom
