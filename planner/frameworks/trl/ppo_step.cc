#include "planner/frameworks/trl/job.h"
#include "simulator/job/actions.h"

namespace headroom::trl {
namespace {

PhaseSpec between(std::vector<Action> actions) {
  return between_phases(std::move(actions));
}

/// Part of the row that covers the whole update.
PhaseSpec of_update(PhaseKind kind, std::vector<Action> actions, const char* name) {
  PhaseSpec out = make_phase(kind, std::move(actions), name);
  out.within = "train_actor";
  return out;
}

/// Completions of one chunk are scored by all models.
void score_chunk(std::vector<PhaseSpec>& out) {
  out.push_back(between({call_action("actor", "begin_chunk")}));
  out.push_back(make_phase(PhaseKind::ref_logprob, {call_action("ref", "score_reference")}));
  out.push_back(between({call_action("ref", "reference_logprobs")}));
  out.push_back(make_phase(PhaseKind::critic_values, {call_action("critic", "score_values")}));
  out.push_back(make_phase(PhaseKind::reward, {call_action("reward", "score_rewards")}));
}

/// What happens within the update without a row of its own.
PhaseSpec hidden(std::vector<Action> actions) {
  PhaseSpec out = between_phases(std::move(actions));
  out.within = "train_actor";
  return out;
}

/// `optimizer_step`: empty where gradients only add up.
void update_micro_batch(std::vector<PhaseSpec>& out, const std::vector<PhaseSpec>& optimizer_step) {
  out.push_back(hidden({call_action("critic", "take_rows")}));
  out.push_back(of_update(PhaseKind::train_actor,
                          {call_action("critic", "update_values"), call_action("actor", "update_logits")},
                          "forward_policy_value"));
  out.push_back(hidden({call_action("actor", "form_loss")}));
  out.push_back(of_update(PhaseKind::train_actor, {call_action("actor", "backward"), call_action("critic", "end_values_backward")},
                          "backward"));
  for (const PhaseSpec& phase : optimizer_step) out.push_back(phase);
  out.push_back(hidden({call_action("actor", "end_micro_batch")}));
}

}  // namespace

std::vector<PhaseSpec> make_update(const Settings& s) {
  std::vector<PhaseSpec> out;
  const std::int64_t sequences = s.batch * s.accum;
  out.push_back(between({call_action("actor", "take_queries")}));
  Action generate = role_action(Verb::generate, "actor");
  generate.engine = "rollout";
  out.push_back(make_phase(PhaseKind::generate, {generate}));
  for (std::int64_t i = 0; i < sequences; i += s.rollout_batch) score_chunk(out);
  out.push_back(between({call_action("actor", "make_experience")}));

  std::vector<PhaseSpec> step = {
      of_update(PhaseKind::train_actor, {call_action("actor", "step"), call_action("critic", "step")},
                "optimizer_step"),
      hidden({parts_action(Verb::release, "actor", kGradients),
              parts_action(Verb::release, "critic", kGradients)})};
  // Accelerate ends an accumulation with the dataset, whose last update steps after each micro-batch.
  const std::int64_t last_update = s.prompts / sequences;
  std::vector<PhaseSpec> extra;
  if (last_update > 0 && last_update <= s.steps) extra = step;
  for (PhaseSpec& phase : extra) phase.when.every = last_update;
  for (std::int64_t epoch = 0; epoch < s.epochs; ++epoch)
    for (std::int64_t i = 0; i < s.accum; ++i) update_micro_batch(out, i + 1 == s.accum ? step : extra);
  out.push_back(make_phase(PhaseKind::train_actor));
  out.push_back(between({call_action("actor", "end_update")}));
  return out;
}

}  // namespace headroom::trl
