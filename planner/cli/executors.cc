#include "planner/cli/executors.h"

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "simulator/closed_form/folded_trainer.h"
#include "simulator/closed_form/recalled_trainer.h"
#include "simulator/phases/device_run.h"

namespace headroom::cli {
namespace {

/// Books by kind of GPU.
class Shelf {
 public:
  std::shared_ptr<closed_form::CostBook> book(const Hardware& hardware) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<closed_form::CostBook>& known = books_[hardware.name];
    if (!known) known = std::make_shared<closed_form::CostBook>(hardware);
    return known;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<closed_form::CostBook>> books_;
};

}  // namespace

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
  return planning_executors().quick;
}

Executor without_seconds(Executor executor) {
  return [executor = std::move(executor)](const Job& job, const Hardware& hardware) {
    Hardware rateless = hardware;
    rateless.memory_bandwidth = 0;
    return executor(job, rateless);
  };
}

search::Executors planning_executors() {
  const auto shelf = std::make_shared<Shelf>();
  search::Executors out;
  out.quick = [shelf](const Job& job, const Hardware& hardware) {
    if (!closed_form::recalls(job)) return closed_form::estimate(job, hardware);
    return run_on_device(job, hardware, closed_form::recalled(shelf->book(hardware)), "closed_form");
  };
  out.exact = simulating_executor();
  out.own = [shelf](std::span<const std::string> phases) -> Executor {
    return [shelf, phases = std::vector(phases.begin(), phases.end())](const Job& job, const Hardware& hardware) {
      return run_on_device(job, hardware, closed_form::recalled_phases(shelf->book(hardware), phases), "closed_form",
                           true);
    };
  };
  return out;
}

}  // namespace headroom::cli
