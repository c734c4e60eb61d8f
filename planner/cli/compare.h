#pragma once

#include "planner/cli/command.h"

namespace headroom::cli {

/// `headroom compare CONFIG MEASURED`: a prediction against a recorded run, phase by phase, with signed
/// errors; exit 4 when they disagree. `--corpus DIR` compares every recording below DIR with the prediction
/// for its own case.
Command compare_command();
int compare(const Arguments& arguments, Streams& streams);

}  // namespace headroom::cli
