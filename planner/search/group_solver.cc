#include "planner/search/group_solver.h"

#include <algorithm>
#include <limits>

namespace headroom::search {
namespace {

using State = GroupOutcome::State;

std::uint16_t end_of(End end, std::uint16_t low, std::uint16_t high) {
  return end == End::first ? low : high;
}

}  // namespace

GroupSolver::GroupSolver(const Space& space, GroupTables& tables, std::int64_t most_runs)
    : space_(space), tables_(tables), most_runs_(most_runs), known_(tables.groups()), influence_(tables.groups()) {}

/// The box with nothing open that does not touch the group.
Box GroupSolver::narrow(std::size_t g, const Box& box) const {
  const Point current = space_.current();
  Box out = box;
  for (std::size_t i = 0; i < box.low.size(); ++i)
    if (!tables_.group(g).effects[i].any() || tables_.inert(i, box.low, box.high))
      out.low[i] = out.high[i] = current[i];
  return out;
}

const GroupBest& GroupSolver::solve(std::size_t g, const Box& box, const Blamed& blamed, double enough) {
  const Box mine = narrow(g, box);
  blamed_ = tables_.about(g, blamed);
  const auto [entry, fresh] = known_[g].try_emplace({mine, blamed_});
  Progress& known = entry->second;
  // What was found before a shortage was known still holds when it is no shortage itself.
  if (!fresh && known.at && known.shortages != tables_.shortages(g) && is_short(g, *known.at)) {
    const double seconds = known.best.seconds;
    known = {};
    push(known, mine, seconds);
  } else if (fresh) {
    push(known, mine, 0);
  }
  if (!known.best.decided && known.best.seconds <= enough) search(g, known, enough);
  known.shortages = tables_.shortages(g);
  return known.best;
}

/// Of a dimension that only shifts what the group holds, what is left with each of its values: at the run's own
/// configuration; where a value does not run there, as far from another as it is one dimension away.
std::vector<Bytes> GroupSolver::shifts(std::size_t g, std::size_t dimension) {
  constexpr Bytes kUnknown = std::numeric_limits<Bytes>::min();
  const std::size_t values = space_.dimensions[dimension].values.size();
  const auto left = [&](Point point, std::size_t value) {
    point[dimension] = static_cast<std::uint16_t>(value);
    const GroupOutcome& outcome = tables_.at(g, point);
    return outcome.state == State::ran ? outcome.spare : kUnknown;
  };
  const Point current = space_.current();
  std::vector<Bytes> out;
  for (std::size_t value = 0; value < values; ++value) out.push_back(left(current, value));
  const auto look = [&](std::size_t value, const Point& place) {
    const Bytes here = left(place, value);
    if (here == kUnknown) return;
    bool any = false;
    for (std::size_t other = 0; other < values && out[value] == kUnknown; ++other) {
      if (out[other] == kUnknown) continue;
      any = true;
      if (const Bytes beside = left(place, other); beside != kUnknown) out[value] = out[other] + here - beside;
    }
    if (!any) out[value] = here;
  };
  for (std::size_t value = 0; value < values; ++value)
    for (std::size_t i = 0; i < current.size() && out[value] == kUnknown; ++i) {
      if (i == dimension || !tables_.group(g).effects[i].any()) continue;
      Point place = current;
      for (place[i] = 0; place[i] < space_.dimensions[i].values.size() && out[value] == kUnknown; ++place[i])
        if (place[i] != current[i]) look(value, place);
    }
  return out;
}

/// Of such a dimension the value of the box with which most is left: the same one whatever runs.
std::uint16_t GroupSolver::lightest(std::size_t g, std::size_t dimension, const Box& box) {
  const auto [at, fresh] = spare_.try_emplace({g, dimension});
  if (fresh) at->second = shifts(g, dimension);
  std::uint16_t best = box.low[dimension];
  for (std::uint16_t value = best; value <= box.high[dimension]; ++value)
    if (at->second[value] > at->second[best]) best = value;
  return best;
}

/// Flags stand behind their other value.
bool GroupSolver::flag_may_be_on(const Box& box, std::optional<std::size_t> flag) const {
  return flag && space_.dimensions[*flag].values[box.high[*flag]] == "true";
}

GroupSolver::Corners GroupSolver::corners(std::size_t g, const Box& box) {
  Corners out{box.low, box.low, 0, 0, {}, {}, {}, {}};
  Point at_end = box.low;
  bool spares = false;
  for (std::size_t i = 0; i < box.low.size(); ++i) {
    const DimensionEffect& effect = tables_.group(g).effects[i];
    if (!box.open(i)) continue;
    const bool only_shifts = effect.memory && !effect.seconds && effect.frugal == End::none;
    const bool no_end = effect.frugal == End::none || flag_may_be_on(box, effect.memory_unless);
    const std::uint16_t frugal =
        only_shifts ? lightest(g, i, box) : end_of(effect.frugal, box.low[i], box.high[i]);
    if (effect.seconds) {
      // Where the flag is open, it is off in the fast corner.
      const bool flagged = flag_may_be_on(box, effect.time_unless) && !box.open(*effect.time_unless);
      const double slack = flagged ? effect.slack_unless : effect.slack;
      if ((effect.faster == End::none || (flagged && slack == 0)) && !out.time_open) out.time_open = i;
      out.fast[i] = end_of(effect.faster, box.low[i], box.high[i]);
      out.slack += slack;
      if (slack > 0) out.slack_open = i;
    } else {
      out.fast[i] = frugal;
    }
    if (effect.memory) out.uneven = std::max(out.uneven, effect.uneven);
    at_end[i] = out.frugal[i] = effect.memory ? frugal : out.fast[i];
    if (effect.memory && no_end && !only_shifts && !out.memory_open) out.memory_open = i;
    if (!effect.spares_at_end || box.high[i] + 1u != space_.dimensions[i].values.size()) continue;
    at_end[i] = box.high[i];
    if (spares && !out.memory_open) out.memory_open = i;  // two ways to spare are four corners
    spares = true;
  }
  if (spares) out.spares_at_end = std::move(at_end);
  return out;
}

/// `corner`; where that is refused or breaks, the best of those that differ from it in one dimension and run: what else
/// runs differs in as much. `end` gives which end of a dimension the corner stands at.
template <typename EndOf, typename Better>
std::optional<Point> GroupSolver::best_to_run(std::size_t g, const Box& box, const Point& corner, EndOf end,
                                              Better better) {
  const auto runs = [&](const Point& point) { return tables_.at(g, point).state == State::ran; };
  if (runs(corner)) return corner;
  std::optional<Point> best;
  for (std::size_t i = 0; i < box.low.size(); ++i) {
    if (!box.open(i)) continue;
    const auto [from, only_first] = end(tables_.group(g).effects[i]);
    const int step = from == End::last ? -1 : 1;
    for (int value = from == End::last ? box.high[i] : box.low[i]; value >= box.low[i] && value <= box.high[i];
         value += step) {
      Point point = corner;
      point[i] = static_cast<std::uint16_t>(value);
      if (point == corner || !runs(point)) continue;
      if (!best || better(tables_.at(g, point), tables_.at(g, *best))) best = point;
      if (only_first) break;
    }
  }
  return best;
}

std::optional<Point> GroupSolver::fastest_start(std::size_t g, const Box& box, const Corners& corners) {
  return best_to_run(
      g, box, corners.fast,
      [](const DimensionEffect& effect) {
        const bool ordered = effect.seconds && effect.faster != End::none;
        return std::pair{ordered ? effect.faster : End::first, ordered && effect.slack == 0};
      },
      [](const GroupOutcome& a, const GroupOutcome& b) { return a.seconds < b.seconds; });
}

std::optional<Point> GroupSolver::most_frugal(std::size_t g, const Box& box, const Corners& corners) {
  if (tables_.at(g, corners.frugal).state == State::breaks) return std::nullopt;  // an engine: too little as well
  const std::optional<Point> least = best_to_run(
      g, box, corners.frugal,
      [](const DimensionEffect& effect) {
        const bool ordered = effect.memory && effect.frugal != End::none;
        return std::pair{ordered ? effect.frugal : End::first, ordered};
      },
      [](const GroupOutcome& a, const GroupOutcome& b) { return a.spare > b.spare; });
  const bool too_large =
      least && (tables_.at(g, *least).spare + corners.uneven < 0 || is_short(g, *least, corners.uneven));
  if (too_large && corners.spares_at_end && tables_.at(g, *corners.spares_at_end).fits()) return corners.spares_at_end;
  return least;
}

GroupSolver::Influence GroupSolver::influence(std::size_t g, std::size_t dimension) const {
  const auto known = influence_[g].find(dimension);
  return known == influence_[g].end() ? Influence{} : known->second;
}

/// Of the open dimensions that trade time for memory the one that costs most time: cut there, one half is soon too
/// slow and the other soon too large. As it was where that was asked first.
std::optional<std::size_t> GroupSolver::dimension_to_cut(std::size_t g, const Box& box, const Corners& corners) {
  const auto moved = [&](std::size_t i) {
    Point point = corners.fast;
    point[i] = corners.frugal[i];
    return point;
  };
  std::vector<std::size_t> open;
  std::vector<GroupTables::Key> asked;
  for (std::size_t i = 0; i < box.low.size(); ++i) {
    if (!box.open(i) || corners.fast[i] == corners.frugal[i]) continue;
    open.push_back(i);
    if (!influence_[g].contains(i)) asked.emplace_back(g, moved(i));
  }
  if (!asked.empty()) asked.emplace_back(g, corners.fast);
  tables_.prepare(asked);
  std::optional<std::size_t> best;
  for (const std::size_t i : open) {
    if (!influence_[g].contains(i)) {
      const GroupOutcome before = tables_.at(g, corners.fast), after = tables_.at(g, moved(i));
      const bool known = before.state == State::ran && after.state == State::ran;
      influence_[g][i] = known ? Influence{std::max(0.0, after.seconds - before.seconds),
                                           std::max<Bytes>(0, after.spare - before.spare)}
                               : Influence{};
    }
    if (!best || influence(g, i) > influence(g, *best)) best = i;
  }
  for (std::size_t i = 0; i < box.low.size() && !best; ++i)
    if (box.open(i)) best = i;
  return best;
}

/// The framework refuses `point`: the open dimension that it takes with another value.
std::optional<std::size_t> GroupSolver::refusing(std::size_t g, const Box& box, const Point& point) {
  for (std::size_t i = 0; i < box.low.size(); ++i)
    for (std::uint16_t value = box.low[i]; value <= box.high[i]; ++value) {
      if (value == point[i]) continue;
      Point moved = point;
      moved[i] = value;
      if (tables_.at(g, moved).state != State::refused) return i;
    }
  return std::nullopt;
}

/// Host memory is short even where least of it is used: where most device memory is.
bool GroupSolver::too_much_host(std::size_t g, const Box& box) {
  Point point = box.low;
  for (std::size_t i = 0; i < point.size(); ++i) {
    const DimensionEffect& effect = tables_.group(g).effects[i];
    if (box.open(i) && effect.memory && (effect.frugal == End::none || flag_may_be_on(box, effect.memory_unless)))
      return false;
    if (effect.frugal == End::first) point[i] = box.high[i];
  }
  const GroupOutcome& outcome = tables_.at(g, point);
  return outcome.state == State::ran && outcome.host_short;
}

void GroupSolver::push(Progress& progress, Box box, double seconds, bool timed) {
  progress.nodes.push_back({std::move(box), seconds, progress.made++, timed});
  std::push_heap(progress.nodes.begin(), progress.nodes.end(), Later{});
}

/// What is asked about them first is run together, so that threads have work.
void GroupSolver::push_children(std::size_t g, Progress& progress, const Node& node, std::size_t dimension, bool singly) {
  const int low = node.box.low[dimension], high = node.box.high[dimension], middle = (low + high) / 2;
  std::vector<Box> parts;
  std::vector<GroupTables::Key> asked;
  for (int from = low; from <= high;) {
    const int to = singly ? from : from <= middle ? middle : high;
    Box part = node.box;
    part.low[dimension] = static_cast<std::uint16_t>(from);
    part.high[dimension] = static_cast<std::uint16_t>(to);
    parts.push_back(narrow(g, part));
    if (const Corners at = corners(g, parts.back()); !at.time_open)
      asked.emplace_back(g, at.memory_open ? at.fast : at.frugal);
    from = to + 1;
  }
  tables_.prepare(asked);
  for (Box& part : parts) push(progress, std::move(part), node.seconds);
}

void GroupSolver::search(std::size_t g, Progress& progress, double enough) {
  while (!progress.nodes.empty() && progress.nodes.front().seconds < progress.seconds) {
    if (progress.nodes.front().seconds > enough || tables_.runs() >= most_runs_) {
      progress.best.seconds = progress.nodes.front().seconds;
      return;
    }
    std::pop_heap(progress.nodes.begin(), progress.nodes.end(), Later{});
    Node node = std::move(progress.nodes.back());
    progress.nodes.pop_back();
    expand(g, progress, std::move(node));
  }
  progress.nodes.clear();
  progress.best.decided = true;
  progress.best.at = progress.at;
  if (progress.seconds < std::numeric_limits<double>::infinity()) progress.best.seconds = progress.seconds;
  progress.best.refused = progress.refused && !progress.at;
  progress.best.by_exact_run = progress.by_exact_run;
}

void GroupSolver::cut_where_nothing_runs(std::size_t g, Progress& progress, const Node& node, const Corners& at) {
  const State state = tables_.at(g, at.fast).state;
  if (node.box.low == node.box.high) {
    progress.refused = progress.refused && state == State::refused;
    // An earlier phase breaks whatever lies elsewhere: that one's group decides.
    if (state == State::unknown && !progress.at) progress.at = at.fast;
    return;
  }
  const bool refused = state == State::refused;
  const std::optional<std::size_t> to_blame = refused ? refusing(g, node.box, at.fast) : std::nullopt;
  if (to_blame)
    push_children(g, progress, node, *to_blame, true);
  else if (!refused || tables_.at(g, at.frugal).state != State::refused)
    push_children(g, progress, node, *dimension_to_cut(g, node.box, at), false);
  // Else nothing that moves is taken.
}

/// Whether anything in the node fits is asked first: most that would be fast does not. Then how fast it may be; then it
/// is cut.
void GroupSolver::expand(std::size_t g, Progress& progress, Node node) {
  const Corners at = corners(g, node.box);
  if (at.time_open) return push_children(g, progress, node, *at.time_open, true);
  if (const std::optional<Point> least = at.memory_open ? std::nullopt : most_frugal(g, node.box, at)) {
    const Bytes spare = tables_.at(g, *least).spare;
    const bool by_closed_form = spare + at.uneven < 0;
    if (by_closed_form || (spare >= 0 && is_short(g, *least, at.uneven))) {
      progress.refused = false;
      progress.by_exact_run = progress.by_exact_run || !by_closed_form;
      return;
    }
  }
  const std::optional<Point> start = fastest_start(g, node.box, at);
  if (start && !node.timed) {
    const double bound = std::max(node.seconds, tables_.at(g, *start).seconds * (1 - at.slack));
    if (bound < progress.seconds) push(progress, std::move(node.box), bound, true);  // others may come first now
    return;
  }
  if (!start) return cut_where_nothing_runs(g, progress, node, at);
  const GroupOutcome fast = tables_.at(g, *start);
  progress.refused = false;
  const bool single = node.box.low == node.box.high;
  if (fast.fits()) {
    if (is_short(g, *start)) {
      progress.by_exact_run = true;
    } else {
      if (fast.seconds < progress.seconds) {
        progress.seconds = fast.seconds;
        progress.at = *start;
      }
      if (!at.slack_open) return;
    }
  }
  if (single || (fast.host_short && too_much_host(g, node.box))) return;
  if (fast.fits() && at.slack_open)
    push_children(g, progress, node, *at.slack_open, false);
  else if (at.memory_open && !fast.fits())
    push_children(g, progress, node, *at.memory_open, true);
  else
    push_children(g, progress, node, *dimension_to_cut(g, node.box, at), false);
}

}  // namespace headroom::search
