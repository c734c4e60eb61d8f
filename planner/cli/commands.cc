#include "planner/cli/command.h"
#include "planner/cli/replay.h"

namespace headroom::cli {

std::span<const Command> commands() {
  static const std::vector<Command> table = {replay_command()};
  return table;
}

}  // namespace headroom::cli
