#include <algorithm>

#include "planner/frameworks/trl/job.h"
#include "simulator/job/actions.h"

namespace headroom::trl {
namespace {

constexpr PhaseKind kTrain = PhaseKind::train_actor;

/// The calls that form the loss of a micro-batch, by role.
std::vector<Action> losses(const Settings& s) {
  if (s.trainer == Trainer::sft) return {call_action("actor", "supervised_loss")};
  if (s.trainer == Trainer::reward) return {call_action("actor", "reward_loss")};
  std::vector<Action> out = {call_action("actor", "policy_logprobs")};
  if (s.has_reference() && !s.precompute) out.push_back(call_action("ref", "reference_logprobs"));
  out.push_back(call_action("actor", "preference_loss"));
  return out;
}

/// One training step: a micro-batch.
void micro_batch(const Settings& s, std::vector<PhaseSpec>& out) {
  out.push_back(unshown("train_step", "take_micro_batch"));
  for (const Action& action : losses(s)) {
    const bool shown = action.role == "ref";
    out.push_back(shown ? part("loss_forward", PhaseKind::ref_logprob, {action}, "ref_forward")
                        : unshown("loss_forward", action.call));
  }
  out.push_back(part("train_step", kTrain, {}, "loss_forward"));
  out.push_back(part("train_step", kTrain, {call_action("actor", "backward")}, "backward"));
  out.push_back(unshown("train_step", "detach_loss"));
  out.push_back(part("train_actor", kTrain, {}, "train_step"));
  out.push_back(unshown("train_actor", "add_up_loss"));
}

}  // namespace

std::vector<PhaseSpec> make_supervised_step(const Settings& s) {
  constexpr std::int64_t kFolded = 4;  // micro-batches from which those in between are run once
  std::vector<PhaseSpec> out = {between_phases({call_action("actor", "add_up_loss")})};
  for (std::int64_t i = 0; i < s.accum; ++i) {
    const bool folds = s.accum >= kFolded && i == 1;
    if (folds) out.push_back(unshown("train_actor", "begin_equals"));
    micro_batch(s, out);
    if (!folds) continue;
    out.push_back(unshown("train_actor", "end_equals"));
    i = s.accum - 2;
  }
  std::vector<PhaseSpec> update = optimizer_step();
  std::move(update.begin(), update.end(), std::back_inserter(out));
  if (!s.evaluates()) return out;
  PhaseSpec evaluation = make_phase(PhaseKind::validate, {call_action("actor", "begin_evaluation"),
                                                          call_action("actor", "take_micro_batch")});
  for (const Action& action : losses(s)) evaluation.actions.push_back(action);
  evaluation.actions.push_back(call_action("actor", "end_evaluation"));
  // A ratio is a part of the run, whose length nothing says here.
  evaluation.when.every = s.eval_steps >= 1 ? static_cast<std::int64_t>(s.eval_steps) : 500;
  out.push_back(std::move(evaluation));
  return out;
}

}  // namespace headroom::trl
