#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "simulator/job/step.h"
#include "simulator/report/report.h"

namespace headroom {

/// Of the row's peaks: (reserved − allocated) / reserved; 0 where nothing was reserved.
double fragmentation(const ProcessPhase& row);

/// A device's rows as its phases end. Pieces of one name in a step become one row: the higher peaks, the
/// first's beginning, the last's end. A phase `within` a later row passes on to it what it did, with what lay
/// within itself; seconds stay with the innermost row that is shown.
class PhaseRows {
 public:
  /// What `phase` did. Returns the row that shows it, valid until the next call; null: it is not to be
  /// `shown` by itself.
  PhaseReport* add(const PhaseSpec& phase, PhaseReport row, bool shown);
  std::vector<PhaseReport> take() { return std::move(rows_); }

 private:
  std::vector<PhaseReport> rows_;
  std::map<std::pair<int, std::string>, PhaseReport> covered_;  ///< by step and name of the later row
};

}  // namespace headroom
