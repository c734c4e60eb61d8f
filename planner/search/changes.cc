#include "planner/search/changes.h"

#include <algorithm>
#include <map>

namespace headroom::search {
namespace {

constexpr std::size_t kPairedMoves = 14;    // single changes that are paired
constexpr std::size_t kOfAKnob = 2;       // values of one knob
constexpr std::size_t kMissesOfAKnob = 3;  // of its values that the quick run lets fit

void sort_by_cost(std::vector<Change>& changes) {
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return better(a.outcome, b.outcome, Objective::time);
  });
}

/// The changes that lead to `points`, which outcomes tell apart from `now`.
std::vector<Change> changes_to(const Setup& setup, const Space& space, std::span<const Point> points,
                               std::span<const Outcome> outcomes, const Outcome& now) {
  std::vector<Change> changes;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!outcomes[i].valid || (outcomes[i].spare == now.spare && outcomes[i].seconds == now.seconds)) continue;
    Change change{space.choices(points[i]), {}, outcomes[i]};
    if (Result<std::vector<Setting>> settings = setup.framework->settings_of(*setup.read, change.choices))
      change.settings = std::move(*settings);
    changes.push_back(std::move(change));
  }
  sort_by_cost(changes);
  return changes;
}

/// The point of the space that differs from the run in the last of `choices`.
std::pair<std::size_t, std::uint16_t> move_of(const Space& space, const Change& change) {
  const Choice& choice = change.choices.back();
  for (std::size_t i = 0; i < space.dimensions.size(); ++i)
    if (space.dimensions[i].knob.name == choice.knob) {
      const auto& values = space.dimensions[i].values;
      return {i, static_cast<std::uint16_t>(std::find(values.begin(), values.end(), choice.value) - values.begin())};
    }
  return {space.dimensions.size(), 0};
}

}  // namespace

Outcome with_shortfall(Outcome exact, const Outcome& quick) {
  if (exact.breaks && quick.valid && quick.spare < exact.spare) {
    exact.spare = quick.spare;
    exact.peak_device = std::max(exact.peak_device, quick.peak_device);
  }
  return exact;
}

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
  return changes_to(setup, space, std::span(points).subspan(1), std::span(outcomes).subspan(1), outcomes[0]);
}

std::vector<Change> pairs_of(const Setup& setup, const Space& space, const Executor& executor,
                             const std::vector<Change>& singles) {
  std::vector<const Change*> frugal;
  for (const Change& change : singles) frugal.push_back(&change);
  std::stable_sort(frugal.begin(), frugal.end(), [](const Change* a, const Change* b) {
    return a->outcome.breaks != b->outcome.breaks ? b->outcome.breaks : a->outcome.spare > b->outcome.spare;
  });
  std::vector<std::pair<std::size_t, std::uint16_t>> moves;
  std::map<std::size_t, std::size_t> of_knob;
  for (const Change* change : frugal) {
    const auto move = move_of(space, *change);
    if (move.first == space.dimensions.size() || moves.size() == kPairedMoves) break;
    if (of_knob[move.first]++ < kOfAKnob) moves.push_back(move);
  }
  std::vector<Point> points;
  for (std::size_t a = 0; a < moves.size(); ++a)
    for (std::size_t b = a + 1; b < moves.size(); ++b) {
      if (moves[a].first == moves[b].first) continue;
      points.push_back(space.current());
      points.back()[moves[a].first] = moves[a].second;
      points.back()[moves[b].first] = moves[b].second;
    }
  return changes_to(setup, space, points, Evaluator(setup, space, executor)(points), Outcome{});
}

std::vector<Change> confirmed(const Setup& setup, const std::vector<Change>& changes, std::size_t wanted,
                              const Executor& executor) {
  constexpr std::size_t kTriesAWanted = 3;
  std::vector<Change> fitting, others;
  struct Values {
    std::size_t fit = 0, missed = 0;
    Bytes more = 0;  ///< taken by the exact run of one that missed
  };
  std::map<std::string, Values> of_knob;
  for (const Change& change : changes) {
    if (fitting.size() == wanted || fitting.size() + others.size() == kTriesAWanted * wanted) break;
    // By the quick run, which never says more: those that follow miss by more.
    if (!change.outcome.fits && fitting.size() + others.size() >= wanted) break;
    // More values of one knob tell little: the first is the cheapest. Where it misses, the next that may fit is tried.
    Values* values = change.choices.size() == 1 ? &of_knob[change.choices.front().knob] : nullptr;
    if (values != nullptr) {
      const std::size_t most = change.outcome.fits ? kMissesOfAKnob : kOfAKnob;
      if (values->fit >= kOfAKnob || values->fit + values->missed >= kOfAKnob + most || values->missed >= most) continue;
      if (change.outcome.fits && change.outcome.spare < values->more) continue;
    }
    const Result<Report> report = evaluate(setup, change.choices, executor);
    if (!report) continue;
    Change& run = (report->fits ? fitting : others).emplace_back(change);
    run.outcome = with_shortfall(outcome_of(*report), change.outcome);
    if (values == nullptr) continue;
    ++(report->fits ? values->fit : values->missed);
    if (!report->fits && !run.outcome.breaks)
      values->more = std::max<Bytes>(values->more, change.outcome.spare - run.outcome.spare);
  }
  std::vector<Change>& out = fitting.empty() ? others : fitting;
  sort_by_cost(out);
  if (out.size() > wanted) out.erase(out.begin() + static_cast<std::ptrdiff_t>(wanted), out.end());
  return std::move(out);
}

}  // namespace headroom::search
