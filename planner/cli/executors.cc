#include "planner/cli/executors.h"

#include <map>
#include <memory>
#include <mutex>

#include "simulator/closed_form/folded_trainer.h"
#include "simulator/closed_form/recalled_trainer.h"
#include "simulator/phases/device_run.h"

namespace headroom::cli {

const Executor& closed_form_executor() {
  static const Executor executor = closed_form::estimate;
  return executor;
}

const Executor& simulating_executor() {
  static const Executor executor = [](const Job& job, const Hardware& hardware) {
    return run_on_device(job, hardware, Fidelity::every_allocation);
  };
  return executor;
}

Executor searching_executor() {
  struct Shelf {
    std::mutex mutex;
    std::map<std::string, MakeTrainer> trainers;  ///< by kind of GPU
  };
  return [shelf = std::make_shared<Shelf>()](const Job& job, const Hardware& hardware) {
    if (!closed_form::recalls(job)) return closed_form::estimate(job, hardware);
    const MakeTrainer* trainer = nullptr;
    {
      const std::lock_guard lock(shelf->mutex);
      MakeTrainer& known = shelf->trainers[hardware.name];
      if (!known) known = closed_form::recalled(std::make_shared<closed_form::CostBook>(hardware));
      trainer = &known;
    }
    return run_on_device(job, hardware, *trainer, "closed_form");
  };
}

}  // namespace headroom::cli
