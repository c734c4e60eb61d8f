#include "planner/cli/command.h"

namespace headroom::cli {

std::span<const Command> commands() {
  static const std::vector<Command> table = {};
  return table;
}

}  // namespace headroom::cli
