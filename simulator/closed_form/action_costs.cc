#include "simulator/closed_form/action_costs.h"

#include <optional>

#include "simulator/closed_form/layer_fold.h"

namespace headroom::closed_form {
namespace {

/// Calls `act` with every action of the job in order.
template <typename Act>
Status for_each_action(const Job& job, Act act) {
  for (const PhaseSpec& phase : job.start)
    for (const Action& action : phase.actions) HEADROOM_TRY(act(action, -1));
  for (int step = 0; step < job.steps; ++step)
    for (const PhaseSpec& phase : job.step)
      if (runs_in(phase, step, job.steps))
        for (const Action& action : phase.actions) HEADROOM_TRY(act(action, step));
  return {};
}

/// None when the runs' moments do not pair up.
Result<std::optional<std::vector<ActionCost>>> folded_costs(const LayerFold& fold, const Hardware& hardware,
                                                            std::int64_t rank) {
  ActionRecorder few(fold.few, hardware, rank), more(fold.more, hardware, rank);
  std::vector<ActionCost> out;
  bool pairs = true;
  HEADROOM_TRY(for_each_action(fold.few, [&](const Action& action, int step) -> Status {
    if (!pairs) return {};
    HEADROOM_ASSIGN(const RecordedAction a, few.act(action, step));
    HEADROOM_ASSIGN(const RecordedAction b, more.act(action, step));
    const std::optional<ActionCost> cost = folded(fold, a, b);
    pairs = cost.has_value();
    if (pairs) out.push_back(*cost);
    return {};
  }));
  if (!pairs) return std::nullopt;
  return out;
}

}  // namespace

Result<std::vector<ActionCost>> action_costs(const Job& job, const Hardware& hardware, std::int64_t rank) {
  if (const std::optional<LayerFold> fold = fold_of(job)) {
    HEADROOM_ASSIGN(auto costs, folded_costs(*fold, hardware, rank));
    if (costs) return std::move(*costs);
  }
  ActionRecorder whole(job, hardware, rank);
  std::vector<ActionCost> out;
  HEADROOM_TRY(for_each_action(job, [&](const Action& action, int step) -> Status {
    HEADROOM_ASSIGN(const RecordedAction recorded, whole.act(action, step));
    out.push_back(cost_of(recorded));
    return {};
  }));
  return out;
}

}  // namespace headroom::closed_form
