#include "planner/search/evaluator.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace headroom::search {
namespace {

constexpr std::size_t kWorthAThread = 8;  // points: fewer run on the caller's thread

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
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < points.size(); i = next++) outcomes[i] = one(points[i]);
  };
  std::vector<std::jthread> helpers;
  const std::size_t wanted = std::min<std::size_t>(threads_, points.size() / kWorthAThread + 1);
  for (std::size_t i = 1; i < wanted; ++i) helpers.emplace_back(work);
  work();
  helpers.clear();  // joins
  return outcomes;
}

}  // namespace headroom::search
