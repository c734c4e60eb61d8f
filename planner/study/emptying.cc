#include "planner/study/emptying.h"

#include <algorithm>

#include "simulator/job/actions.h"

namespace headroom::study {
namespace {

bool trains(PhaseKind kind) {
  return kind == PhaseKind::train_actor || kind == PhaseKind::train_critic;
}

bool infers(PhaseKind kind) {
  constexpr std::array kKinds = {PhaseKind::generate, PhaseKind::reward, PhaseKind::actor_logprob,
                                 PhaseKind::ref_logprob, PhaseKind::critic_values};
  return std::find(kKinds.begin(), kKinds.end(), kind) != kKinds.end();
}

bool empties_after(PhaseKind kind, Emptying when) {
  switch (when) {
    case Emptying::own:
    case Emptying::never:
      return false;
    case Emptying::generation:
      return kind == PhaseKind::generate;
    case Emptying::inference:
      return infers(kind);
    case Emptying::training:
      return trains(kind);
    case Emptying::phases:
    case Emptying::micro_batches:
      return true;
  }
  return false;
}

}  // namespace

std::string_view name(Emptying when) {
  return kEmptyings[static_cast<std::size_t>(when)];
}

std::optional<Emptying> parse_emptying(std::string_view text) {
  const auto at = std::find(kEmptyings.begin(), kEmptyings.end(), text);
  if (at == kEmptyings.end()) return std::nullopt;
  return static_cast<Emptying>(at - kEmptyings.begin());
}

std::vector<Action> empty_actions(const Job& job) {
  std::vector<Action> out;
  if (job.processes.empty() && !job.roles.empty())
    out.push_back(role_action(Verb::empty_cache, job.roles.front().name));
  for (const Process& process : job.processes)
    if (!process.roles.empty()) out.push_back(role_action(Verb::empty_cache, process.roles.front()));
  return out;
}

Job emptied(Job job, Emptying when) {
  const std::vector<Action> empty = empty_actions(job);
  for (PhaseSpec& phase : job.step) {
    const bool own = std::exchange(phase.empties_cache, false);
    if (when != Emptying::own)
      std::erase_if(phase.actions, [](const Action& action) { return action.verb == Verb::empty_cache; });
    if ((when == Emptying::own && own) || (phase.reported && empties_after(phase.kind, when)))
      phase.actions.insert(phase.actions.end(), empty.begin(), empty.end());
  }
  if (when == Emptying::micro_batches)
    for (Role& role : job.roles) role.empties_each_micro_batch = true;
  return job;
}

}  // namespace headroom::study
