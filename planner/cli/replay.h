#pragma once

#include "planner/cli/command.h"

namespace headroom::cli {

/// `headroom replay FILE`.
Command replay_command();

/// With `--verify` or `--predict`: replays recordings of PyTorch's allocator, prints the first difference of
/// each case that does not match and, last, `cases N matched M`. kDisagrees when any does not match.
/// Without them: see replay_snapshot.
int replay(const Arguments& arguments, Streams& streams);

}  // namespace headroom::cli
