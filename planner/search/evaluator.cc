#include "planner/search/evaluator.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "models/base/parallel.h"

namespace headroom::search {
namespace {

constexpr std::size_t kWorthAThread = 2;  // points: fewer run on the caller's thread

}  // namespace

Result<Report> evaluate(const Setup& setup, std::span<const Choice> choices, const Executor& executor) {
  HEADROOM_ASSIGN(const Job job, setup.framework->with(*setup.read, choices));
  HEADROOM_TRY(validate_job(job));
  HEADROOM_ASSIGN(Report report, executor(job, setup.hardware));
  judge(report, setup.limits);
  return report;
}

Evaluator::Evaluator(const Setup& setup, const Space& space, const Executor& executor, unsigned threads)
    : setup_(setup), space_(space), executor_(executor) {
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  threads_ = threads == 0 ? cores : std::min(threads, cores);
}

Outcome Evaluator::one(const Point& point) const {
  const Result<Report> report = evaluate(setup_, space_.choices(point), executor_);
  if (report) return outcome_of(*report);
  Outcome refused;
  refused.refusal = report.error().text();
  return refused;
}

std::vector<Outcome> Evaluator::operator()(std::span<const Point> points) const {
  std::vector<Outcome> outcomes(points.size());
  const std::size_t wanted = std::min<std::size_t>(threads_, points.size() / kWorthAThread + 1);
  parallel_for(points.size(), static_cast<unsigned>(wanted),
               [&](std::size_t i) { outcomes[i] = one(points[i]); });
  return outcomes;
}

}  // namespace headroom::search
