#pragma once

#include <limits>
#include <map>
#include <optional>

#include "planner/search/group_tables.h"

namespace headroom::search {

/// Configurations between two points: of every dimension the values from low to high.
struct Box {
  Point low, high;
  bool open(std::size_t dimension) const { return low[dimension] != high[dimension]; }
  auto operator<=>(const Box&) const = default;
};

/// The fastest choice of a box with which a group of phases fits.
struct GroupBest {
  bool decided = false;     ///< else `seconds` alone is known
  std::optional<Point> at;  ///< none: the group fits with nothing in the box
  double seconds = 0;       ///< no choice in the box that fits is faster
  bool refused = false;     ///< nothing fits, and all that was met is refused
  bool by_exact_run = false;  ///< something was left out because an exact run showed that it does not fit
};

/// Solves one group at a time over its own dimensions, whatever lies in the others: branch and bound with the
/// declared ends of values, and value by value where none is declared. What it found is kept, and so is how far it
/// came.
class GroupSolver {
 public:
  /// Stops undecided once the tables have made `most_runs`.
  GroupSolver(const Space& space, GroupTables& tables,
              std::int64_t most_runs = std::numeric_limits<std::int64_t>::max());

  /// Decides, or goes on until no choice that fits takes less than `enough` seconds. `blamed`: alternatives of
  /// joint shortages that hold (`GroupTables::add_joint_shortage`).
  const GroupBest& solve(std::size_t g, const Box& box, const Blamed& blamed = {},
                         double enough = std::numeric_limits<double>::infinity());

  /// What the group loses and gains when a dimension goes from its fast end to its frugal one.
  struct Influence {
    double seconds = 0;
    Bytes memory = 0;
    auto operator<=>(const Influence&) const = default;
  };
  /// As far as is known.
  Influence influence(std::size_t g, std::size_t dimension) const;

 private:
  struct Node {
    Box box;
    double seconds = 0;  ///< no choice in it that fits is faster
    std::uint64_t made = 0;
    bool timed = false;  ///< its fastest choice is in `seconds`
  };
  struct Later {
    bool operator()(const Node& a, const Node& b) const {
      return a.seconds != b.seconds ? a.seconds > b.seconds : a.made > b.made;
    }
  };
  /// How far the search of a box came.
  struct Progress {
    GroupBest best;
    std::size_t shortages = 0;  ///< known when it was decided
    std::vector<Node> nodes;    ///< a heap
    std::optional<Point> at;    ///< the fastest met that fits
    double seconds = std::numeric_limits<double>::infinity();  ///< its
    bool refused = true, by_exact_run = false;
    std::uint64_t made = 0;
  };
  /// What is asked about a node: its fastest and its most frugal choice.
  struct Corners {
    Point fast, frugal;
    double slack = 0;            ///< of the fast one's time
    Bytes uneven = 0;            ///< of what the frugal one takes
    std::optional<std::size_t> time_open, memory_open;  ///< first open dimension without an end
    std::optional<std::size_t> slack_open;              ///< open, and its fast end may be a little slower than others
    std::optional<Point> spares_at_end;                 ///< as `frugal`, where the other end may take less
  };

  bool is_short(std::size_t g, const Point& point, Bytes uneven = 0) {
    return tables_.short_by_exact_run(g, point, blamed_, uneven);
  }
  Box narrow(std::size_t g, const Box& box) const;
  std::vector<Bytes> shifts(std::size_t g, std::size_t dimension);
  std::uint16_t lightest(std::size_t g, std::size_t dimension, const Box& box);
  Corners corners(std::size_t g, const Box& box);
  template <typename EndOf, typename Better>
  std::optional<Point> best_to_run(std::size_t g, const Box& box, const Point& corner, EndOf end, Better better);
  std::optional<Point> most_frugal(std::size_t g, const Box& box, const Corners& corners);
  bool flag_may_be_on(const Box& box, std::optional<std::size_t> flag) const;
  std::optional<Point> fastest_start(std::size_t g, const Box& box, const Corners& corners);
  std::optional<std::size_t> dimension_to_cut(std::size_t g, const Box& box, const Corners& corners);
  std::optional<std::size_t> refusing(std::size_t g, const Box& box, const Point& point);
  bool too_much_host(std::size_t g, const Box& box);
  void push(Progress& progress, Box box, double seconds, bool timed = false);
  void push_children(std::size_t g, Progress& progress, const Node& node, std::size_t dimension, bool singly);
  void search(std::size_t g, Progress& progress, double enough);
  void expand(std::size_t g, Progress& progress, Node node);
  void cut_where_nothing_runs(std::size_t g, Progress& progress, const Node& node, const Corners& at);

  const Space& space_;
  GroupTables& tables_;
  std::int64_t most_runs_;
  std::vector<std::map<std::pair<Box, Blamed>, Progress>> known_;
  Blamed blamed_;  ///< of the box that is being solved
  std::vector<std::map<std::size_t, Influence>> influence_;
  std::map<std::pair<std::size_t, std::size_t>, std::vector<Bytes>> spare_;  ///< by value, of `shifts`
};

}  // namespace headroom::search
