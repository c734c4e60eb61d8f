#pragma once

#include "planner/cli/command.h"
#include "planner/search/plan.h"

namespace headroom::cli {

Command plan_command();

/// `headroom plan CONFIG --budget …`: the best configurations that fit, and the winner in the framework's
/// schema. Exit code 3 when none fits; nothing is written then.
int plan(const Arguments& arguments, Streams& streams);
int plan(const Arguments& arguments, Streams& streams, const search::Executors& executors);

}  // namespace headroom::cli
