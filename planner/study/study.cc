#include "planner/study/study.h"

#include <algorithm>
#include <array>

namespace headroom::study {
namespace {

bool is_run(const StudyJob& job, const Strategy& strategy) {
  return job.strategies.empty() ||
         std::find(job.strategies.begin(), job.strategies.end(), strategy.name) != job.strategies.end();
}

}  // namespace

std::vector<Place> places(const Study& study) {
  std::vector<Place> out;
  for (std::size_t j = 0; j < study.jobs.size(); ++j)
    for (std::size_t s = 0; s < study.strategies.size(); ++s) {
      if (!is_run(study.jobs[j], study.strategies[s])) continue;
      const auto& when = study.jobs[j].empty_cache.empty() ? study.empty_cache : study.jobs[j].empty_cache;
      for (const Emptying empty_cache : when) out.push_back({j, s, empty_cache});
    }
  return out;
}

std::string_view name(Cell::Status status) {
  constexpr std::array<std::string_view, 3> kNames = {"done", "out_of_memory", "failed"};
  return kNames[static_cast<std::size_t>(status)];
}

const Cell* never_emptied(const Results& results, const Cell& cell) {
  for (const Cell& other : results.cells)
    if (other.job == cell.job && other.strategy == cell.strategy && other.empty_cache == Emptying::never)
      return other.status == Cell::Status::done ? &other : nullptr;
  return nullptr;
}

std::optional<double> seconds_lost(const Results& results, const Cell& cell) {
  const Cell* never = never_emptied(results, cell);
  if (never == nullptr || cell.status != Cell::Status::done || never->seconds <= 0) return std::nullopt;
  return cell.seconds - never->seconds;
}

std::optional<double> saved(const Results& results, const Cell& cell) {
  const Cell* never = never_emptied(results, cell);
  if (never == nullptr || cell.status != Cell::Status::done || never->reserved.bytes <= 0) return std::nullopt;
  return 1 - static_cast<double>(cell.reserved.bytes) / static_cast<double>(never->reserved.bytes);
}

}  // namespace headroom::study
