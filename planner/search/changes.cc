#include "planner/search/changes.h"

#include <algorithm>
#include <array>

namespace headroom::search {

std::vector<Change> single_changes(const Setup& setup, const Space& space, const Executor& executor) {
  const Point start = space.current();
  std::vector<Point> points = {start};
  for (std::size_t i = 0; i < start.size(); ++i)
    for (std::size_t value = 0; value < space.dimensions[i].values.size(); ++value)
      if (value != start[i]) {
        points.push_back(start);
        points.back()[i] = static_cast<std::uint16_t>(value);
      }
  const std::vector<Outcome> outcomes = Evaluator(setup, space, executor)(points);
  std::vector<Change> changes;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const Outcome& outcome = outcomes[i];
    if (!outcome.valid) continue;
    if (outcome.spare == outcomes[0].spare && outcome.seconds == outcomes[0].seconds) continue;
    Change change;
    change.choice = space.choices(points[i]).back();
    if (Result<std::vector<Setting>> settings =
            setup.framework->settings_of(*setup.read, std::array{change.choice}))
      change.settings = std::move(*settings);
    change.outcome = outcome;
    changes.push_back(std::move(change));
  }
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return better(a.outcome, b.outcome, Objective::time);
  });
  return changes;
}

std::vector<Change> confirmed(const Setup& setup, const std::vector<Change>& changes, std::size_t wanted,
                              const Executor& executor) {
  constexpr std::size_t kTriesAWanted = 3;
  std::vector<Change> fitting, others;
  for (const Change& change : changes) {
    if (fitting.size() == wanted || fitting.size() + others.size() == kTriesAWanted * wanted) break;
    const Result<Report> report = evaluate(setup, std::array{change.choice}, executor);
    if (!report) continue;
    Change& run = (report->fits ? fitting : others).emplace_back(change);
    run.outcome = outcome_of(*report);
  }
  std::vector<Change>& out = fitting.empty() ? others : fitting;
  std::stable_sort(out.begin(), out.end(), [](const Change& a, const Change& b) {
    return better(a.outcome, b.outcome, Objective::time);
  });
  if (out.size() > wanted) out.erase(out.begin() + static_cast<std::ptrdiff_t>(wanted), out.end());
  return std::move(out);
}

}  // namespace headroom::search
