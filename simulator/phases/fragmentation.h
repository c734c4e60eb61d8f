#pragma once

#include <cstdint>
#include <map>
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

/// Looks on at a process's allocator, in two runs of the same program: the first finds each phase's peak; the
/// second walks there the free blocks inside segments and tells whose they are.
class FragmentationRecorder final : public allocator::Observer, public MemoryWatcher {
 public:
  /// A run begins anew: what was recorded of it before is gone. `memory` outlives its program's last call.
  void attach(SimulatedMemory& memory);
  /// The next run is the second one.
  void look_again() { moments_ = std::exchange(found_, {}); }
  void begin_phase(const std::string& name, int step);
  void end_phase();
  std::vector<PhaseFragmentation> take() { return std::move(phases_); }

  void allocating(Label label) override { label_ = label; }
  void changed() override;
  void segment_alloc(allocator::Address address, Bytes size, allocator::Stream) override { got(address, size); }
  void segment_map(allocator::Address address, Bytes size, allocator::Stream) override { got(address, size); }
  void segment_free(allocator::Address address, Bytes size, allocator::Stream) override { gave(address, size); }
  void segment_unmap(allocator::Address address, Bytes size, allocator::Stream) override { gave(address, size); }

 private:
  /// A piece of memory as it came from the driver.
  struct Piece {
    Bytes size = 0;
    std::size_t phase = 0;  ///< index in names_
    Label label;
  };
  /// What free bytes are told apart by: phase, label and who pins them.
  struct Key {
    std::size_t phase;
    Component component;
    std::uint16_t operation;
    Component kept_by;
    auto operator<=>(const Key&) const = default;
  };

  void got(allocator::Address address, Bytes size);
  void gave(allocator::Address address, Bytes size);
  void see();
  void point();
  void look();
  void add_free(allocator::Address address, Bytes size, Component kept_by, std::map<Key, Bytes>& parts) const;
  void add_segment(const allocator::SegmentView& segment, std::map<Key, Bytes>& parts) const;

  SimulatedMemory* memory_ = nullptr;
  Label label_;
  std::map<allocator::Address, Piece> pieces_;
  std::vector<std::pair<int, std::string>> names_;  ///< step and name of every phase so far
  std::vector<PhaseFragmentation> phases_;
  std::map<Key, Bytes> parts_;  ///< at the running phase's peak
  bool running_ = false;
  MemoryPoint high_;  ///< since the last point
  std::size_t events_ = 0, stretch_ = 1;
  std::vector<std::size_t> found_;    ///< of each phase, the event of its peak; 0: as it begins
  std::vector<std::size_t> moments_;  ///< the first run's; empty in that one
};

}  // namespace headroom
