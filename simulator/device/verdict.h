#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/base/bytes.h"
#include "simulator/device/margin.h"
#include "simulator/report/report.h"

namespace headroom {

/// What a run may use.
struct Limits {
  Bytes card = 0;                                    ///< device memory as the driver reports it
  Bytes budget = 0;                                  ///< a GPU
  std::vector<std::pair<std::string, Bytes>> pools;  ///< budgets of single pools, by name
  Bytes host_budget = 0;                             ///< a node; 0: unchecked
  std::optional<Bytes> margin;                       ///< instead of the table's
};

/// Sets margins, budgets and the verdict of a report whose peaks are known. A run fits when in every phase of
/// every device peak plus margin is at most the budget, no process runs out of memory, and a node's host
/// memory stays within its budget. Adds the warnings `thin-margin` (less than 1 % of the budget to spare) and
/// `host-unchecked`.
void judge(Report& report, const Limits& limits, const Margins& margins = Margins::builtin());

/// A judged run of which `not_modelled` is missing from the prediction is undetermined: `fits` becomes false, and
/// a warning `undetermined` names each. So is one that does not fit: what is missing (another training backend,
/// weights in 4 bits) may need less.
void leave_undetermined(Report& report, const std::vector<std::string>& not_modelled);

/// Nobody knows whether the run fits, because of `why`.
void leave_open(Report& report, std::string why);

/// Whether a process runs out of memory in `phase`: what would come after it is unknown.
bool runs_out(const PhaseReport& phase);

/// Why nobody knows whether the run fits; empty: the verdict is known.
std::vector<std::string> undetermined(const Report& report);

/// The warning of a run that fits because its allocators give cached memory back when the card is full: its phases
/// reach the card's end, and what is in use says how far it is from failing.
inline constexpr const char* kGivesBack = "gives-cache-back";
bool gives_cache_back(const Report& report);

/// The warning that tells what became of steps with drawn lengths; of a run that does not fit for them, why.
inline constexpr const char* kRisk = "risk";

/// The warning of a run of which nobody knows whether it fits.
inline constexpr const char* kUndetermined = "undetermined";

/// The budget of `device`'s pool.
Bytes budget_of(const DeviceReport& device, const Limits& limits);

}  // namespace headroom
