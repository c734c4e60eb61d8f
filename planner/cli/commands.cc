#include "planner/cli/calibrate.h"
#include "planner/cli/check.h"
#include "planner/cli/command.h"
#include "planner/cli/compare.h"
#include "planner/cli/completion.h"
#include "planner/cli/estimate.h"
#include "planner/cli/explain.h"
#include "planner/cli/gpus.h"
#include "planner/cli/models.h"
#include "planner/cli/plan.h"
#include "planner/cli/replay.h"
#include "planner/cli/schema.h"
#include "planner/cli/simulate.h"
#include "planner/cli/solve.h"
#include "planner/cli/study.h"
#include "planner/cli/validate.h"

namespace headroom::cli {

std::span<const Command> commands() {
  static const std::vector<Command> table = {
      estimate_command(), simulate_command(), plan_command(),   solve_command(),    explain_command(),
      check_command(),    study_command(),    compare_command(),  replay_command(), validate_command(), calibrate_command(),
      models_command(),   gpus_command(),     schema_command(),   completion_command(),
  };
  return table;
}

}  // namespace headroom::cli
