#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/search/changes.h"
#include "planner/search/techniques.h"

namespace headroom::search {

/// Something that no knob is and that would make a run fit.
struct Would {
  std::string what;   ///< in words
  std::string name, value;  ///< `gpus` and 16, `gpu` and H200, `lora_rank` and 64
  Outcome outcome;
};

/// What is known of a run beside its report.
struct Explanation {
  Outcome now;                   ///< of the report
  std::optional<Outcome> quick;  ///< of the run by a sum of live bytes, where it stops: what it needs at least
  std::vector<Change> singles;   ///< that fit; where none does, those that come closest
  std::vector<Change> pairs;     ///< that fit, where no single change does
  std::vector<Technique> techniques;
  std::optional<Outcome> together;  ///< all techniques that keep the training's numbers at once, where nothing above fits
  std::vector<Would> would;         ///< where nothing above fits

  bool nothing_fits() const {
    return !now.fits && pairs.empty() && (singles.empty() || !singles.front().outcome.fits);
  }
};

}  // namespace headroom::search
