#include "planner/search/group_tables.h"

#include <algorithm>
#include <limits>
#include <set>

#include "models/base/bytes.h"

namespace headroom::search {
namespace {

constexpr std::size_t kMostAnchors = 6;

GroupOutcome read(const PhaseGroup& group, const Outcome& outcome, Bytes host_budget) {
  GroupOutcome out;
  if (!outcome.valid) {
    out.state = GroupOutcome::State::refused;
    return out;
  }
  out.spare = std::numeric_limits<Bytes>::max();
  std::size_t met = 0;
  for (const PhaseOutcome& phase : outcome.phases) {
    if (std::find(group.phases.begin(), group.phases.end(), phase.phase) == group.phases.end()) continue;
    ++met;
    out.seconds += phase.seconds;
    out.spare = std::min(out.spare, phase.spare);
    out.host_short = out.host_short || (host_budget > 0 && phase.host > host_budget);
    out.state = phase.runs_out ? GroupOutcome::State::breaks : out.state;
  }
  // What comes after a phase that breaks may be missing.
  if (out.state != GroupOutcome::State::breaks && (!outcome.breaks || met == group.phases.size()))
    out.state = GroupOutcome::State::ran;
  return out;
}

}  // namespace

GroupTables::GroupTables(const Space& space, std::vector<PhaseGroup> groups, EvaluateGroup own, Bytes host_budget)
    : space_(space),
      groups_(std::move(groups)),
      own_(std::move(own)),
      host_budget_(host_budget),
      tables_(groups_.size()),
      short_(groups_.size()),
      current_(space.current()) {
  const std::size_t none = space_.dimensions.size();
  for (const Dimension& dimension : space_.dimensions) {
    std::size_t gate = none;
    for (std::size_t i = 0; i < none; ++i)
      if (!dimension.knob.needs.knob.empty() && space_.dimensions[i].knob.name == dimension.knob.needs.knob) gate = i;
    gate_.push_back(gate);
  }
  anchors_.push_back(current_);
}

bool GroupTables::inert(std::size_t dimension, const Point& low, const Point& high) const {
  const Choice& needs = space_.dimensions[dimension].knob.needs;
  if (needs.knob.empty()) return false;
  const std::size_t gate = gate_[dimension];
  if (gate < space_.dimensions.size())
    return low[gate] == high[gate] && space_.dimensions[gate].values[low[gate]] != needs.value;
  for (const Choice& choice : space_.standing)
    if (choice.knob == needs.knob) return choice.value != needs.value;
  return false;
}

Point GroupTables::project(std::size_t g, Point point) const {
  for (std::size_t i = 0; i < point.size(); ++i)
    if (!groups_[g].effects[i].any() || inert(i, point, point)) point[i] = current_[i];
  return point;
}

Point GroupTables::whole(std::size_t g, const Point& projected, const Point& anchor) const {
  Point point = anchor;
  for (std::size_t i = 0; i < point.size(); ++i)
    if (groups_[g].effects[i].any()) point[i] = projected[i];
  return point;
}

bool GroupTables::known(std::size_t g, const Point& projected) const {
  const auto at = tables_[g].find(projected);
  return at != tables_[g].end();
}

/// The group's entry, as a run of `point` tells it; and of phases that break, which decide what others see.
void GroupTables::take(std::size_t g, const Point& point, const Outcome& outcome) {
  if (!outcome.valid) return;  // a refusal tells nothing
  for (std::size_t other = 0; other < groups_.size(); ++other) {
    const GroupOutcome one = read(groups_[other], outcome, host_budget_);
    const bool tells = other == g ? one.state != GroupOutcome::State::unknown : one.state == GroupOutcome::State::breaks;
    if (tells) tables_[other].try_emplace(project(other, point), one);
  }
}

std::vector<Outcome> GroupTables::run(std::size_t g, const std::vector<Point>& points) {
  std::vector<Outcome> outcomes = own_(g, points);
  for (std::size_t i = 0; i < points.size(); ++i) {
    runs_ += outcomes[i].valid ? 1 : 0;
    take(g, points[i], outcomes[i]);
  }
  return outcomes;
}

void GroupTables::add_anchor(const Point& point) {
  if (anchors_.size() < kMostAnchors && std::find(anchors_.begin(), anchors_.end(), point) == anchors_.end())
    anchors_.push_back(point);
}

void GroupTables::prepare(std::span<const Key> keys) {
  std::set<Key> missing;
  for (const Key& key : keys) {
    Key one{key.first, project(key.first, key.second)};
    if (!known(one.first, one.second)) missing.insert(std::move(one));
  }
  for (std::size_t a = 0; a < anchors_.size() && !missing.empty(); ++a) {
    std::map<std::size_t, std::set<Point>> points;
    for (const auto& [g, projected] : missing) points[g].insert(whole(g, projected, anchors_[a]));
    for (const auto& [g, of_group] : points) run(g, {of_group.begin(), of_group.end()});
    std::erase_if(missing, [&](const Key& key) { return known(key.first, key.second); });
  }
  for (const Key& key : missing) repair(key.first, key.second);
}

/// What the group and the one that breaks first at `point` both depend on; other dimensions at no value.
std::optional<Point> GroupTables::broken_by(std::size_t g, const Point& point) const {
  constexpr std::uint16_t kAny = std::numeric_limits<std::uint16_t>::max();
  for (std::size_t b = 0; b < groups_.size(); ++b) {
    const auto entry = tables_[b].find(project(b, point));
    if (entry == tables_[b].end() || entry->second.state != GroupOutcome::State::breaks) continue;
    Point shared(point.size(), kAny);
    for (std::size_t i = 0; i < point.size(); ++i)
      if (groups_[b].effects[i].any() && groups_[g].effects[i].any()) shared[i] = point[i];
    return shared;
  }
  return std::nullopt;
}

/// No anchor suits the entry: other values elsewhere, one at a time. What is refused, or breaks elsewhere, for a
/// reason that nothing has helped against before is not tried again.
void GroupTables::repair(std::size_t g, const Point& projected) {
  const Point base = whole(g, projected, current_);
  const Outcome first = run(g, {base}).front();
  const std::optional<Point> broken = first.valid ? broken_by(g, base) : std::nullopt;
  const bool hopeless = broken ? broken_.contains({g, *broken}) : refusals_.contains(first.refusal);
  GroupOutcome none;
  none.state = first.valid ? GroupOutcome::State::unknown : GroupOutcome::State::refused;
  for (std::size_t i = 0; i < base.size() && !hopeless; ++i) {
    if (groups_[g].effects[i].any()) continue;
    for (std::uint16_t value = 0; value < space_.dimensions[i].values.size(); ++value) {
      if (value == base[i]) continue;
      Point point = base;
      point[i] = value;
      if (run(g, {point}).front().valid) none.state = GroupOutcome::State::unknown;
      if (!known(g, projected)) continue;
      add_anchor(point);
      return;
    }
  }
  if (none.state == GroupOutcome::State::refused) refusals_.insert(first.refusal);
  if (broken) broken_.insert({g, *broken});
  tables_[g].emplace(projected, none);
}

const GroupOutcome& GroupTables::at(std::size_t g, const Point& point) {
  const Point projected = project(g, point);
  const auto known = tables_[g].find(projected);
  if (known != tables_[g].end()) return known->second;
  const Key key{g, projected};
  prepare(std::span(&key, 1));
  return tables_[g].at(projected);
}

void GroupTables::add_shortage(std::size_t g, const Point& point, Bytes missing) {
  const GroupOutcome& table = at(g, point);
  short_[g].push_back({project(g, point), table.seconds, table.spare + missing, std::nullopt});
}

void GroupTables::add_joint_shortage(const std::set<std::size_t>& groups, const Point& point, Bytes missing) {
  std::vector<Blame>& alternatives = joint_.emplace_back();
  // Were each to take less than its part of it less, it would not be enough.
  const Bytes part = ceil_div(missing, static_cast<Bytes>(groups.size()));
  for (const std::size_t g : groups) {
    alternatives.push_back(static_cast<Blame>(to_blame_.size()));
    to_blame_.push_back(g);
    const GroupOutcome& table = at(g, point);
    short_[g].push_back({project(g, point), table.seconds, table.spare + part, alternatives.back()});
  }
}

Blamed GroupTables::about(std::size_t g, const Blamed& blamed) const {
  Blamed out;
  for (const Blame one : blamed)
    if (to_blame_[one] == g) out.insert(one);
  return out;
}

std::vector<Blame> GroupTables::jointly_short(const Point& point) {
  const auto meet = [&](Blame blame) {
    const std::size_t g = to_blame_[blame];
    const Point mine = project(g, point);
    return std::any_of(short_[g].begin(), short_[g].end(),
                       [&](const Shortage& one) { return one.blame == blame && meets(g, mine, one); });
  };
  for (const std::vector<Blame>& alternatives : joint_)
    if (std::all_of(alternatives.begin(), alternatives.end(), meet)) return alternatives;
  return {};
}

/// Every dimension that decides what runs stands at `other`'s value, or at a hungrier one.
bool GroupTables::runs_no_less(std::size_t g, const Point& point, const Point& other) const {
  for (std::size_t i = 0; i < point.size(); ++i) {
    const DimensionEffect& effect = groups_[g].effects[i];
    if (!effect.seconds || point[i] == other[i]) continue;
    const bool hungrier = effect.frugal == End::first  ? point[i] > other[i]
                          : effect.frugal == End::last ? point[i] < other[i]
                                                       : false;
    if (!hungrier) return false;
  }
  return true;
}

bool GroupTables::meets(std::size_t g, const Point& projected, const Shortage& shortage, Bytes uneven) {
  const GroupOutcome& table = at(g, projected);
  if (table.spare + uneven >= shortage.more) return false;
  // Programs that differ take different time: the same time is the same program.
  return table.seconds == shortage.seconds || runs_no_less(g, projected, shortage.point);
}

bool GroupTables::short_by_exact_run(std::size_t g, const Point& point, const Blamed& blamed, Bytes uneven) {
  if (short_[g].empty()) return false;
  const Point mine = project(g, point);
  return std::any_of(short_[g].begin(), short_[g].end(), [&](const Shortage& one) {
    return (!one.blame || blamed.contains(*one.blame)) && meets(g, mine, one, uneven);
  });
}

}  // namespace headroom::search
