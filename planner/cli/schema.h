#pragma once

#include "planner/cli/command.h"

namespace headroom::cli {

/// `headroom schema`: prints the JSON Schema of Headroom's own job file, for editors and validators.
Command schema_command();
int schema(const Arguments& arguments, Streams& streams);

}  // namespace headroom::cli
