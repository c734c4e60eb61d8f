#include "planner/search/proof.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace headroom::search {
namespace {

constexpr double kSame = 1e-6;  // relative: sums of the same seconds in another order

using State = GroupOutcome::State;

}  // namespace

Prover::Prover(const Space& space, GroupTables& tables, Evaluate quick, Evaluate exact, const ProofOptions& options)
    : space_(space),
      tables_(tables),
      solver_(space, tables, options.most_evaluations),
      quick_(std::move(quick)),
      exact_(std::move(exact)),
      options_(options) {
  const auto touching = [&](std::size_t g) {
    const std::vector<DimensionEffect>& effects = tables_.group(g).effects;
    return std::count_if(effects.begin(), effects.end(), [](const DimensionEffect& effect) { return effect.seconds; });
  };
  for (std::size_t g = 0; g < tables_.groups(); ++g) order_.push_back(g);
  std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) { return touching(a) < touching(b); });
}

double Prover::size(const Box& box) const {
  double product = 1;
  for (std::size_t i = 0; i < box.low.size(); ++i)
    if (!space_.dimensions[i].knob.exact_only) product *= box.high[i] - box.low[i] + 1;
  return product;
}

void Prover::push(Open open) {
  open.seconds = std::accumulate(open.least.begin(), open.least.end(), 0.0);
  open.made = made_++;
  boxes_.push_back(std::move(open));
  std::push_heap(boxes_.begin(), boxes_.end(), Later{});
}

/// A part of `from`.
void Prover::push(const Open& from, Box box) {
  Open part = from;
  part.box = std::move(box);
  push(std::move(part));
}

void Prover::count_out(const Open& open, double& as) {
  if (open.counts) as += size(open.box);
}

/// One of several groups takes less: each is tried.
void Prover::divide(const Open& open, const std::vector<Blame>& alternatives) {
  for (const Blame blame : alternatives) {
    Open one = open;
    one.blamed.insert(blame);
    one.counts = open.counts && blame == alternatives.front();
    push(std::move(one));
  }
}

/// Whether every group is solved in the box, and no other box comes first. A box with nothing that fits in one of the
/// groups is done; else it goes back with a higher bound.
bool Prover::bounded(Open& open) {
  const double first = boxes_.empty() ? std::numeric_limits<double>::infinity() : boxes_.front().seconds;
  for (const std::size_t g : order_) {
    const double others = open.seconds - open.least[g];
    const GroupBest& best = solver_.solve(g, open.box, open.blamed, first * (1 + kSame) - others);
    if (best.decided && !best.at) {
      // What an alternative leaves out may fit under the other.
      if (best.refused || !best.by_exact_run)
        count_out(open, best.refused ? proof_.refused : proof_.too_large);
      else if (open.blamed.empty())
        count_out(open, proof_.too_large_exactly);
      return false;
    }
    open.least[g] = std::max(open.least[g], best.seconds);
    open.seconds = std::accumulate(open.least.begin(), open.least.end(), 0.0);
    if (best.decided && open.seconds <= first * (1 + kSame)) continue;
    push(std::move(open));
    return false;
  }
  return true;
}

/// Configurations that may have every group's best: in each dimension the value of the group whose time it changes
/// most; where it changes none, the run's own if that lies in the box, else what is frugal.
std::vector<Point> Prover::merged(const Open& open) {
  const Box& box = open.box;
  const Point current = space_.current();
  std::vector<Point> out;
  for (const bool keep : {true, false}) {
    Point point(current.size());
    for (std::size_t i = 0; i < point.size(); ++i) {
      const bool here = current[i] >= box.low[i] && current[i] <= box.high[i];
      point[i] = here ? current[i] : box.low[i];
      std::pair<double, double> most{-1, 0};
      for (std::size_t g = 0; g < tables_.groups(); ++g) {
        const DimensionEffect& effect = tables_.group(g).effects[i];
        const GroupBest& best = solve(g, open);
        if (tables_.inert(i, *best.at, *best.at)) continue;
        const std::pair<double, double> here_now{solver_.influence(g, i).seconds, best.seconds};
        if (effect.seconds && here_now > most) {
          point[i] = (*best.at)[i];
          most = here_now;
        } else if (effect.memory && most.first < 0 && (!keep || !here)) {
          point[i] = (*best.at)[i];
        }
      }
    }
    if (out.empty() || out.back() != point) out.push_back(std::move(point));
  }
  return out;
}

/// Whether the box's best is the winner. Else the box is cut, or given back for something was learned.
bool Prover::decide(const Open& open) {
  std::optional<Point> first;
  std::optional<std::pair<Point, std::size_t>> conflict;  // a candidate, and the group that it does not suit
  for (const Point& point : merged(open)) {
    if (failed_.contains(point)) {
      first = point;
      continue;
    }
    double seconds = 0;
    std::optional<std::size_t> unsuited;
    for (std::size_t g = 0; g < tables_.groups(); ++g) {
      seconds += tables_.at(g, point).seconds;
      if (!unsuited && !suits(g, point, open)) unsuited = g;
    }
    if (unsuited && !conflict) conflict.emplace(point, *unsuited);
    if (unsuited) continue;
    if (const std::vector<Blame> jointly = tables_.jointly_short(point); !jointly.empty()) {
      divide(open, jointly);
      return false;
    }
    const Outcome quick = quick_(std::span(&point, 1)).front();
    ++proof_.evaluated;
    if (!quick.valid || !quick.fits) {
      failed_.insert(point);
      learn(point, quick);
      first = point;
      continue;
    }
    if (quick.seconds > open.seconds * (1 + kSame)) continue;
    ++proof_.exact_runs;
    const Outcome exact = exact_(std::span(&point, 1)).front();
    if (exact.valid && exact.fits) {
      proof_.winning = Found{point, exact, quick};
      return true;
    }
    failed_.insert(point);
    learn(point, exact);
    push(open);
    return false;
  }
  if (first)
    cut_out(open, *first);
  else if (conflict)
    cut_at_conflict(open, conflict->first, conflict->second);
  else
    cut_anywhere(open);
  return false;
}

/// The group fits at `point`, and is as fast as anywhere in the box.
bool Prover::suits(std::size_t g, const Point& point, const Open& open) {
  const GroupOutcome& one = tables_.at(g, point);
  return one.fits() && !tables_.short_by_exact_run(g, point, open.blamed) &&
         one.seconds <= solve(g, open).seconds * (1 + kSame);
}

/// A whole run does not fit at `point`: the groups of the phases in which it does not are short there, by what is
/// missing even without what they found cached and may not have needed. Where all such phases would fit without that,
/// the one that misses most is short together with all that took more than they had found. Where none did, that the
/// phase's own group is taken to be short all the same leaves the rest undecided.
void Prover::learn(const Point& point, const Outcome& outcome) {
  const auto groups_of = [&](const std::string& phase) {
    std::vector<std::size_t> out;
    for (std::size_t g = 0; g < tables_.groups(); ++g) {
      const std::vector<std::string>& phases = tables_.group(g).phases;
      if (std::find(phases.begin(), phases.end(), phase) != phases.end()) out.push_back(g);
    }
    return out;
  };
  const auto short_in = [&](const std::string& phase, Bytes missing) {
    for (const std::size_t g : groups_of(phase)) tables_.add_shortage(g, point, missing);
  };
  bool own = false, grew = false;
  const PhaseOutcome* shortest = nullptr;
  for (const PhaseOutcome& phase : outcome.phases) {
    grew = grew || phase.grew;
    if (phase.spare < 0 && (shortest == nullptr || phase.spare < shortest->spare)) shortest = &phase;
    if (phase.spare + phase.idle >= 0) continue;
    short_in(phase.phase, -phase.spare - phase.idle);
    own = true;
  }
  if (own || shortest == nullptr) return;
  if (!grew) {
    proof_.cache_decides = true;
    return short_in(shortest->phase, -shortest->spare);
  }
  std::set<std::size_t> together;
  for (const PhaseOutcome& phase : outcome.phases)
    if (&phase == shortest || phase.grew)
      for (const std::size_t g : groups_of(phase.phase)) together.insert(g);
  tables_.add_joint_shortage(together, point, -shortest->spare);
}

/// Values up to `last` and those behind it.
void Prover::cut(const Open& open, std::size_t dimension, std::uint16_t last) {
  Box lower = open.box, upper = open.box;
  lower.high[dimension] = last;
  upper.low[dimension] = static_cast<std::uint16_t>(last + 1);
  push(open, std::move(lower));
  push(open, std::move(upper));
}

/// Cuts between what suits the others and what suits the group: at the dimension that alone makes up for it, else at
/// the one that does most.
void Prover::cut_at_conflict(const Open& open, const Point& point, std::size_t g) {
  const Box& box = open.box;
  const Point wanted = *solve(g, open).at;
  std::vector<std::size_t> differing;
  std::vector<GroupTables::Key> asked;
  for (std::size_t i = 0; i < point.size(); ++i) {
    if (!box.open(i) || point[i] == wanted[i] || !tables_.group(g).effects[i].any()) continue;
    if (tables_.inert(i, wanted, wanted)) continue;
    differing.push_back(i);
    asked.emplace_back(g, point);
    asked.back().second[i] = wanted[i];
  }
  if (differing.empty()) return cut_anywhere(open);
  tables_.prepare(asked);
  const bool fits = tables_.at(g, point).fits();
  std::optional<std::size_t> best;
  std::tuple<bool, double, Bytes> most;
  for (std::size_t k = 0; k < differing.size(); ++k) {
    const Point& moved = asked[k].second;
    const GroupOutcome& after = tables_.at(g, moved);
    const std::tuple<bool, double, Bytes> gain{suits(g, moved, open), fits ? -after.seconds : 0, after.spare};
    if (best && gain <= most) continue;
    best = differing[k];
    most = gain;
  }
  const std::uint16_t at = point[*best];
  cut(open, *best, wanted[*best] < at ? static_cast<std::uint16_t>(at - 1) : at);
}

void Prover::cut_anywhere(const Open& open) {
  const Box& box = open.box;
  for (std::size_t i = 0; i < box.low.size(); ++i)
    if (box.open(i) && !space_.dimensions[i].knob.exact_only)
      return cut(open, i, static_cast<std::uint16_t>((box.low[i] + box.high[i]) / 2));
  count_out(open, proof_.too_large);
}

/// Leaves `point` alone in ever smaller boxes: it does not fit whole, though each group does.
void Prover::cut_out(const Open& open, const Point& point) {
  const Box& box = open.box;
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < box.low.size(); ++i) {
    if (!box.open(i) || space_.dimensions[i].knob.exact_only) continue;
    if (!best || box.high[i] - box.low[i] > box.high[*best] - box.low[*best]) best = i;
  }
  if (!best) return count_out(open, proof_.too_large);
  const std::uint16_t value = point[*best];
  for (const auto& [low, high] : {std::pair<int, int>{box.low[*best], value - 1},
                                  std::pair<int, int>{value, value},
                                  std::pair<int, int>{value + 1, box.high[*best]}}) {
    if (low > high) continue;
    Box part = box;
    part.low[*best] = static_cast<std::uint16_t>(low);
    part.high[*best] = static_cast<std::uint16_t>(high);
    push(open, std::move(part));
  }
}

Proof Prover::run() {
  proof_ = {};
  Box all;
  const Point current = space_.current();
  for (std::size_t i = 0; i < space_.dimensions.size(); ++i) {
    const Dimension& dimension = space_.dimensions[i];
    const auto last = static_cast<std::uint16_t>(dimension.values.size() - 1);
    const bool kept = dimension.knob.exact_only;
    all.low.push_back(kept ? current[i] : std::uint16_t{0});
    all.high.push_back(kept ? current[i] : last);
  }
  proof_.space = size(all);
  Open whole;
  whole.box = std::move(all);
  whole.least.assign(tables_.groups(), 0.0);
  push(std::move(whole));
  bool won = false;
  while (!boxes_.empty() && !won) {
    if (options_.stopped && options_.stopped()) break;
    if (tables_.runs() >= options_.most_evaluations || proof_.exact_runs >= options_.most_exact_runs) break;
    std::pop_heap(boxes_.begin(), boxes_.end(), Later{});
    Open open = std::move(boxes_.back());
    boxes_.pop_back();
    won = bounded(open) && decide(open);
  }
  const double left = proof_.space - proof_.refused - proof_.too_large - proof_.too_large_exactly;
  // Left with nothing open: groups together are too large, whichever takes less.
  (won ? proof_.slower : boxes_.empty() ? proof_.too_large_exactly : proof_.undecided) += won ? left - 1 : left;
  boxes_.clear();
  if (proof_.cache_decides) {
    proof_.undecided += proof_.slower + proof_.too_large_exactly;
    proof_.slower = proof_.too_large_exactly = 0;
  }
  proof_.winner = won ? 1 : 0;
  proof_.evaluated += tables_.runs();
  return proof_;
}

}  // namespace headroom::search
