#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "models/base/bytes.h"
#include "simulator/memory/component.h"

namespace headroom {

/// The memory of one device (or of one node's host) that several processes share, over time.
///
/// Actions run one after another: while one process acts, the others keep what they hold. So the peak is the
/// highest sum at one moment, not the sum of peaks. Where processes really run at the same time, `overlap`
/// bounds the sum from above.
class Occupancy {
 public:
  /// A process that holds nothing yet; returns its index.
  std::size_t add(std::string name);

  /// What the process holds from now on.
  void hold(std::size_t process, const Breakdown& bytes);

  /// A passing moment: the process reaches `bytes` while all others hold what they hold. What it holds
  /// afterwards is not changed.
  void reach(std::size_t process, const Breakdown& bytes);

  /// Several processes may be at their peaks at once: `peaks[i]` is process i's.
  void overlap(const std::vector<Breakdown>& peaks);

  /// What all hold now.
  Breakdown now() const;
  const Breakdown& held(std::size_t process) const { return held_[process]; }
  const std::string& name(std::size_t process) const { return names_[process]; }

  struct Peak {
    Breakdown bytes;       ///< at the first moment of the highest total
    bool bounded = false;  ///< comes from `overlap`
  };
  /// The peak since the last call (or since the start), counting what is held at both ends; begins anew.
  Peak take_peak();

 private:
  void consider(const Breakdown& total, bool bounded);

  std::vector<std::string> names_;
  std::vector<Breakdown> held_;
  Peak peak_;
};

}  // namespace headroom
