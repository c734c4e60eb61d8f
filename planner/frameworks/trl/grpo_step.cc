#include <algorithm>
#include <numeric>

#include "planner/frameworks/trl/job.h"
#include "simulator/job/actions.h"

namespace headroom::trl {

PhaseSpec part(std::string within, PhaseKind kind, std::vector<Action> actions, const char* name) {
  PhaseSpec out = make_phase(kind, std::move(actions), name);
  out.within = std::move(within);
  return out;
}

PhaseSpec unshown(std::string within, std::string call) {
  PhaseSpec out = between_phases({call_action("actor", std::move(call))});
  out.within = std::move(within);
  return out;
}

std::vector<PhaseSpec> optimizer_step() {
  constexpr PhaseKind kTrain = PhaseKind::train_actor;
  std::vector<PhaseSpec> out = {unshown("train_actor", "clip"),
                                part("train_actor", kTrain, {call_action("actor", "step")}, "optimizer_step"),
                                make_phase(kTrain),
                                between_phases({parts_action(Verb::release, "actor", kGradients)})};
  return out;
}

namespace {

/// Training steps that one generation serves.
std::int64_t served(const Settings& s) {
  return s.steps_per_generation * s.num_iterations;
}

/// Completions that outlive an optimizer step need the policy's log-probs of their own time, and so do those
/// of an engine whose probabilities are corrected for. RLOO always has them.
bool scores_itself(const Settings& s) {
  return s.accum % served(s) != 0 || s.trainer == Trainer::rloo ||
         (s.generation.use_vllm && s.importance_sampling && s.since(0, 23));
}

/// Weights to the engine, then completions; asleep it holds neither weights nor cache.
void engine_phases(const Settings& s, bool stepped, std::vector<PhaseSpec>& out) {
  const auto engine = [&](Verb verb, const char* role = "") {
    out.back().actions.push_back(engine_action(verb, "rollout", role));
  };
  const auto empty = [&] { out.back().actions.push_back(role_action(Verb::empty_cache, "actor")); };
  if (stepped) {
    out.push_back(part("rollout", PhaseKind::weight_sync, {}, "weight_sync"));
    if (s.sleeps()) {
      empty();
      engine(Verb::wake_weights);
    }
    engine(Verb::sync_weights, "actor");
  }
  out.push_back(part("rollout", PhaseKind::generate, {}, "generate"));
  if (s.sleeps()) {
    empty();
    engine(Verb::wake_weights);
    engine(Verb::wake_kv);
  }
  engine(Verb::generate);
  if (!s.sleeps()) return;
  out.push_back(part("rollout", PhaseKind::sleep, {}, "sleep"));
  engine(Verb::sleep);
}

/// Completions for the next training steps, and what scores them. `stepped`: the optimizer has, since the
/// last ones.
std::vector<PhaseSpec> rollout_of(const Settings& s, bool stepped) {
  std::vector<PhaseSpec> out;
  if (s.generation.use_vllm) {
    engine_phases(s, stepped, out);
  } else {
    Action generate = role_action(Verb::generate, "actor");
    generate.engine = "rollout";
    out.push_back(part("rollout", PhaseKind::generate, {generate}, "generate"));
  }
  out.push_back(unshown("rollout", "pad_completions"));
  // With adapters the reference is the policy itself: its forwards have one name.
  const char* own = s.lora > 0 && s.beta != 0 ? "ref_logprob" : "old_logprob";
  if (scores_itself(s))
    out.push_back(part("rollout", PhaseKind::actor_logprob, {role_action(Verb::forward, "actor")}, own));
  if (s.beta != 0)
    out.push_back(
        part("rollout", PhaseKind::ref_logprob, {role_action(Verb::forward, "ref")}, "ref_logprob"));
  out.push_back(part("rollout", PhaseKind::reward, {}, "reward"));
  if (s.reward_model != nullptr)
    out.back().actions.push_back(role_action(Verb::forward, "reward", Output::rewards));
  out.back().actions.push_back(call_action("actor", "score"));
  out.push_back(unshown("rollout", "make_advantages"));
  out.push_back(part("train_step", PhaseKind::generate, {}, "rollout"));
  out.push_back(unshown("train_step", "shuffle"));
  return out;
}

/// One training step: a micro-batch.
std::vector<PhaseSpec> micro_batch() {
  constexpr PhaseKind kTrain = PhaseKind::train_actor;
  std::vector<PhaseSpec> out;
  out.push_back(unshown("loss_forward", "join_micro_batch"));
  out.push_back(part("loss_forward", kTrain, {call_action("actor", "forward_logprobs")}, "forward_logps"));
  out.push_back(unshown("loss_forward", "form_loss"));
  out.push_back(part("train_step", kTrain, {}, "loss_forward"));
  out.push_back(part("train_step", kTrain, {call_action("actor", "backward")}, "backward"));
  out.push_back(unshown("train_step", "detach_loss"));
  out.push_back(part("train_actor", kTrain, {}, "train_step"));
  out.push_back(unshown("train_actor", "add_up_loss"));
  return out;
}

When first_of(std::int64_t every) {
  return {.every = every, .from = 0, .shift = every - 1};
}

void append(std::vector<PhaseSpec>& out, std::vector<PhaseSpec> more) {
  std::move(more.begin(), more.end(), std::back_inserter(out));
}

}  // namespace

std::vector<PhaseSpec> make_training_steps(const Settings& s) {
  std::vector<PhaseSpec> out = {between_phases({call_action("actor", "add_up_loss")})};
  for (PhaseSpec& spec : rollout_of(s, true)) {
    spec.when = first_of(served(s));
    out.push_back(std::move(spec));
  }
  append(out, micro_batch());
  for (PhaseSpec& spec : optimizer_step()) {
    // The row that covers a training step is there without an update too.
    if (spec.name.empty() && spec.kind == PhaseKind::train_actor)
      spec.when.every = 1;
    else
      spec.when.every = s.accum;
    out.push_back(std::move(spec));
  }
  return out;
}

std::int64_t cycle_length(const Settings& s) {
  return std::lcm(s.accum, served(s));
}

std::vector<PhaseSpec> make_cycle(const Settings& s) {
  constexpr std::int64_t kFolded = 4;  // micro-batches from which those in between are run once
  std::vector<PhaseSpec> out = {between_phases({call_action("actor", "add_up_loss")})};
  const bool folds = s.accum >= kFolded && served(s) % s.accum == 0;
  std::int64_t scored_at = -1;  // optimizer steps before the last rollout
  for (std::int64_t i = 0; i < cycle_length(s); ++i) {
    const std::int64_t at = i % s.accum;
    if (i % served(s) == 0) {
      append(out, rollout_of(s, scored_at != i / s.accum));
      scored_at = i / s.accum;
    }
    if (folds && at == 1) out.push_back(unshown("train_actor", "begin_equals"));
    append(out, micro_batch());
    if (folds && at == 1) {
      out.push_back(unshown("train_actor", "end_equals"));
      i += s.accum - 3;
    }
    if (at == s.accum - 1) append(out, optimizer_step());
  }
  return out;
}

}  // namespace headroom::trl
