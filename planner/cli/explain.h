#pragma once

#include "planner/cli/command.h"
#include "simulator/report/executor.h"

namespace headroom::cli {

Command explain_command();

/// `headroom explain CONFIG`: what peaks and why; the cheapest single changes that make it fit (or that use
/// the room left), found by `fast` and confirmed by `executor`. `--keys`: what became of each key of the configuration.
int explain(const Arguments& arguments, Streams& streams);
/// `looking` runs the configuration itself.
int explain(const Arguments& arguments, Streams& streams, const Executor& fast, const Executor& executor,
            const Executor& looking);

}  // namespace headroom::cli
