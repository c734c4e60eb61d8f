#include "planner/search/techniques.h"

#include <algorithm>
#include <cstdlib>
#include <map>

namespace headroom::search {
namespace {

constexpr double kWorthNaming = 0.01;  // of the budget

const PhaseOutcome* find(const Outcome& outcome, const std::string& phase) {
  const auto found = std::find_if(outcome.phases.begin(), outcome.phases.end(),
                                  [&](const PhaseOutcome& one) { return one.phase == phase; });
  return found == outcome.phases.end() ? nullptr : &*found;
}

Bytes saved_in(const Outcome& changed, const Outcome& now, const std::string& phase) {
  const PhaseOutcome *after = find(changed, phase), *before = find(now, phase);
  return after == nullptr || before == nullptr ? 0 : after->spare - before->spare;
}

Bytes most_saved(const Technique& technique) {
  Bytes most = 0;
  for (const auto& [phase, bytes] : technique.saved) most = std::max(most, bytes);
  return most;
}

}  // namespace

Technique technique_of(std::string name, std::string what, Change change, const Outcome& now) {
  Technique out{std::move(name), std::move(what), std::move(change), false, 0, false, {}};
  const Outcome& changed = out.change.outcome;
  out.seconds_known = now.seconds > 0 && changed.seconds > 0;
  if (out.seconds_known) out.seconds = changed.seconds - now.seconds;
  for (const PhaseOutcome& phase : now.phases) {
    const Bytes saved = saved_in(changed, now, phase.phase);
    if (static_cast<double>(std::abs(saved)) >= kWorthNaming * static_cast<double>(now.budget))
      out.saved.emplace_back(phase.phase, saved);
  }
  return out;
}

std::vector<Technique> techniques(const Space& space, const std::vector<Change>& changes, const Outcome& now) {
  std::map<std::string, const Change*> best;
  const auto leaves = [&](const Change& change) {
    return std::pair(saved_in(change.outcome, now, now.limiting_phase), -change.outcome.seconds);
  };
  for (const Change& change : changes) {
    const Change*& known = best[change.choices.back().knob];
    if (known == nullptr || leaves(change) > leaves(*known)) known = &change;
  }
  std::vector<Technique> out;
  for (const Dimension& dimension : space.dimensions) {
    const auto found = best.find(dimension.knob.name);
    if (found == best.end()) continue;
    Technique technique = technique_of(dimension.knob.name, dimension.knob.summary, *found->second, now);
    technique.changes_numerics = dimension.knob.changes_numerics;
    if (most_saved(technique) > 0) out.push_back(std::move(technique));
  }
  std::stable_sort(out.begin(), out.end(), [&](const Technique& a, const Technique& b) {
    return saved_in(a.change.outcome, now, now.limiting_phase) > saved_in(b.change.outcome, now, now.limiting_phase);
  });
  return out;
}

}  // namespace headroom::search
