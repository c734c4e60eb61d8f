#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/search/group_solver.h"

namespace headroom::search {

/// What became of every configuration of a space, in configurations (doubles hold them exactly up to 9·10^15).
/// The counts add up to `space`.
struct Proof {
  double space = 0;
  double refused = 0;    ///< the framework takes no such combination
  double too_large = 0;  ///< do not fit by the closed form, which knows no fragmentation
  double too_large_exactly = 0;  ///< ... by an exact run, theirs or one of a configuration that needs no less there
  double slower = 0;  ///< no faster than the winner, as fast as they may be where they fit; or phases together are
                      ///< too large, as an exact run has shown of others like them
  double winner = 0;             ///< 1 when there is one
  double undecided = 0;  ///< left when what was allowed was spent, or where cached memory of other phases decides
  bool cache_decides = false;    ///< why some are undecided: cached memory that nobody is known to have left
  std::int64_t evaluated = 0;    ///< configurations run quickly
  std::int64_t exact_runs = 0;   ///< configurations run exactly
  std::optional<Found> winning;  ///< fits by an exact run, and nothing that does is faster
  bool complete() const { return undecided == 0; }
};

struct ProofOptions {
  std::int64_t most_evaluations = 20'000;
  std::int64_t most_exact_runs = 48;
  std::function<bool()> stopped = {};  ///< asked now and then; true: what is open stays undecided
};

/// Finds the fastest configuration of a space that fits, and shows that nothing is faster.
///
/// A step's time is a sum over groups of phases and its peak a maximum over them, so each group is solved over
/// its own dimensions (`GroupSolver`): the sum of what they come to bounds a box of configurations from below, and no
/// group is solved further than it takes to see that another box comes first.
/// Where the groups agree on the dimensions that they share, that is the box's best; where not, the box is cut
/// at one of these. The box with the least bound comes first, so the first best that an exact run confirms is
/// the winner: all other bounds are no less. A configuration that an exact run shows not to fit teaches the
/// group whose phase failed, and all that needs no less there is left out. Where a phase failed for what others left in
/// the cache, one of these groups has to take less: the box is looked at under each alternative.
///
/// Knobs that only exact runs tell apart stay as the run has them, and do not count; inert knobs
/// (`Knob::needs`) are never varied, their values count. The proof is as good as the declared effects of the
/// knobs: tests hold them against random configurations of every framework. Deterministic, whatever the number
/// of threads.
class Prover {
 public:
  /// `tables`: of the space's groups. `quick` and `exact` give outcomes of whole configurations; exact.fits
  /// decides. References must outlive it.
  Prover(const Space& space, GroupTables& tables, Evaluate quick, Evaluate exact, const ProofOptions& options = {});

  Proof run();

 private:
  struct Open {
    Box box;
    std::vector<double> least;  ///< of each group
    double seconds = 0;         ///< their sum
    Blamed blamed = {};         ///< of joint shortages, the alternatives that it looks for its best under
    bool counts = true;         ///< once among those that differ in `blamed` alone
    std::uint64_t made = 0;
  };
  struct Later {
    bool operator()(const Open& a, const Open& b) const {
      return a.seconds != b.seconds ? a.seconds > b.seconds : a.made > b.made;
    }
  };
  double size(const Box& box) const;
  void push(const Open& from, Box box);
  void push(Open open);
  const GroupBest& solve(std::size_t g, const Open& open) { return solver_.solve(g, open.box, open.blamed); }
  void count_out(const Open& open, double& as);
  void divide(const Open& open, const std::vector<Blame>& alternatives);
  bool bounded(Open& open);
  std::vector<Point> merged(const Open& open);
  bool decide(const Open& open);
  void learn(const Point& point, const Outcome& outcome);
  bool suits(std::size_t g, const Point& point, const Open& open);
  void cut(const Open& open, std::size_t dimension, std::uint16_t last);
  void cut_at_conflict(const Open& open, const Point& point, std::size_t g);
  void cut_anywhere(const Open& open);
  void cut_out(const Open& open, const Point& point);

  const Space& space_;
  GroupTables& tables_;
  GroupSolver solver_;
  Evaluate quick_, exact_;
  ProofOptions options_;
  std::vector<Open> boxes_;  ///< a heap
  std::vector<std::size_t> order_;  ///< groups, those that fewest dimensions touch first
  std::set<Point> failed_;   ///< by whole runs
  Proof proof_;
  std::uint64_t made_ = 0;
};

}  // namespace headroom::search
