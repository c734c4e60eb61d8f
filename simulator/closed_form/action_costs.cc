#include "simulator/closed_form/action_costs.h"

#include <optional>
#include <vector>

#include "models/base/parallel.h"
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

/// An action as it ran, with moments of its own.
struct KeptAction {
  std::vector<CountingMemory::Moment> moments;
  std::vector<std::int32_t> layers;
  RecordedAction recorded;
};

Result<std::vector<KeptAction>> run_all(const Job& job, const Hardware& hardware, std::int64_t rank) {
  ActionRecorder recorder(job, hardware, rank);
  std::vector<KeptAction> out;
  HEADROOM_TRY(for_each_action(job, [&](const Action& action, int step) -> Status {
    HEADROOM_ASSIGN(const RecordedAction recorded, recorder.act(action, step));
    KeptAction& kept = out.emplace_back();
    kept.moments.assign(recorded.moments.begin(), recorded.moments.end());
    kept.layers.assign(recorded.layers.begin(), recorded.layers.end());
    kept.recorded = recorded;
    return {};
  }));
  for (KeptAction& kept : out) {
    kept.recorded.moments = kept.moments;
    kept.recorded.layers = kept.layers;
  }
  return out;
}

/// Both runs at once. None when their moments do not pair up.
Result<std::optional<std::vector<ActionCost>>> folded_costs(const LayerFold& fold, const Hardware& hardware,
                                                            std::int64_t rank) {
  Result<std::vector<KeptAction>> few = std::vector<KeptAction>(), more = few;
  parallel_for(2, 2, [&](std::size_t i) { (i == 0 ? more : few) = run_all(i == 0 ? fold.more : fold.few, hardware, rank); });
  if (!few) return tl::unexpected(few.error());
  if (!more) return tl::unexpected(more.error());
  std::vector<ActionCost> out;
  for (std::size_t i = 0; i < few->size(); ++i) {
    const std::optional<ActionCost> cost = folded(fold, (*few)[i].recorded, (*more)[i].recorded);
    if (!cost) return std::nullopt;
    out.push_back(*cost);
  }
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
