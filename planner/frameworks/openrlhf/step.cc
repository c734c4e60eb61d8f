#include <algorithm>

#include "planner/frameworks/openrlhf/job.h"
#include "simulator/job/step_builder.h"

namespace headroom::openrlhf {
namespace {

/// The order of a step: wake, generate, sleep, reward, log-probs of the actor, values, log-probs of the
/// reference, update of the critic and of the actor, weights to the engine, checkpoint. On shared GPUs every
/// scoring model empties its cache before the next one runs. DeepSpeed's sleep brings optimizer states back
/// for an update only; bf16 weights never move.
class StepMaker : public StepBuilder {
 public:
  explicit StepMaker(const Settings& s) : s_(s) {}

  StepMaker& start() {
    if (s_.generates()) {
      phase(PhaseKind::engine_init);
      engine(Verb::start_engine);
      if (sleeps() && s_.since(0, 6, 1)) engine(Verb::sleep);
    }
    phase(PhaseKind::init);
    for (const char* role : {"actor", "ema", "ref", "reward", "critic"})
      if (exists(role)) act(Verb::build, role);
    for (const char* role : {"actor", "critic"})
      if (exists(role)) act(Verb::build_optimizer, role);
    if (s_.resumed) {
      phase(PhaseKind::load);
      for (const char* role : {"actor", "critic"})
        if (exists(role)) act(Verb::create_states, role);
    }
    if (s_.sleeps()) {
      phase(PhaseKind::sleep).name = "deepspeed_sleep";
      for (const char* role : {"actor", "critic"})
        if (exists(role)) offload(role);
    }
    return *this;
  }

  StepMaker& step() {
    if (s_.rl()) {
      generate();
      if (exists("reward")) score(PhaseKind::reward, "reward", Output::rewards, shared("reward"));
      score(PhaseKind::actor_logprob, "actor", Output::logprobs, s_.colocate_all || s_.colocate_actor_ref);
      if (exists("critic")) score(PhaseKind::critic_values, "critic", Output::values, shared("critic"));
      if (exists("ref")) score(PhaseKind::ref_logprob, "ref", Output::logprobs, shared("ref"));
      if (exists("critic")) train(PhaseKind::train_critic, "critic", 0);
      train(PhaseKind::train_actor, "actor", std::max<std::int64_t>(0, s_.freezing_steps));
      if (s_.generates()) sync();
    } else {
      phase(PhaseKind::train_actor);  // DPO's reference has its say within: LossSpec::reference
      act(Verb::train, "actor");
    }
    save();
    return *this;
  }

 private:
  bool sleeps() const { return s_.shares_engine() && s_.engine_sleep; }
  bool exists(const std::string& role) const {
    if (role == "actor") return true;
    if (role == "ema") return s_.ema;
    if (role == "ref") return s_.has_reference();
    if (role == "reward") return s_.has_reward();
    return s_.has_critic();
  }
  bool shared(const std::string& role) const {
    return s_.colocate_all || (role == "ref" ? s_.colocate_actor_ref : s_.colocate_critic_reward);
  }

  void offload(const std::string& role) {
    act(Verb::offload, role, kOptimizer | kMasterWeights);
    act(Verb::empty_cache, role);
  }

  void generate() {
    phase(PhaseKind::generate).overlaps_next = s_.async;
    if (!s_.generates()) {
      act(Verb::generate, "actor");
      return;
    }
    if (sleeps()) {
      engine(Verb::wake_weights);
      engine(Verb::wake_kv);
    }
    engine(Verb::generate);
    if (!sleeps()) return;
    phase(PhaseKind::sleep);
    engine(Verb::sleep);
  }

  void score(PhaseKind kind, const std::string& role, Output output, bool empties) {
    phase(kind);
    forward(role, output);
    if (empties) act(Verb::empty_cache, role);
  }

  void train(PhaseKind kind, const std::string& role, std::int64_t from) {
    phase(kind).when.from = from;
    if (s_.sleeps()) act(Verb::load, role, kOptimizer | kMasterWeights);
    act(Verb::empty_cache, role);
    act(Verb::train, role);
    if (s_.sleeps())
      offload(role);
    else
      act(Verb::empty_cache, role);
  }

  /// Since 0.9.2 the engine's weights alone are awake for it; before, the KV cache too.
  void sync() {
    phase(PhaseKind::weight_sync);
    act(Verb::empty_cache, "actor");
    if (sleeps()) {
      engine(Verb::wake_weights);
      if (!s_.since(0, 9, 2)) engine(Verb::wake_kv);
    }
    engine(Verb::sync_weights, "actor");
    act(Verb::empty_cache, "actor");
    if (sleeps() && !s_.since(0, 9, 2)) engine(Verb::sleep);
  }

  void save() {
    if (s_.save_steps <= 0) return;
    phase(PhaseKind::save_checkpoint).when.every = s_.save_steps;
    act(Verb::save, "actor");
    if (exists("critic")) act(Verb::save, "critic");
  }

  const Settings& s_;
};

}  // namespace

std::vector<PhaseSpec> make_start(const Settings& settings) {
  return StepMaker(settings).start().take();
}

std::vector<PhaseSpec> make_step(const Settings& settings) {
  return StepMaker(settings).step().take();
}

}  // namespace headroom::openrlhf
