#include "simulator/job/residency.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "simulator/job/loop_kind.h"
#include "simulator/job/names.h"

namespace headroom {
namespace {

constexpr int kStepsFollowed = 3;

const char* text(unsigned parts) {
  return (parts & kWeights) != 0     ? "weights"
         : (parts & kOptimizer) != 0 ? "optimizer states"
                                     : "fp32 masters";
}

class Residency {
 public:
  explicit Residency(const Job& job) : job_(job) {}

  Status run(const std::vector<PhaseSpec>& phases, int step, const char* list) {
    for (const PhaseSpec& phase : phases) {
      if (step >= 0 && !runs_in(phase, step, std::max(job_.steps, step + 1))) continue;
      for (const Action& action : phase.actions)
        if (!action.from_step_one || step >= 1)
          HEADROOM_TRY(act(action, fmt::format("{}.{}", list, name(phase.kind))));
    }
    return {};
  }

 private:
  Status act(const Action& action, const std::string& at) {
    const Role* role = job_.role(action.role);
    // Shards that live on the host are streamed to every pass.
    if (role == nullptr || role->sharding.cpu_offload) return {};
    unsigned& away = away_[role->shares_weights_of.empty() ? role->name : role->shares_weights_of];
    if (action.verb == Verb::build) away = 0;
    if (action.verb == Verb::offload || action.verb == Verb::release) away |= action.parts;
    if (action.verb == Verb::load) away &= ~action.parts;
    const unsigned missing = parts_needed(action, role) & away;
    if (missing == 0) return {};
    return fail(Error{.message = fmt::format("expected the {} of role {} on the device, where an earlier "
                                             "offload or release took them away; load them first",
                                             text(missing), action.role),
                      .file = {},
                      .key = fmt::format("{}.{}", at, enum_name(action.verb))});
  }

  const Job& job_;
  std::map<std::string, unsigned> away_;  ///< by the role whose weights they are
};

}  // namespace

Status check_residency(const Job& job) {
  Residency residency(job);
  HEADROOM_TRY(residency.run(job.start, -1, "start"));
  for (int step = 0; step < std::min(job.steps, kStepsFollowed); ++step)
    HEADROOM_TRY(residency.run(job.step, step, "step"));
  return {};
}

}  // namespace headroom
