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

void Prover::push(Box box, std::vector<double> least) {
  const double seconds = std::accumulate(least.begin(), least.end(), 0.0);
  boxes_.push_back({std::move(box), std::move(least), seconds, made_++});
  std::push_heap(boxes_.begin(), boxes_.end(), Later{});
}

/// Whether every group is solved in the box, and no other box comes first. A box with nothing that fits in one of the
/// groups is done; else it goes back with a higher bound.
bool Prover::bounded(Open& open) {
  const double first = boxes_.empty() ? std::numeric_limits<double>::infinity() : boxes_.front().seconds;
  for (const std::size_t g : order_) {
    const double others = open.seconds - open.least[g];
    const GroupBest& best = solver_.solve(g, open.box, first * (1 + kSame) - others);
    if (best.decided && !best.at) {
      (best.refused ? proof_.refused : best.by_exact_run ? proof_.too_large_exactly : proof_.too_large) += size(open.box);
      return false;
    }
    open.least[g] = std::max(open.least[g], best.seconds);
    open.seconds = std::accumulate(open.least.begin(), open.least.end(), 0.0);
    if (best.decided && open.seconds <= first * (1 + kSame)) continue;
    push(std::move(open.box), std::move(open.least));
    return false;
  }
  return true;
}

/// Configurations that may have every group's best: in each dimension the value of the group whose time it changes
/// most; where it changes none, the run's own if that lies in the box, else what is frugal.
std::vector<Point> Prover::merged(const Box& box) {
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
        const GroupBest& best = solver_.solve(g, box);
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
  for (const Point& point : merged(open.box)) {
    if (failed_.contains(point)) {
      first = point;
      continue;
    }
    double seconds = 0;
    std::optional<std::size_t> unsuited;
    for (std::size_t g = 0; g < tables_.groups(); ++g) {
      seconds += tables_.at(g, point).seconds;
      if (!unsuited && !suits(g, point, open.box)) unsuited = g;
    }
    if (unsuited && !conflict) conflict.emplace(point, *unsuited);
    if (unsuited) continue;
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
    push(open.box, open.least);
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
bool Prover::suits(std::size_t g, const Point& point, const Box& box) {
  const GroupOutcome& one = tables_.at(g, point);
  return one.fits() && !tables_.short_by_exact_run(g, point) &&
         one.seconds <= solver_.solve(g, box).seconds * (1 + kSame);
}

/// The phase that took most of those that took more than they found.
const PhaseOutcome* maker_of_peak(const Outcome& outcome) {
  const PhaseOutcome* out = nullptr;
  for (const PhaseOutcome& phase : outcome.phases)
    if (phase.idle == 0 && (out == nullptr || phase.spare < out->spare)) out = &phase;
  return out;
}

/// A whole run does not fit at `point`: the groups of the phases in which it does not are short there. Where all such
/// phases would fit without what earlier phases left in the cache (they keep more free than those do), who left it is
/// short by as much. Where nobody is known to have left it, that the phase's own group is taken to be short all the
/// same leaves the rest undecided.
void Prover::learn(const Point& point, const Outcome& outcome) {
  const auto short_in = [&](const std::string& phase, Bytes missing) {
    for (std::size_t g = 0; g < tables_.groups(); ++g) {
      const std::vector<std::string>& phases = tables_.group(g).phases;
      if (std::find(phases.begin(), phases.end(), phase) != phases.end()) tables_.add_shortage(g, point, missing);
    }
  };
  const PhaseOutcome* maker = maker_of_peak(outcome);
  bool own = false;
  Bytes missing = 0;
  for (const PhaseOutcome& phase : outcome.phases) {
    missing = std::max(missing, -phase.spare);
    if (phase.spare + phase.idle >= 0) continue;
    short_in(phase.phase, -phase.spare);
    own = true;
  }
  if (own || missing == 0) return;
  if (maker != nullptr) return short_in(maker->phase, missing);
  proof_.cache_decides = true;
  for (const PhaseOutcome& phase : outcome.phases)
    if (phase.spare < 0) short_in(phase.phase, -phase.spare);
}

/// Values up to `last` and those behind it.
void Prover::cut(const Open& open, std::size_t dimension, std::uint16_t last) {
  Box lower = open.box, upper = open.box;
  lower.high[dimension] = last;
  upper.low[dimension] = static_cast<std::uint16_t>(last + 1);
  push(std::move(lower), open.least);
  push(std::move(upper), open.least);
}

/// Cuts between what suits the others and what suits the group: at the dimension that alone makes up for it, else at
/// the one that does most.
void Prover::cut_at_conflict(const Open& open, const Point& point, std::size_t g) {
  const Box& box = open.box;
  const Point wanted = *solver_.solve(g, box).at;
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
    const std::tuple<bool, double, Bytes> gain{suits(g, moved, box), fits ? -after.seconds : 0, after.spare};
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
  proof_.too_large += size(box);
}

/// Leaves `point` alone in ever smaller boxes: it does not fit whole, though each group does.
void Prover::cut_out(const Open& open, const Point& point) {
  const Box& box = open.box;
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < box.low.size(); ++i) {
    if (!box.open(i) || space_.dimensions[i].knob.exact_only) continue;
    if (!best || box.high[i] - box.low[i] > box.high[*best] - box.low[*best]) best = i;
  }
  if (!best) {
    proof_.too_large += size(box);
    return;
  }
  const std::uint16_t value = point[*best];
  for (const auto& [low, high] : {std::pair<int, int>{box.low[*best], value - 1},
                                  std::pair<int, int>{value, value},
                                  std::pair<int, int>{value + 1, box.high[*best]}}) {
    if (low > high) continue;
    Box part = box;
    part.low[*best] = static_cast<std::uint16_t>(low);
    part.high[*best] = static_cast<std::uint16_t>(high);
    push(std::move(part), open.least);
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
  push(std::move(all), std::vector<double>(tables_.groups(), 0.0));
  bool won = false;
  while (!boxes_.empty() && !won) {
    if (options_.stopped && options_.stopped()) break;
    if (tables_.runs() >= options_.most_evaluations || proof_.exact_runs >= options_.most_exact_runs) break;
    std::pop_heap(boxes_.begin(), boxes_.end(), Later{});
    Open open = std::move(boxes_.back());
    boxes_.pop_back();
    won = bounded(open) && decide(open);
    if (won) proof_.slower += size(open.box) - 1;
  }
  for (const Open& open : boxes_) (won ? proof_.slower : proof_.undecided) += size(open.box);
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
