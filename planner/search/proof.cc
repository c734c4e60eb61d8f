#include "planner/search/proof.h"

#include <algorithm>
#include <limits>

namespace headroom::search {
namespace {

constexpr double kFaster = 1e-4;          // relative: below what a time model tells apart
constexpr std::size_t kAtOnce = 16;       // boxes decided together, so that threads have work
constexpr double kMostRoots = 20'000;     // combinations of knobs without an order
constexpr std::size_t kMostCorners = 64;  // frugal corners of one box

using Order = Knob::Order;

/// Device memory is what is missing, whatever else may be.
bool device_short(const Outcome& outcome) {
  return !outcome.fits && (!outcome.host_short || outcome.device_spare < 0);
}

Bytes spare_in(const Outcome& outcome, const std::string& phase) {
  for (const PhaseSpare& one : outcome.phases)
    if (one.phase == phase) return one.spare;
  return std::numeric_limits<Bytes>::max();
}

}  // namespace

Prover::Prover(const Space& space, Evaluate quick, Evaluate exact, const ProofOptions& options)
    : space_(space), quick_(std::move(quick)), exact_run_(std::move(exact)), options_(options) {}

std::uint16_t Prover::value(std::size_t dimension, std::uint16_t place) const {
  const Dimension& d = space_.dimensions[dimension];
  return d.knob.order == Order::falls ? static_cast<std::uint16_t>(d.values.size() - 1 - place) : place;
}

Point Prover::point(const Point& places) const {
  Point out(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) out[i] = value(i, places[i]);
  return out;
}

double Prover::size(const Box& box) const {
  double product = box.weight;
  for (std::size_t i = 0; i < box.low.size(); ++i) product *= box.high[i] - box.low[i] + 1;
  return product;
}

bool Prover::needed(std::size_t dimension, const Box& box) const {
  const Choice& needs = space_.dimensions[dimension].knob.needs;
  if (needs.knob.empty()) return true;
  for (std::size_t i = 0; i < space_.dimensions.size(); ++i)
    if (space_.dimensions[i].knob.name == needs.knob)
      return box.low[i] != box.high[i] || space_.dimensions[i].values[value(i, box.low[i])] == needs.value;
  for (const Choice& choice : space_.fixed)
    if (choice.knob == needs.knob) return choice.value == needs.value;
  return true;
}

/// One box for each combination of the knobs that have no order; inert knobs stay at the run's value.
std::vector<Prover::Box> Prover::roots() const {
  const Point current = space_.current();
  Box first;
  for (std::size_t i = 0; i < space_.dimensions.size(); ++i) {
    first.low.push_back(0);
    first.high.push_back(static_cast<std::uint16_t>(space_.dimensions[i].values.size() - 1));
  }
  std::vector<Box> boxes{first};
  for (std::size_t i = 0; i < space_.dimensions.size(); ++i) {
    const Order order = space_.dimensions[i].knob.order;
    if (order == Order::exact_only)
      for (Box& box : boxes) box.low[i] = box.high[i] = kept_[i];
    if (order != Order::none) continue;
    std::vector<Box> more;
    for (const Box& box : boxes)
      for (std::uint16_t place = 0; place <= first.high[i]; ++place) {
        more.push_back(box);
        more.back().low[i] = more.back().high[i] = place;
      }
    boxes = std::move(more);
  }
  // Whether a knob is inert is known once what it needs is fixed. Roots that differ in inert knobs only are one.
  std::map<std::pair<Point, Point>, Box> distinct;
  for (Box& box : boxes) {
    for (std::size_t i = 0; i < box.low.size(); ++i) {
      if (needed(i, box)) continue;
      const bool split = space_.dimensions[i].knob.order == Order::none;
      if (!split) box.weight *= box.high[i] - box.low[i] + 1;
      box.low[i] = box.high[i] = value(i, current[i]);
    }
    const auto [known, fresh] = distinct.try_emplace({box.low, box.high}, box);
    if (!fresh) known->second.weight += box.weight;
  }
  std::vector<Box> out;
  for (auto& [places, box] : distinct) out.push_back(std::move(box));
  return out;
}

void Prover::evaluate(std::vector<Point> places) {
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  std::erase_if(places, [&](const Point& one) { return known_.contains(one); });
  if (places.empty()) return;
  std::vector<Point> points;
  for (const Point& one : places) points.push_back(point(one));
  std::vector<Outcome> outcomes = quick_(points);
  for (std::size_t i = 0; i < places.size(); ++i) known_.emplace(places[i], std::move(outcomes[i]));
  proof_.evaluated = static_cast<std::int64_t>(known_.size());
}

void Prover::learn(const Point& values, const Outcome& outcome) {
  Point places(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) places[i] = value(i, values[i]);  // its own inverse
  exact_[places] = outcome;
}

const Outcome* Prover::exact(const Point& places) const {
  const auto known = exact_.find(places);
  return known == exact_.end() ? nullptr : &known->second;
}

const Outcome& Prover::run_exactly(const Point& places) {
  const auto known = exact_.find(places);
  if (known != exact_.end()) return known->second;
  ++proof_.exact_runs;
  const Point one = point(places);
  return exact_.emplace(places, exact_run_(std::span(&one, 1)).front()).first->second;
}

bool Prover::spent() const {
  return proof_.evaluated >= options_.most_evaluations || proof_.exact_runs >= options_.most_exact_runs;
}

void Prover::push(Box box) {
  box.made = ++made_;
  boxes_.push(std::move(box));
}

Proof Prover::run(const std::optional<Found>& winner) {
  proof_ = {};
  proof_.space = 1;
  seconds_.reset();
  if (winner) seconds_ = winner->quick.seconds;
  kept_ = winner ? winner->point : space_.current();
  double combinations = 1;
  for (const Dimension& dimension : space_.dimensions) {
    const auto values = static_cast<double>(dimension.values.size());
    if (dimension.knob.order == Order::none) combinations *= values;
    if (dimension.knob.order != Order::exact_only) proof_.space *= values;
  }
  if (combinations > kMostRoots) {
    proof_.winner = winner ? 1 : 0;
    proof_.undecided = proof_.space - proof_.winner;
    return proof_;
  }
  for (Box& box : roots()) push(std::move(box));
  while (!boxes_.empty()) {
    std::vector<Box> batch;
    while (!boxes_.empty() && batch.size() < kAtOnce) {
      batch.push_back(boxes_.top());
      boxes_.pop();
    }
    if (spent()) {
      for (const Box& box : batch) proof_.undecided += size(box);
      continue;
    }
    std::vector<Point> corners;
    for (const Box& box : batch) corners.push_back(box.high);
    evaluate(std::move(corners));
    for (const Box& box : batch) decide(box);
  }
  // The winner was counted among those that are no faster than itself.
  proof_.winner = seconds_ ? 1 : 0;
  proof_.slower = std::max(0.0, proof_.slower - proof_.winner);
  return proof_;
}

void Prover::decide(const Box& box) {
  const Outcome fastest = quick(box.high);
  if (!fastest.valid) return refuse(box);
  const double seconds = fastest.breaks ? box.seconds : std::max(box.seconds, fastest.seconds);
  if (seconds_ && seconds >= *seconds_ * (1 - kFaster)) {
    proof_.slower += size(box);
    return;
  }
  if (fastest.host_short) {  // the fastest corner keeps least on the host
    proof_.too_large += size(box);
    return;
  }
  Box rest = box;
  rest.seconds = seconds;
  if (!fastest.fits) {
    if (size(box) == box.weight || !frugal_fits(box)) {
      proof_.too_large += size(box);
      return;
    }
    return cut(rest, fastest.limiting_phase);
  }
  if (spent() && exact(box.high) == nullptr) {
    proof_.undecided += size(box);
    return;
  }
  const Outcome& outcome = run_exactly(box.high);
  if (outcome.valid && outcome.fits) {
    take(box.high);
    proof_.slower += size(box);
    return;
  }
  const std::vector<Point> corners = frugal_corners(box);
  if (size(box) == box.weight) {
    proof_.too_large_exactly += size(box);
    return;
  }
  if (corners.size() == 1 && !spent()) {
    const Outcome frugal = run_exactly(corners.front());
    if (frugal.valid && frugal.fits)
      take(corners.front());
    else if (frugal.valid && device_short(frugal)) {
      proof_.too_large_exactly += size(box);
      return;
    }
  }
  cut(rest, outcome.limiting_phase);
}

/// `places` fits by an exact run: the winner, if it is faster.
void Prover::take(const Point& places) {
  evaluate({places});
  const Outcome& fast = quick(places);
  if (seconds_ && fast.seconds >= *seconds_ * (1 - kFaster)) return;
  seconds_ = fast.seconds;
  proof_.found = Found{point(places), exact_.at(places), fast};
}

/// Every ordered knob at its frugal end; knobs with a window at each of their values.
std::vector<Point> Prover::frugal_corners(const Box& box) const {
  std::vector<Point> corners{box.low};
  for (std::size_t i = 0; i < box.low.size(); ++i) {
    if (space_.dimensions[i].knob.order != Order::window) continue;
    std::vector<Point> more;
    for (const Point& corner : corners)
      for (std::uint16_t place = box.low[i]; place <= box.high[i]; ++place) {
        more.push_back(corner);
        more.back()[i] = place;
      }
    corners = std::move(more);
  }
  return corners;
}

/// Whether anything in the box may fit: false is a proof that nothing does.
bool Prover::frugal_fits(const Box& box) {
  const std::vector<Point> corners = frugal_corners(box);
  if (corners.size() > kMostCorners) return true;
  evaluate(corners);
  return std::any_of(corners.begin(), corners.end(), [&](const Point& corner) {
    const Outcome& outcome = quick(corner);
    return !outcome.valid || !device_short(outcome);
  });
}

/// The framework refuses the fastest corner: value by value, until what is refused stands alone.
void Prover::refuse(const Box& box) {
  if (size(box) == box.weight) {
    proof_.refused += size(box);
    return;
  }
  std::optional<std::size_t> at;
  for (std::size_t i = 0; i < box.low.size() && !at; ++i) {
    if (box.low[i] == box.high[i]) continue;
    Point lower = box.high;
    lower[i] = box.low[i];
    evaluate({lower});
    if (quick(lower).valid) at = i;
  }
  if (!at) {
    evaluate({box.low});
    if (!quick(box.low).valid) {  // whatever moves: no corner is taken
      proof_.refused += size(box);
      return;
    }
    for (std::size_t i = 0; i < box.low.size(); ++i)
      if (box.low[i] < box.high[i]) at = i;
  }
  Box one = box, others = box;
  one.low[*at] = box.high[*at];
  others.high[*at] = static_cast<std::uint16_t>(box.high[*at] - 1);
  push(std::move(one));
  push(std::move(others));
}

/// The knob that frees most in `phase` when it alone goes to its frugal end; none moves it: the widest.
std::optional<std::size_t> Prover::dimension_to_cut(const Box& box, const std::string& phase) {
  std::vector<Point> moved;
  for (std::size_t i = 0; i < box.low.size(); ++i) {
    if (box.low[i] == box.high[i]) continue;
    moved.push_back(box.high);
    moved.back()[i] = box.low[i];
  }
  evaluate(moved);
  const Outcome& before = quick(box.high);
  std::optional<std::size_t> best, widest;
  Bytes freed = 0;
  for (std::size_t i = 0, k = 0; i < box.low.size(); ++i) {
    if (box.low[i] == box.high[i]) continue;
    const Outcome& after = quick(moved[k++]);
    if (!widest || box.high[i] - box.low[i] > box.high[*widest] - box.low[*widest]) widest = i;
    if (!after.valid) continue;
    const Bytes a = spare_in(after, phase), b = spare_in(before, phase);
    const bool starts = before.breaks && !after.breaks;
    const Bytes more = starts ? std::numeric_limits<Bytes>::max() : a - std::min(a, b);
    if (more > freed) {
      freed = more;
      best = i;
    }
  }
  return best ? best : widest;
}

void Prover::cut(const Box& box, const std::string& phase) {
  const std::optional<std::size_t> at = dimension_to_cut(box, phase);
  if (!at) {
    proof_.undecided += size(box);
    return;
  }
  const auto middle = static_cast<std::uint16_t>((box.low[*at] + box.high[*at] + 1) / 2);
  Box upper = box, lower = box;
  upper.low[*at] = middle;
  lower.high[*at] = static_cast<std::uint16_t>(middle - 1);
  push(std::move(upper));
  push(std::move(lower));
}

}  // namespace headroom::search
