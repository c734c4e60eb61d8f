#pragma once

#include <span>
#include <string>
#include <vector>

#include "planner/frameworks/read_job.h"
#include "planner/frameworks/settings/effects.h"
#include "planner/frameworks/verl/settings.h"

namespace headroom::verl {

/// One row of the table of knobs: which field of the settings it is, which values suit, and which keys say
/// it.
struct KnobRow {
  const char* name;
  const char* summary;
  bool changes_numerics;
  bool (*applies)(const Settings&);
  std::string (*current)(const Settings&);
  std::vector<std::string> (*values)(const Settings&);
  bool (*set)(Settings&, const std::string&);     ///< false: not a value of this knob
  std::vector<Setting> (*keys)(const Settings&);  ///< of the settings after all knobs are set
  Choice needs = {};                ///< matters only when another knob has this value
  settings::Effects effects = {};  ///< on phases
  bool exact_only = false;
};

/// Every knob, in the order in which they are set: what others depend on comes first.
std::span<const KnobRow> knob_table();

}  // namespace headroom::verl
