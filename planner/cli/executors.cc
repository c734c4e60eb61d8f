#include "planner/cli/executors.h"

#include "simulator/phases/simulate.h"

namespace headroom::cli {

const Executor& simulating_executor() {
  static const Executor executor = headroom::simulating_executor();
  return executor;
}

}  // namespace headroom::cli
