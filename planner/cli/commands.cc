#include "planner/cli/calibrate.h"
#include "planner/cli/command.h"
#include "planner/cli/compare.h"
#include "planner/cli/gpus.h"
#include "planner/cli/replay.h"
#include "planner/cli/simulate.h"

namespace headroom::cli {

std::span<const Command> commands() {
  static const std::vector<Command> table = {calibrate_command(), replay_command(), simulate_command(),
                                             compare_command(), gpus_command()};
  return table;
}

}  // namespace headroom::cli
