#include <algorithm>

#include "planner/frameworks/colossalchat/job.h"
#include "planner/frameworks/colossalchat/loop.h"
#include "simulator/job/step_builder.h"
#include "simulator/trainer/repeat_scope.h"

namespace headroom::colossalchat {
namespace {

/// An episode: collects, in each of which models that are only evaluated come to the GPU; then updates, before which
/// they go to the host. Nothing empties the cache but a collect of ColossalChat's before it scores.
class StepMaker : public StepBuilder {
 public:
  explicit StepMaker(const Settings& s) : s_(s) {}

  /// Models are made, then given to the plugin in another order.
  void start() {
    phase(PhaseKind::init);
    for (const char* role : order(s_.coati() ? kCoatiModels : kModels)) act(Verb::build, role);
    for (const char* role : order(s_.coati() ? kCoatiPrepared : kPrepared)) act(Verb::build_optimizer, role);
    if (!s_.resumed) return;
    phase(PhaseKind::load);
    for (const char* role : order(kTrained)) act(Verb::create_states, role);
  }

  void step() {
    if (!s_.rl()) return supervised();
    const std::int64_t collects = trainer::shown_runs(collected());
    for (std::int64_t i = 0; i < collects; ++i) collect(i == 0);
    if (s_.moves_inference()) {
      phase(PhaseKind::sleep, "inference_models_to_host");
      for (const char* role : order(kEvaluated)) act(Verb::offload, role, kWeights);
    }
    const std::int64_t updates = trainer::shown_runs(s_.updates * std::max<std::int64_t>(1, s_.buffer() / s_.train_batch));
    for (std::int64_t i = 0; i < updates; ++i) update();
  }

 private:
  using Roles = std::vector<const char*>;
  static inline const Roles kCoatiModels = {"ref", "reward", "actor", "critic"},
                            kCoatiPrepared = {"actor", "critic", "reward", "ref"},
                            kModels = {"actor", "ref", "reward", "critic"},
                            kPrepared = {"actor", "critic", "reward", "ref"}, kEvaluated = {"ref", "reward"},
                            kTrained = {"actor", "critic"};

  std::int64_t collected() const {
    const std::int64_t at_once =
        s_.program == Program::grpo && s_.inference_batch ? std::min(s_.collected(), *s_.inference_batch) : s_.collected();
    return std::max<std::int64_t>(1, s_.buffer() / at_once);
  }
  bool exists(std::string_view role) const {
    return role == "actor" || (role == "ref" && s_.has_reference()) || (role == "critic" && s_.has_critic()) ||
           (role == "reward" && s_.has_reward());
  }
  Roles order(const Roles& roles) const {
    Roles out;
    std::copy_if(roles.begin(), roles.end(), std::back_inserter(out), [&](const char* role) { return exists(role); });
    return out;
  }
  void call(const char* role, const char* name) { phases_.back().actions.push_back(call_action(role, name)); }

  void collect(bool first) {
    if (first && s_.moves_inference()) {
      phase(PhaseKind::load, "inference_models_to_gpu");
      for (const char* role : order(kEvaluated)) act(Verb::load, role, kWeights);
    }
    between();
    call("actor", "take_prompts");
    phase(PhaseKind::generate);
    Action& generate = act(Verb::generate, "actor");
    generate.engine = "rollout";
    if (!s_.coati()) act(Verb::empty_cache, "actor");
    phase(PhaseKind::actor_logprob);
    call("actor", "score");
    if (s_.has_reference()) {
      phase(PhaseKind::ref_logprob);
      call("ref", "score");
    }
    if (!s_.coati()) {
      phase(PhaseKind::actor_logprob, "gather_logprobs");
      call("actor", "gather");
    }
    // Coati asks the critic first.
    if (s_.coati()) score("critic");
    if (s_.has_reward()) score("reward");
    if (!s_.coati() && s_.has_critic()) score("critic");
    between();
    call("actor", "make_experience");
  }

  void score(const std::string& role) {
    phase(role == "critic" ? PhaseKind::critic_values : PhaseKind::reward);
    forward(role, role == "critic" ? Output::values : Output::rewards);
  }

  void update() {
    between();
    call("actor", "take_batch");
    phase(PhaseKind::train_actor);
    act(Verb::train, "actor");
    if (s_.has_critic()) {
      phase(PhaseKind::train_critic);
      act(Verb::train, "critic");
    }
    if (!s_.coati()) {
      phase(PhaseKind::train_actor, "optimizer_step");
      for (const char* role : order(kTrained)) call(role, "update");
    }
    between();
    call("actor", "end_batch");
  }

  void supervised() {
    if (!s_.follows_sequences()) {
      phase(PhaseKind::train_actor);
      act(Verb::train, "actor");
      return;
    }
    for (std::int64_t i = 0; i < trainer::shown_runs(s_.accumulation); ++i) micro_batch();
  }

  void micro_batch() {
    const bool odds = s_.program == Program::orpo, passes = s_.program == Program::kto;
    if (s_.program != Program::sft) {
      phase(PhaseKind::train_actor, "policy_forward");
      if (passes) call("actor", "forward_kl");
      call("actor", odds ? "forward_labelled" : "forward_policy");
    }
    if (exists("ref")) {
      phase(PhaseKind::ref_logprob);
      if (passes) call("ref", "forward_kl");
      call("ref", "forward_reference");
    }
    phase(PhaseKind::train_actor);
    act(Verb::train, "actor");
  }

  const Settings& s_;
};

}  // namespace

std::vector<PhaseSpec> make_start(const Settings& settings) {
  StepMaker maker(settings);
  maker.start();
  return maker.take();
}

std::vector<PhaseSpec> make_step(const Settings& settings) {
  StepMaker maker(settings);
  maker.step();
  return maker.take();
}

}  // namespace headroom::colossalchat
