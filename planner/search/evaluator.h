#pragma once

#include <span>
#include <vector>

#include "planner/frameworks/registry.h"
#include "planner/search/search.h"
#include "simulator/device/verdict.h"
#include "simulator/hardware/hardware.h"
#include "simulator/report/executor.h"

namespace headroom::search {

/// A run, where it runs and what it may use.
struct Setup {
  const Framework* framework = nullptr;
  const ReadJob* read = nullptr;
  Hardware hardware;
  Limits limits;
};

/// The judged report of the run with `choices` made.
Result<Report> evaluate(const Setup& setup, std::span<const Choice> choices, const Executor& executor);

/// Outcomes of many points of `space` on as many threads as the machine has cores (at most `threads`; 0:
/// all). References must outlive it.
class Evaluator {
 public:
  Evaluator(const Setup& setup, const Space& space, const Executor& executor, unsigned threads = 0);

  std::vector<Outcome> operator()(std::span<const Point> points) const;

 private:
  Outcome one(const Point& point) const;

  const Setup& setup_;
  const Space& space_;
  const Executor& executor_;
  unsigned threads_;
};

}  // namespace headroom::search
