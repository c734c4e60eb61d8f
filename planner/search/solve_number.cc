#include "planner/search/solve_number.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "planner/search/value_scale.h"

namespace headroom::search {
namespace {

using Int = std::int64_t;

constexpr Int kFarthest = 64;       // times the run's own value, either way
constexpr Int kSmallNumber = 16;    // counts as this much for that
constexpr Int kWhole = 100;         // hundredths
constexpr Int kShareStep = 10;      // hundredths at once while walking
constexpr Int kNear = 128;          // steps to either side where an existing value is looked for
constexpr int kMostDivisors = 64;   // by which a value may be changed at least
constexpr Int kBetweenSteps = 256;  // values between two steps that are asked about one by one

class NumberSolver {
 public:
  NumberSolver(const NumberTries& tries, Scale scale, Int start, bool smallest)
      : tries_(tries), scale_(scale), start_(start), away_(smallest ? -1 : 1) {
    least_ = scale.whole ? std::max<Int>(1, start / kFarthest) : 1;
    most_ = scale.whole ? std::max(start, kSmallNumber) * kFarthest : kWhole;
    step_ = smallest_step();
  }

  Solution run() {
    const bool fits = attempt(start_);
    walk(fits ? away_ : -away_, !fits);
    if (good_ && bad_) {
      close_in();
      look_between_steps();
    }
    return solution();
  }

  const std::string& refusal() const { return refusal_; }

 private:
  struct Known {
    Int at = 0;
    Outcome outcome;
    bool exact = false;
  };

  std::string why_not(Int value) const {
    if (value < least_ || value > most_) return "not looked at";
    return tries_.refusal(scale_.text(value));
  }

  /// The smallest divisor of the run's own value by which the framework lets it change.
  Int smallest_step() const {
    int asked = 0;
    for (Int d = 1; d < start_ && asked < kMostDivisors; ++d) {
      if (start_ % d != 0) continue;
      ++asked;
      if (why_not(start_ + d).empty() || why_not(start_ - d).empty()) return d;
    }
    return std::max<Int>(1, start_);
  }

  /// Keeps what comes of `value` as what fits or does not. What can't run does not fit.
  bool attempt(Int value) {
    const std::string text = scale_.text(value);
    Known known{value, {}, false};
    known.outcome.refusal = tries_.refusal(text);
    if (known.outcome.refusal.empty()) known.outcome = tries_.quick(text);
    if (known.outcome.valid && known.outcome.fits) known = {value, tries_.exact(text), true};
    if (!known.outcome.valid) refusal_ = known.outcome.refusal;
    const bool fits = known.outcome.valid && known.outcome.fits;
    if (!fits && known.outcome.valid) unfit_ = known;
    (fits ? good_ : bad_) = std::move(known);
    return fits;
  }

  /// From the run's own value by doubling, until a value fits (or does not) as `wanted`.
  void walk(int direction, bool wanted) {
    std::optional<Int> barrier;
    for (Int value = start_;;) {
      const Int further = !scale_.whole ? value + kShareStep * direction
                          : direction > 0 ? std::max<Int>(1, value * 2)
                                          : value / 2;
      const Int next = std::clamp(further, least_, most_);
      if (next == value) break;
      const Int before = std::exchange(value, next);
      const std::optional<Int> there =
          direction > 0 ? existing(value, before, value + 1) : existing(value, value - 1, before);
      if (there && attempt(*there) == wanted) return;
      if (!there && !barrier) barrier = value;
    }
    // All that exists fits: where the framework's refusals begin is the edge.
    if (!wanted && barrier) attempt(*barrier);
  }

  /// The value nearest to `value`, in steps of it, that lies between `low` and `high` (both apart) and exists.
  std::optional<Int> existing(Int value, Int low, Int high) const {
    value = start_ + (value - start_) / step_ * step_;
    for (Int n = 0; n <= kNear; ++n)
      for (const Int one : {value - n * step_, value + n * step_})
        if (one > low && one < high && why_not(one).empty()) return one;
    return {};
  }

  void close_in() {
    for (int round = 0; std::abs(bad_->at - good_->at) > step_; ++round) {
      // Every third time the middle, so that a bend does not hold it up.
      Int middle = between(good_->at, good_->outcome, bad_->at, bad_->outcome, round % 3 == 2);
      middle = good_->at + (middle - good_->at) / step_ * step_;
      if (middle == good_->at) middle += bad_->at > good_->at ? step_ : -step_;
      const auto [low, high] = std::minmax(good_->at, bad_->at);
      const std::optional<Int> there = existing(middle, low, high);
      attempt(there.value_or(middle));  // refused all around: the edge, as far as is seen
    }
  }

  /// What no step meets may exist all the same.
  void look_between_steps() {
    const Int toward = bad_->at > good_->at ? 1 : -1;
    if (std::abs(bad_->at - good_->at) > kBetweenSteps) return;
    for (Int value = good_->at + toward; value != bad_->at; value += toward)
      if (why_not(value).empty() && !attempt(value)) return;
  }

  Solution solution() const {
    Solution out;
    if (good_) out.fits = Tried{scale_.text(good_->at), good_->outcome};
    const std::optional<Known>& edge = unfit_ ? unfit_ : bad_;
    if (!edge) return out;
    out.beyond = Tried{scale_.text(edge->at), edge->outcome};
    // What the quick run said of it may be less than it takes.
    if (good_ && edge->outcome.valid && !edge->exact) out.beyond->outcome = tries_.exact(out.beyond->value);
    return out;
  }

  const NumberTries& tries_;
  Scale scale_;
  Int start_, least_ = 1, most_ = 1, step_ = 1;
  int away_;  // where the values asked for lie
  std::optional<Known> good_, bad_, unfit_;
  std::string refusal_;
};

}  // namespace

Result<Solution> solve_number(const std::string& knob, const Number& number, const NumberTries& tries) {
  const std::optional<Scale> scale = scale_of(number.current, number.current);
  if (!scale)
    return fail(Error{.message = fmt::format("expected a number, found {}", number.current), .file = {}, .key = knob});
  NumberSolver solver(tries, *scale, *scale->steps(number.current), number.smallest);
  const Solution solution = solver.run();
  if (!solution.fits && (!solution.beyond || !solution.beyond->outcome.valid))
    return fail(nothing_runs(knob, solver.refusal()));
  return solution;
}

}  // namespace headroom::search
