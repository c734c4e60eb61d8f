#include "planner/search/group_solver.h"

#include <algorithm>
#include <limits>
#include <queue>

namespace headroom::search {
namespace {

using State = GroupOutcome::State;

std::uint16_t end_of(End end, std::uint16_t low, std::uint16_t high) {
  return end == End::first ? low : high;
}

}  // namespace

GroupSolver::GroupSolver(const Space& space, GroupTables& tables)
    : space_(space), tables_(tables), known_(tables.groups()), influence_(tables.groups()) {}

/// The box with nothing open that does not touch the group.
Box GroupSolver::narrow(std::size_t g, const Box& box) const {
  const Point current = space_.current();
  Box out = box;
  for (std::size_t i = 0; i < box.low.size(); ++i)
    if (!tables_.group(g).effects[i].any() || tables_.inert(i, box.low, box.high))
      out.low[i] = out.high[i] = current[i];
  return out;
}

const GroupBest& GroupSolver::solve(std::size_t g, const Box& box) {
  const Box mine = narrow(g, box);
  const std::size_t shortages = tables_.shortages(g);
  const auto [at, fresh] = known_[g].try_emplace(mine);
  // What was found before a shortage was known still holds when it is no shortage itself.
  const bool holds = !fresh && (at->second.first == shortages || !at->second.second.at ||
                                !tables_.short_by_exact_run(g, *at->second.second.at));
  if (!holds) at->second = {shortages, search(g, mine)};
  return at->second.second;
}

/// Of a dimension that only shifts what the group holds, what is left with each of its values: at the run's own
/// configuration, or one dimension away, wherever most of them run.
std::vector<Bytes> GroupSolver::shifts(std::size_t g, std::size_t dimension) {
  const std::size_t values = space_.dimensions[dimension].values.size();
  std::vector<Bytes> best;
  std::size_t most = 0;
  const auto look = [&](Point point) {
    std::vector<Bytes> spare;
    std::size_t run = 0;
    for (std::uint16_t value = 0; value < values; ++value) {
      point[dimension] = value;
      const GroupOutcome& outcome = tables_.at(g, point);
      run += outcome.state == State::ran ? 1 : 0;
      spare.push_back(outcome.state == State::ran ? outcome.spare : std::numeric_limits<Bytes>::min());
    }
    if (best.empty() || run > most) best = std::move(spare);
    most = std::max(most, run);
  };
  const Point current = space_.current();
  look(current);
  for (std::size_t i = 0; i < current.size() && most < values; ++i) {
    if (i == dimension || !tables_.group(g).effects[i].any()) continue;
    for (std::uint16_t value = 0; value < space_.dimensions[i].values.size() && most < values; ++value) {
      Point point = current;
      point[i] = value;
      if (value != current[i]) look(point);
    }
  }
  return best;
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

GroupSolver::Corners GroupSolver::corners(std::size_t g, const Box& box) {
  Corners out{box.low, box.low, 0, true, {}, {}, {}};
  for (std::size_t i = 0; i < box.low.size(); ++i) {
    const DimensionEffect& effect = tables_.group(g).effects[i];
    if (!box.open(i)) continue;
    const bool only_shifts = effect.memory && !effect.seconds && effect.frugal == End::none;
    const std::uint16_t frugal =
        only_shifts ? lightest(g, i, box) : end_of(effect.frugal, box.low[i], box.high[i]);
    if (effect.seconds) {
      if (effect.faster == End::none && !out.time_open) out.time_open = i;
      out.fast[i] = end_of(effect.faster, box.low[i], box.high[i]);
      if (effect.fastest_at_end) {
        out.slack += effect.slack;
        out.end_open = i;
        const auto last = static_cast<std::uint16_t>(space_.dimensions[i].values.size() - 1);
        const std::uint16_t end = end_of(effect.faster, 0, last);
        out.fast_inside = out.fast_inside && end == out.fast[i];
        out.fast[i] = end;
      }
    } else {
      out.fast[i] = frugal;
    }
    if (effect.memory) {
      if (effect.frugal == End::none && !only_shifts && !out.memory_open) out.memory_open = i;
      out.frugal[i] = frugal;
    } else {
      out.frugal[i] = out.fast[i];
    }
  }
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
        return std::pair{ordered ? effect.faster : End::first, ordered && !effect.fastest_at_end};
      },
      [](const GroupOutcome& a, const GroupOutcome& b) { return a.seconds < b.seconds; });
}

std::optional<Point> GroupSolver::most_frugal(std::size_t g, const Box& box, const Corners& corners) {
  if (tables_.at(g, corners.frugal).state == State::breaks) return std::nullopt;  // an engine: too little as well
  return best_to_run(
      g, box, corners.frugal,
      [](const DimensionEffect& effect) {
        const bool ordered = effect.memory && effect.frugal != End::none;
        return std::pair{ordered ? effect.frugal : End::first, ordered};
      },
      [](const GroupOutcome& a, const GroupOutcome& b) { return a.spare > b.spare; });
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
    if (box.open(i) && effect.memory && effect.frugal == End::none) return false;
    if (effect.frugal == End::first) point[i] = box.high[i];
  }
  const GroupOutcome& outcome = tables_.at(g, point);
  return outcome.state == State::ran && outcome.host_short;
}

GroupBest GroupSolver::search(std::size_t g, const Box& box) {
  GroupBest out;
  out.refused = true;
  std::optional<double> fastest;  // of those that fit
  std::priority_queue<Node, std::vector<Node>, Later> nodes;
  std::uint64_t made = 0;
  nodes.push({box, 0, made++});
  std::vector<Node> fresh;
  const auto push_children = [&](const Node& node, std::size_t dimension, bool singly) {
    const std::uint16_t low = node.box.low[dimension], high = node.box.high[dimension];
    const auto child = [&](std::uint16_t from, std::uint16_t to) {
      Box part = node.box;
      part.low[dimension] = from;
      part.high[dimension] = to;
      fresh.push_back({narrow(g, part), node.seconds, made++});
    };
    if (singly) {
      for (std::uint16_t value = low; value <= high; ++value) child(value, value);
    } else {
      const auto middle = static_cast<std::uint16_t>((low + high) / 2);
      child(low, middle);
      child(static_cast<std::uint16_t>(middle + 1), high);
    }
  };
  while (!nodes.empty() || !fresh.empty()) {
    if (!fresh.empty()) {
      // Children are bounded together, so that threads have work.
      std::vector<GroupTables::Key> asked;
      for (const Node& node : fresh) {
        const Corners at = corners(g, node.box);
        if (at.time_open) continue;
        asked.emplace_back(g, at.fast);
        if (!at.memory_open) asked.emplace_back(g, at.frugal);
      }
      tables_.prepare(asked);
      for (Node& node : fresh) nodes.push(std::move(node));
      fresh.clear();
    }
    const Node node = nodes.top();
    nodes.pop();
    if (fastest && node.seconds >= *fastest) break;
    const Corners at = corners(g, node.box);
    if (at.time_open) {
      push_children(node, *at.time_open, true);
      continue;
    }
    const bool single = node.box.low == node.box.high;
    if (const std::optional<Point> least = at.memory_open ? std::nullopt : most_frugal(g, node.box, at)) {
      if (tables_.at(g, *least).spare < 0) {
        out.refused = false;
        continue;
      }
      if (tables_.short_by_exact_run(g, *least)) {
        out.refused = false;
        out.by_exact_run = true;
        continue;
      }
    }
    const std::optional<Point> start = fastest_start(g, node.box, at);
    if (!start) {
      if (single) {
        out.refused = out.refused && tables_.at(g, at.fast).state == State::refused;
        // An earlier phase breaks whatever lies elsewhere: that one's group decides.
        if (tables_.at(g, at.fast).state == State::unknown && !out.at) out.at = at.fast;
        continue;
      }
      const bool refused = tables_.at(g, at.fast).state == State::refused;
      const std::optional<std::size_t> to_blame = refused ? refusing(g, node.box, at.fast) : std::nullopt;
      if (to_blame)
        push_children(node, *to_blame, true);
      else if (!refused || tables_.at(g, at.frugal).state != State::refused)
        push_children(node, *dimension_to_cut(g, node.box, at), false);
      continue;  // else nothing that moves is taken
    }
    const GroupOutcome fast = tables_.at(g, *start);
    const double bound = std::max(node.seconds, fast.seconds * (1 - at.slack));
    if (bound > node.seconds && !(fastest && bound >= *fastest)) {
      nodes.push({node.box, bound, made++});  // others may come first now
      continue;
    }
    if (fastest && bound >= *fastest) continue;
    const bool inside = at.fast_inside || *start != at.fast;
    if (inside || single) {
      bool within = true;
      for (std::size_t i = 0; i < start->size(); ++i)
        within = within && (*start)[i] >= node.box.low[i] && (*start)[i] <= node.box.high[i];
      if (within && fast.fits()) {
        if (tables_.short_by_exact_run(g, *start)) {
          out.by_exact_run = true;
        } else {
          if (!fastest || fast.seconds < *fastest) {
            fastest = fast.seconds;
            out.at = *start;
          }
          if (!at.end_open) continue;
        }
      }
    }
    out.refused = false;
    if (single || (fast.host_short && too_much_host(g, node.box))) continue;
    if (fast.fits() && at.end_open)
      push_children(node, *at.end_open, false);
    else if (at.memory_open && !fast.fits())
      push_children(node, *at.memory_open, true);
    else
      push_children(node, *dimension_to_cut(g, node.box, at), false);
  }
  if (fastest) out.seconds = *fastest;
  if (out.at) out.refused = false;
  return out;
}

}  // namespace headroom::search
