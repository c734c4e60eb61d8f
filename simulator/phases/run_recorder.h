#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "simulator/allocator/caching_allocator.h"
#include "simulator/memory/operation.h"
#include "simulator/replay/snapshot_recorder.h"
#include "simulator/tape/core/names.h"

namespace headroom {

/// Records a simulated run as PyTorch records a real one. An allocation's stack is, from the innermost frame:
/// its operation in its module, the modules around that one, and what the bytes are for. Phases are
/// annotations.
class RunRecorder {
 public:
  allocator::Observer& observer() { return recorder_; }

  /// Before each allocation; `modules` are the program's.
  void before_allocation(Label label, const tape::ModuleNames& modules);
  void begin_phase(const std::string& name) { recorder_.begin_phase(name); }
  void end_phase(const std::string& name) { recorder_.end_phase(name); }

  replay::Snapshot finish(const allocator::CachingAllocator& allocator, std::string_view conf) {
    return recorder_.finish(allocator, conf);
  }

 private:
  replay::StackId stack_of(Label label, const std::string& module);

  replay::SnapshotRecorder recorder_;
  std::unordered_map<std::uint64_t, replay::StackId> stacks_;  ///< by label
};

}  // namespace headroom
