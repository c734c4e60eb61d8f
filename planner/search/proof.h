#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <vector>

#include "planner/search/outcome.h"
#include "planner/search/search.h"
#include "planner/search/space.h"

namespace headroom::search {

/// What became of every configuration of a space, in configurations (doubles: spaces pass 10^14). The counts
/// add up to `space`.
struct Proof {
  double space = 0;
  double refused = 0;    ///< the framework takes no such combination
  double too_large = 0;  ///< do not fit by the quick prediction, which knows no fragmentation
  double too_large_exactly = 0;  ///< ... by an exact run, theirs or one of a configuration that needs no more
  double slower = 0;             ///< no faster than the winner
  double winner = 0;             ///< 1 when there is one
  double undecided = 0;          ///< left when the evaluations or exact runs allowed were spent
  std::int64_t evaluated = 0;    ///< configurations run quickly
  std::int64_t exact_runs = 0;   ///< configurations run exactly
  std::optional<Found> found;    ///< a winner that is faster than the one given
  bool complete() const { return undecided == 0; }
};

struct ProofOptions {
  std::int64_t most_evaluations = 2'000;
  std::int64_t most_exact_runs = 24;
};

/// Shows that nothing in a space is faster than a winner, or finds what is.
///
/// Branch and bound over boxes of configurations. Of a knob with an order (`Knob::Order`) the fastest end
/// bounds a box's step time from below and the end that needs least memory bounds its memory, so that two
/// evaluations decide many configurations; knobs without an order are tried value by value. A box is done when
/// its fastest corner is no faster than the winner, when its most frugal corner does not fit (by the quick
/// prediction, which is never above the exact one, or by an exact run), or when its fastest corner fits: that
/// is a new winner. Else it is cut at the knob that moves the phase that misses most. Inert knobs
/// (`Knob::needs`) are never varied; their values count. Knobs that only exact runs tell apart (allocator
/// settings) stay as the winner has them, and do not count.
///
/// The proof is as good as the declared orders: tests hold them against random configurations of every
/// framework. Deterministic, whatever the number of threads.
class Prover {
 public:
  /// `quick` and `exact` give outcomes of points; exact.fits decides. References must outlive it.
  Prover(const Space& space, Evaluate quick, Evaluate exact, const ProofOptions& options = {});

  /// An exact run that was made before.
  void learn(const Point& point, const Outcome& exact);

  /// `winner`: the best configuration known, confirmed by an exact run; none: nothing fits so far. Its quick
  /// time is what others are compared with.
  Proof run(const std::optional<Found>& winner);

 private:
  /// Index ranges by dimension, from the value that needs least memory (0) to the fastest.
  struct Box {
    Point low, high;
    double seconds = 0;  ///< no configuration in it is faster
    double weight = 1;   ///< configurations that each of its points stands for
    std::uint64_t made = 0;
  };
  struct Later {
    bool operator()(const Box& a, const Box& b) const {
      return a.seconds != b.seconds ? a.seconds > b.seconds : a.made > b.made;
    }
  };
  std::uint16_t value(std::size_t dimension, std::uint16_t place) const;
  Point point(const Point& places) const;
  double size(const Box& box) const;
  std::vector<Box> roots() const;
  bool needed(std::size_t dimension, const Box& box) const;
  void evaluate(std::vector<Point> places);
  const Outcome& quick(const Point& places) const { return known_.at(places); }
  const Outcome* exact(const Point& places) const;
  const Outcome& run_exactly(const Point& places);
  bool spent() const;

  void decide(const Box& box);
  void take(const Point& places);
  bool frugal_fits(const Box& box);
  std::vector<Point> frugal_corners(const Box& box) const;
  void refuse(const Box& box);
  void cut(const Box& box, const std::string& phase);
  std::optional<std::size_t> dimension_to_cut(const Box& box, const std::string& phase);
  void push(Box box);

  const Space& space_;
  Evaluate quick_, exact_run_;
  ProofOptions options_;
  std::map<Point, Outcome> known_, exact_;  ///< by places
  std::priority_queue<Box, std::vector<Box>, Later> boxes_;
  std::optional<double> seconds_;  ///< of the winner, quick
  Point kept_;                     ///< values of knobs that only exact runs tell apart
  Proof proof_;
  std::uint64_t made_ = 0;
};

}  // namespace headroom::search
