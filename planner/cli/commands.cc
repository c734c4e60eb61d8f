#include "planner/cli/calibrate.h"
#include "planner/cli/command.h"
#include "planner/cli/gpus.h"
#include "planner/cli/replay.h"

namespace headroom::cli {

std::span<const Command> commands() {
  static const std::vector<Command> table = {calibrate_command(), replay_command(), gpus_command()};
  return table;
}

}  // namespace headroom::cli
