#include "planner/cli/executors.h"

#include "simulator/phases/device_run.h"

namespace headroom::cli {

const Executor& closed_form_executor() {
  static const Executor executor = [](const Job& job, const Hardware& hardware) {
    return run_on_device(job, hardware, Fidelity::live_bytes);
  };
  return executor;
}

const Executor& simulating_executor() {
  static const Executor executor = [](const Job& job, const Hardware& hardware) {
    return run_on_device(job, hardware, Fidelity::every_allocation);
  };
  return executor;
}

}  // namespace headroom::cli
