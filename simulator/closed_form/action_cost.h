#pragma once

#include "simulator/memory/component.h"
#include "simulator/time/seconds.h"

namespace headroom::closed_form {

/// What one action of a role does to its process.
struct ActionCost {
  Bytes rise = 0;         ///< highest live bytes during it, beyond those before it
  Bytes active_rise = 0;  ///< the same of live and freed but unavailable bytes (CountingMemory::active)
  Bytes gathered = 0;     ///< of those before it: whole parameters that an earlier pass left
  Bytes buffered = 0;     ///< of those before it: communication buffers that earlier passes left
  Breakdown at_peak;      ///< live at the highest moment, by component
  Breakdown held;         ///< live after it, by component
  Bytes host_rise = 0;    ///< as `rise`, of host memory
  Breakdown host_at_peak, host_held;
  Seconds seconds;
  bool empties_cache = false;
  Bytes cached = 0;  ///< of what it takes after emptying the cache, kept by the allocator
};

}  // namespace headroom::closed_form
