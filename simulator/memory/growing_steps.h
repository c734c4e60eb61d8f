#pragma once

#include <cstdint>

#include "simulator/memory/repetition.h"

namespace headroom {

/// A Repetition of a Memory that may have no places, only sums. Of steps in which every block is at least as
/// large as in the step before, the last then has every peak, and a step may stand for its neighbours: the
/// program executes some and makes what it keeps as large as those in between would leave it.
class GrowingSteps : public Repetition {
 public:
  virtual bool only_sums() const = 0;
  /// From now on every allocation and every second counts `times`. Live bytes and peaks are as they are.
  virtual void stand_for(std::int64_t times) = 0;
};

}  // namespace headroom
