#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "planner/search/phase_groups.h"
#include "planner/search/search.h"

namespace headroom::search {

/// What a group of phases does under one choice of the dimensions that touch it.
struct GroupOutcome {
  enum class State {
    ran,
    breaks,   ///< a process does not get through one of its phases
    refused,  ///< the framework takes the choice with nothing that was tried elsewhere
    unknown,  ///< an earlier phase breaks with everything that was tried elsewhere
  };
  State state = State::unknown;
  double seconds = 0;
  Bytes spare = 0;  ///< of device memory; negative: short by that much
  bool host_short = false;
  bool fits() const { return state == State::ran && spare >= 0 && !host_short; }
};

/// One side of a shortage that groups make together, and a set of such sides.
using Blame = std::uint32_t;
using Blamed = std::set<Blame>;

/// Outcomes of `points` for the phases of group `g`, such that a phase depends on what touches it alone. What they
/// say of other phases counts for nothing.
using EvaluateGroup = std::function<std::vector<Outcome>(std::size_t g, std::span<const Point> points)>;

/// Tables of every group, filled as they are asked for. An entry is read off one run of a configuration in which
/// the other dimensions lie where the framework takes them.
class GroupTables {
 public:
  /// References outlive it.
  GroupTables(const Space& space, std::vector<PhaseGroup> groups, EvaluateGroup own, Bytes host_budget);

  std::size_t groups() const { return groups_.size(); }
  const PhaseGroup& group(std::size_t g) const { return groups_[g]; }

  using Key = std::pair<std::size_t, Point>;
  /// Runs what is not known of `keys` together, on several threads.
  void prepare(std::span<const Key> keys);
  const GroupOutcome& at(std::size_t g, const Point& point);

  /// A configuration that can run whole: entries are looked for around it, too.
  void add_anchor(const Point& point);

  /// By an exact run the group misses by `missing` at `point`. Nor does fit what runs the same, or what is known to
  /// take no less, unless its other dimensions leave more: the exact run takes as much beyond the quick one there.
  void add_shortage(std::size_t g, const Point& point, Bytes missing);
  /// By an exact run one of `groups` misses by `missing` at `point`, for the others left that much in the cache: where
  /// all take no less, it does so again, and one of them is to blame (`Blame`).
  void add_joint_shortage(const std::set<std::size_t>& groups, const Point& point, Bytes missing);
  /// `blamed`: alternatives that are to hold beside what holds anyway.
  /// `uneven`: were this much more left.
  bool short_by_exact_run(std::size_t g, const Point& point, const Blamed& blamed = {}, Bytes uneven = 0);
  /// The alternatives of a joint shortage that has all its groups at `point`, in order; empty: there is none.
  std::vector<Blame> jointly_short(const Point& point);
  /// Those of `blamed` that are about `g`.
  Blamed about(std::size_t g, const Blamed& blamed) const;
  /// How often shortages were added to `g`.
  std::size_t shortages(std::size_t g) const { return short_[g].size(); }

  /// The dimension does not matter at `point`, or to its group: a knob that it needs has another value.
  bool inert(std::size_t dimension, const Point& low, const Point& high) const;
  /// `point` with the run's own value in every dimension that does not touch the group.
  Point project(std::size_t g, Point point) const;

  /// Configurations run, without those refused.
  std::int64_t runs() const { return runs_; }

 private:
  Point whole(std::size_t g, const Point& projected, const Point& anchor) const;
  void take(std::size_t g, const Point& point, const Outcome& outcome);
  bool known(std::size_t g, const Point& projected) const;
  void repair(std::size_t g, const Point& projected);
  std::optional<Point> broken_by(std::size_t g, const Point& point) const;
  std::vector<Outcome> run(std::size_t g, const std::vector<Point>& points);

  const Space& space_;
  std::vector<PhaseGroup> groups_;
  EvaluateGroup own_;
  Bytes host_budget_ = 0;
  std::vector<std::map<Point, GroupOutcome>> tables_;  ///< by projected point
  std::vector<Point> anchors_;
  struct Shortage {
    Point point;
    double seconds = 0;  ///< as the tables have them
    Bytes more = 0;      ///< taken by the exact run beyond the table's
    std::optional<Blame> blame;  ///< holds only with this alternative; none: always
  };
  bool meets(std::size_t g, const Point& projected, const Shortage& shortage, Bytes uneven = 0);
  bool runs_no_less(std::size_t g, const Point& point, const Point& other) const;
  std::vector<std::vector<Shortage>> short_;
  std::vector<std::vector<Blame>> joint_;  ///< alternatives of each joint shortage
  std::vector<std::size_t> to_blame_;      ///< the group of each alternative
  Point current_;
  std::vector<std::size_t> gate_;  ///< of each dimension: the one it needs; none: the number of dimensions
  std::set<std::string> refusals_;  ///< against which nothing elsewhere helps
  std::set<Key> broken_;            ///< by `broken_by`: nothing elsewhere helps
  std::int64_t runs_ = 0;
};

}  // namespace headroom::search
