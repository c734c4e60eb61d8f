#include "planner/search/phase_groups.h"

#include <algorithm>
#include <map>
#include <set>

#include "planner/frameworks/settings/effects.h"

namespace headroom::search {
namespace {

/// What happens in the phases of one name.
struct Happening {
  unsigned activities = 0;
  bool syncs = false;
  std::set<std::string> roles;
};

void add(const PhaseSpec& phase, Happening& out) {
  for (const Action& action : phase.actions) {
    if (!action.role.empty()) out.roles.insert(action.role);
    if (action.verb == Verb::sync_weights || action.verb == Verb::export_weights) out.syncs = true;
    if (!action.engine.empty()) out.activities |= kGenerating;
    if (action.verb == Verb::forward || action.verb == Verb::experience) out.activities |= kScoring;
    if (action.verb == Verb::train) out.activities |= kTraining;
    if (action.verb == Verb::call) out.activities |= kScoring | kTraining;  // a trainer's own loop: either
  }
}

/// A flag of the run: a dimension, or set for good.
struct Flag {
  std::optional<std::size_t> dimension;
  bool on = false;
};

Flag flag_of(std::string_view name, const Job& job, const Space& space) {
  Flag out;
  for (std::size_t i = 0; i < space.dimensions.size(); ++i)
    if (space.dimensions[i].knob.name == name && space.dimensions[i].values.size() > 1) out.dimension = i;
  out.on = std::any_of(job.roles.begin(), job.roles.end(), [](const Role& role) { return role.activation_offload; });
  for (const Choice& choice : space.fixed)
    if (choice.knob == name) out.on = choice.value == "true";
  for (const Dimension& dimension : space.dimensions)
    if (dimension.knob.name == name && dimension.values.size() == 1) out.on = dimension.values.front() == "true";
  return out;
}

DimensionEffect effect_on(const Happening& phase, const Knob& knob, const Job& job, const Space& space) {
  unsigned activities = phase.activities == 0 ? unsigned{kResting} : phase.activities;
  if (phase.syncs) activities = (activities & ~unsigned{kGenerating}) | kResting | settings::kSyncing;
  DimensionEffect out;
  if (knob.exact_only) return out;
  if (knob.effects.empty()) out.seconds = out.memory = true;
  bool first_time = true, first_memory = true;
  for (const Effect& effect : knob.effects) {
    if ((effect.activities & activities) == 0) continue;
    if (!effect.role.empty() && !phase.roles.contains(std::string(effect.role))) continue;
    const Flag unless = effect.unless.empty() ? Flag{} : flag_of(effect.unless, job, space);
    const bool ends = unless.dimension || !unless.on;
    if (effect.seconds) {
      const bool loosely = !ends && effect.slack_unless > 0;
      const End faster = ends || loosely ? effect.faster : End::none;
      out.seconds = true;
      out.faster = first_time || out.faster == faster ? faster : End::none;
      out.slack = std::max(out.slack, loosely ? effect.slack_unless : effect.slack);
      out.slack_unless = std::max(out.slack_unless, effect.slack_unless);
      if (unless.dimension) out.time_unless = unless.dimension;
      first_time = false;
    }
    if (effect.memory) {
      const End frugal = ends ? effect.frugal : End::none;
      out.memory = true;
      out.frugal = first_memory || out.frugal == frugal ? frugal : End::none;
      out.uneven = std::max(out.uneven, effect.uneven);
      out.spares_at_end = out.spares_at_end || effect.spares_at_end;
      if (unless.dimension) out.memory_unless = unless.dimension;
      first_memory = false;
    }
  }
  return out;
}

}  // namespace

std::vector<PhaseGroup> phase_groups(const Job& job, const Space& space) {
  std::map<std::string, Happening> happenings;
  std::vector<std::string> order;
  for (const std::vector<PhaseSpec>* list : {&job.start, &job.step})
    for (const PhaseSpec& phase : *list) {
      const std::string shown = phase.name.empty() ? name(phase.kind) : phase.name;
      for (const std::string& row : {shown, phase.within}) {
        if (row.empty()) continue;
        if (!happenings.contains(row)) order.push_back(row);
        add(phase, happenings[row]);
      }
    }
  std::vector<PhaseGroup> groups;
  for (const std::string& phase : order) {
    std::vector<DimensionEffect> effects;
    for (const Dimension& dimension : space.dimensions)
      effects.push_back(effect_on(happenings[phase], dimension.knob, job, space));
    const auto alike = std::find_if(groups.begin(), groups.end(),
                                    [&](const PhaseGroup& group) { return group.effects == effects; });
    if (alike == groups.end())
      groups.push_back({{phase}, std::move(effects)});
    else
      alike->phases.push_back(phase);
  }
  return groups;
}

}  // namespace headroom::search
