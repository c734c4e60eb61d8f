#pragma once

#include <string>
#include <vector>

#include "models/base/bytes.h"
#include "simulator/report/report.h"

namespace headroom::search {

/// A kind of phase, of all its steps and devices.
struct PhaseOutcome {
  std::string phase;
  Bytes spare = 0;     ///< the least of budget − peak − margin, on the most loaded GPU
  Bytes idle = 0;  ///< the most of what it takes there that it may have found cached and not needed
  double seconds = 0;  ///< in the last step run, on the first device that has it
  Bytes host = 0;      ///< peak of a node's host memory
  bool runs_out = false;  ///< a process does not get through it
  bool grew = false;      ///< a process took more than it had found cached
};

/// What decides between configurations.
struct Outcome {
  bool valid = false;   ///< the framework takes the combination and the executor ran it
  std::string refusal;  ///< why not
  bool fits = false;
  bool breaks = false;    ///< a process runs out of memory: what would come after it is unknown
  Bytes peak_device = 0;  ///< of the limiting phase
  Bytes peak_host = 0;
  Bytes budget = 0;  ///< of the limiting phase's GPU
  Bytes spare = 0;   ///< least budget − peak − margin; negative: short by that much
  Bytes device_spare = 0;   ///< the same of device memory alone
  bool host_short = false;  ///< a node's host memory passes its budget
  std::string limiting_phase;
  /// Of a step once optimizer states exist (the last step run); 0 where the run breaks before.
  double seconds = 0;
  std::vector<PhaseOutcome> phases;  ///< in order of first appearance
};

/// From a judged report. `spare` also covers a process that runs out of memory without passing the budget (an
/// engine that does not start): it is then −1 at most.
Outcome outcome_of(const Report& report);

/// What a search prefers.
enum class Objective {
  time,    ///< the fastest step that fits
  memory,  ///< the most memory to spare, then the fastest
};

/// Strictly better: fitting before not fitting, then the objective, then the other. Configurations that do
/// not fit compare by how much is missing; those that break come last.
bool better(const Outcome& a, const Outcome& b, Objective objective);

}  // namespace headroom::search
